"""One model in full: its numbers, where its parameters are, what it takes, and its sites."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import torch

from ..arithmetic import costs
from ..errors import SpecError
from ..recorder import cache_bytes
from ..sites import Site, Sites
from ..sizes import count_text, flops_text, size_text
from ..spec import ModelSpec
from .tables import print_table

_NUMBERS = ("n_layers", "d_model", "n_heads", "n_kv_heads", "d_head", "d_mlp", "vocab_size", "n_ctx")


class Described(NamedTuple):
    """What is described, without its weights: dtype is the one that bytes are reckoned in."""

    name: str
    spec: ModelSpec
    sites: Sites
    dtype: torch.dtype


def described(thing: Described, batch: int, tokens: int) -> dict[str, Any]:
    """A model as plain data."""
    spec = thing.spec

    def bytes_of(sites: Iterable[Site]) -> int:
        return cache_bytes(list(sites), batch, tokens, thing.dtype.itemsize)

    kinds: dict[str, list[Site]] = {}
    for site in thing.sites:
        kinds.setdefault(site.short, []).append(site)
    return {
        "name": thing.name,
        "numbers": {name: number(spec, name) for name in _NUMBERS},
        "n_params": spec.n_params,
        "n_active_params": spec.n_active_params,
        "dtype": str(thing.dtype).removeprefix("torch."),
        "costs": costs(spec, thing.dtype, tokens, batch).to_dict(),
        "sites": [_kind(short, sites, bytes_of(sites)) for short, sites in kinds.items()],
        "cache_bytes": {
            "every site": bytes_of(thing.sites),
            "streams": bytes_of(s for s in thing.sites if s.short.startswith("resid_")),
            "resid_pre": bytes_of(s for s in thing.sites if s.short == "resid_pre"),
        },
        "spec": spec.to_dict(),
    }


def number(spec: ModelSpec, name: str) -> int | None:
    """A number that all layers agree on; None where they differ, or none has it."""
    try:
        return getattr(spec, name)
    except SpecError:
        return None


def _kind(short: str, sites: list[Site], n_bytes: int) -> dict[str, Any]:
    sized = zip(sites[0].axes, sites[0].sizes, strict=True)
    axes = " ".join(word if size is None else f"{word}={size}" for word, size in sized)
    name = sites[0].name.replace(f"blocks.{sites[0].layer}.", "blocks.L.")
    return {"short": short, "name": name, "axes": axes, "count": len(sites), "cache_bytes": n_bytes}


def print_described(name: str, found: dict[str, Any], batch: int, tokens: int) -> None:
    numbers = [(key, "no single one" if value is None else value) for key, value in found["numbers"].items()]
    numbers += [(key, found[key]) for key in ("n_params", "n_active_params", "dtype")]
    rows = [(key, f"{value:,}" if isinstance(value, int) else value) for key, value in numbers]
    print_table(name, ("", "value"), rows)
    _print_costs(found["costs"], f"{batch} x {tokens} tokens")
    print_table(
        f"sites (cache for {batch} x {tokens} tokens)",
        ("site", "axes", "how many", "cache"),
        [(kind["name"], kind["axes"], kind["count"], size_text(kind["cache_bytes"])) for kind in found["sites"]],
    )
    print_table(
        f"a cache of {batch} x {tokens} tokens",
        ("of", "takes"),
        [(of, size_text(n_bytes)) for of, n_bytes in found["cache_bytes"].items()],
    )


def _print_costs(costs: Mapping[str, Any], text: str) -> None:
    print_table(
        "parameters",
        ("of", "total", "active"),
        [
            (name.replace("_", " "), f"{count['total']:,}", f"{count['active']:,}")
            for name, count in costs["components"].items()
            if count["total"] or name == "unembedding"  # where it is tied, 0 says so
        ],
    )
    flops = {name: flops_text(value) for name, value in costs["flops_per_token"].items()}
    print_table(
        f"FLOPs a token, the mean over {text}",
        ("", "forward", "training"),
        [
            ("2 N and 6 N, N the active parameters", flops["rule_forward"], flops["rule_training"]),
            ("exactly", flops["forward"], flops["training"]),
            (
                "of these, attention to other tokens",
                flops["attention"],
                flops_text(3 * costs["flops_per_token"]["attention"]),
            ),
        ],
    )
    memory = {name: size_text(value) for name, value in costs["memory"].items()}
    print_table(
        f"memory, in {costs['dtype']}",
        ("to", "takes"),
        [
            ("load", memory["load"]),
            ("train, 16 bytes a parameter, without activations", memory["train"]),
            ("keep keys and values of a token", size_text(costs["kv_bytes_per_token"])),
            (f"keep keys and values of {text}", memory["kv_cache"]),
        ],
    )
    print_table("training", ("", "tokens"), [("compute-optimal, 20 N", count_text(costs["compute_optimal_tokens"]))])
