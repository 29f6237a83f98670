"""`workbench info`: what a model is, which sites it has, and what a cache of them takes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Annotated, Any

import typer

from ..errors import SpecError
from ..hooked import HookedTransformer, load
from ..recorder import cache_bytes
from ..sites import Site
from ..sizes import size_text
from .tables import print_table

_NUMBERS = ("n_layers", "d_model", "n_heads", "n_kv_heads", "d_head", "d_mlp", "vocab_size", "n_ctx")


def info(
    model: Annotated[str, typer.Argument(help="A model folder, a .gguf file, or a name such as smollm2-135m.")],
    tokens: Annotated[int, typer.Option(help="Length of the text that the cache is reckoned for.", min=1)] = 1024,
    batch: Annotated[int, typer.Option(help="Number of texts.", min=1)] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Print a model's numbers, parameters, sites, and the memory a cache takes."""
    described = describe(load(model, dtype=None), batch, tokens)
    if as_json:
        print(json.dumps(described, indent=1))
    else:
        _print(model, described, batch, tokens)


def describe(model: HookedTransformer, batch: int, tokens: int) -> dict[str, Any]:
    """The same as plain data; bytes are for values in the model's own dtype."""

    def bytes_of(sites: Iterable[Site]) -> int:
        return cache_bytes(list(sites), batch, tokens, model.dtype.itemsize)

    kinds: dict[str, list[Site]] = {}
    for site in model.sites:
        kinds.setdefault(site.short, []).append(site)
    return {
        "numbers": {name: _number(model, name) for name in _NUMBERS},
        "n_params": model.spec.n_params,
        "n_active_params": model.spec.n_active_params,
        "dtype": str(model.dtype).removeprefix("torch."),
        "sites": [_kind(short, sites, bytes_of(sites)) for short, sites in kinds.items()],
        "cache_bytes": {
            "every site": bytes_of(model.sites),
            "streams": bytes_of(s for s in model.sites if s.short.startswith("resid_")),
            "resid_pre": bytes_of(s for s in model.sites if s.short == "resid_pre"),
        },
        "spec": model.spec.to_dict(),
    }


def _number(model: HookedTransformer, name: str) -> int | None:
    try:
        return getattr(model.spec, name)
    except SpecError:  # the layers differ, or none has it
        return None


def _kind(short: str, sites: list[Site], n_bytes: int) -> dict[str, Any]:
    sized = zip(sites[0].axes, sites[0].sizes, strict=True)
    axes = " ".join(word if size is None else f"{word}={size}" for word, size in sized)
    name = sites[0].name.replace(f"blocks.{sites[0].layer}.", "blocks.L.")
    return {"short": short, "name": name, "axes": axes, "count": len(sites), "cache_bytes": n_bytes}


def _print(name: str, described: dict[str, Any], batch: int, tokens: int) -> None:
    numbers = [(key, "differs" if value is None else value) for key, value in described["numbers"].items()]
    numbers += [(key, described[key]) for key in ("n_params", "n_active_params", "dtype")]
    print_table(
        name, ("", "value"), [(key, f"{value:,}" if isinstance(value, int) else value) for key, value in numbers]
    )
    print_table(
        f"sites (cache for {batch} x {tokens} tokens)",
        ("site", "axes", "how many", "cache"),
        [(kind["name"], kind["axes"], kind["count"], size_text(kind["cache_bytes"])) for kind in described["sites"]],
    )
    print_table(
        f"a cache of {batch} x {tokens} tokens",
        ("of", "takes"),
        [(of, size_text(n_bytes)) for of, n_bytes in described["cache_bytes"].items()],
    )
