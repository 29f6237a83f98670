"""`workbench info`: what a model or a preset is and takes, or several side by side."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Annotated

import torch
import typer

from ..errors import InputError, nearest
from ..loading import load
from ..model.transformer import Transformer
from ..presets import presets
from ..spec import ModelSpec
from .compare import compared, print_compared
from .describe import Described, described, print_described

_DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def info(
    models: Annotated[
        list[str] | None,
        typer.Argument(metavar="MODEL", help="Model folders, .gguf files, or names such as smollm2-135m."),
    ] = None,
    preset: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help=f"A named architecture, without weights: {', '.join(presets())}."),
    ] = None,
    tokens: Annotated[
        int | None,
        typer.Option(help="Length of the text that caches and FLOPs are reckoned for; 1024, or the context.", min=1),
    ] = None,
    batch: Annotated[int, typer.Option(help="Number of texts.", min=1)] = 1,
    dtype: Annotated[
        str | None, typer.Option(help="float32, float16 or bfloat16; a model's own, and bfloat16 for a preset.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Print numbers, parameters, sites, and what memory, caches and computing take; of several, a comparison."""
    things = list(_things(models or [], preset or [], None if dtype is None else _dtype(dtype)))
    if not things:
        raise InputError("info needs a model or a preset: workbench info MODEL, or workbench info --preset NAME")
    tokens = tokens or min(1024, *(thing.spec.n_ctx for thing in things))
    if len(things) > 1:
        rows = [compared(thing, batch, tokens) for thing in things]
        print(json.dumps(rows, indent=1)) if as_json else print_compared(rows, batch, tokens)
        return
    found = described(things[0], batch, tokens)
    print(json.dumps(found, indent=1)) if as_json else print_described(things[0].name, found, batch, tokens)


def _things(models: Sequence[str], named: Sequence[str], dtype: torch.dtype | None) -> Iterator[Described]:
    """Models, each let go before the next is read, then presets, of which nothing is allocated."""
    for name in models:
        model = load(name, dtype=None)
        yield Described(name, model.spec, model.sites, dtype or model.dtype)
    for name in named:
        spec = ModelSpec.preset(name)
        with torch.device("meta"):
            sites = Transformer(spec).sites
        yield Described(name, spec, sites, dtype or torch.bfloat16)


def _dtype(name: str) -> torch.dtype:
    if name not in _DTYPES:
        raise InputError(f"--dtype is {name!r}; {nearest(name, _DTYPES)}")
    return _DTYPES[name]
