"""Where a sweep looks, as it is written on the command line: options that `patch` and `ablate` share."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import InputError, nearest

Model = Annotated[
    str, typer.Argument(help="A model folder, a .gguf file, or a name such as smollm2-135m.", show_default=False)
]
Correct = Annotated[
    list[str] | None,
    typer.Option(help="The right answer, one token with its leading space; one for all, or repeated for each text."),
]
Incorrect = Annotated[list[str] | None, typer.Option(help="The wrong answer, alike.")]
File = Annotated[
    Path | None, typer.Option(help="Pairs as .csv or .jsonl: clean, corrupted, correct, incorrect, label:NAME.")
]
Task = Annotated[str | None, typer.Option(help="Pairs made here: ioi, greater-than, induction or capitals.")]
N = Annotated[int | None, typer.Option(help="How many pairs of the task; 32.", min=1)]
Metric = Annotated[
    str | None,
    typer.Option(
        help="logit_diff or prob_diff of both answers; logit, logprob, prob or rank of the right one; kl_from, the "
        "divergence from the clean prediction. The task's own, or logit_diff."
    ),
]
Over = Annotated[
    str | None, typer.Option(metavar="AXES", help="The grid, such as layer,pos or layer,head; the site's usual one.")
]
Layers = Annotated[str | None, typer.Option(metavar="NUMBERS", help="These only, such as 3,5-8; -1 is the last.")]
Heads = Annotated[str | None, typer.Option(metavar="NUMBERS", help="These only.")]
Neurons = Annotated[str | None, typer.Option(metavar="NUMBERS", help="These only.")]
Positions = Annotated[str | None, typer.Option(metavar="NUMBERS", help="These only, in tokens from 0.")]
Labels = Annotated[bool, typer.Option("--labels", help="Positions by the labels of the task or file.")]
Window = Annotated[int, typer.Option(help="How many layers are changed at a time.", min=1)]
Selection = Annotated[
    str | None, typer.Option(metavar="HEADS", help="Heads changed all at once, as layer.head: 9.6,9.9.")
]
Top = Annotated[int, typer.Option(help="How many of the strongest places are shown.", min=1)]
Out = Annotated[
    list[Path] | None,
    typer.Option(help="A file for the result: .csv, .parquet, .safetensors or .html; may be repeated."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print baselines, strongest places, work and files as JSON.")]

AXES = ("layer", "pos", "head", "kv_head", "d_mlp", "expert", "query", "key", "label")
_MOST = 100_000  # numbers that a range may hold: more is a slip of the finger


def where(
    over: str | None,
    layers: str | None,
    heads: str | None,
    neurons: str | None,
    positions: str | None,
    labels: bool,
    window: int,
    selection: str | None,
) -> dict[str, Any]:
    """As arguments of a sweep; InputError for what cannot be meant. Labels are added once they are known."""
    if labels and positions is not None:
        raise InputError("--labels and --positions both say which positions; choose one of them")
    if selection is not None and (layers, heads, neurons, window) != (None, None, None, 1):
        raise InputError("--selection says which layers and heads; leave --layers, --heads, --neurons and --window out")
    chosen = {"layers": layers, "heads": heads, "neurons": neurons, "positions": positions}
    numbers = {name: numbers_of(f"--{name}", given) for name, given in chosen.items() if given is not None}
    pairs = {} if selection is None else {"selection": heads_of("--selection", selection)}
    axes = {} if over is None else {"over": axes_of(over)}
    return {**axes, **numbers, **pairs, "window": window}


def extent(window: int, selection: str | None) -> str:
    """What is changed at a time, where that is more than one place: to be said after what is done."""
    if selection is not None:
        return f", heads {', '.join(part.strip() for part in selection.split(','))} at once"
    return f", {window} layers at a time" if window > 1 else ""


def numbers_of(option: str, given: str) -> list[int]:
    """'3,5-8' as [3, 5, 6, 7, 8]: each number once."""
    found: dict[int, None] = {}
    for part in given.split(","):
        fit = re.fullmatch(r"(-?[0-9]+)(?:-(-?[0-9]+))?", part.strip())
        if fit is None:
            raise InputError(f"{option} is {given!r}; numbers and ranges are wanted, such as 3,5-8")
        first = int(fit[1])
        last = first if fit[2] is None else int(fit[2])
        if (first < 0) != (last < 0):
            raise InputError(f"{option} has the range {part.strip()}, one end of which is counted from the last")
        if last < first:
            raise InputError(f"{option} has the range {part.strip()}, which ends before it starts")
        if last - first >= _MOST:
            raise InputError(f"{option} has the range {part.strip()}, which is longer than {_MOST:,}")
        found |= dict.fromkeys(range(first, last + 1))
    return list(found)


def heads_of(option: str, given: str) -> list[tuple[int, int]]:
    """'9.6,9.9' as [(9, 6), (9, 9)]."""
    fits = [re.fullmatch(r"(-?[0-9]+)\.(-?[0-9]+)", part.strip()) for part in given.split(",")]
    found = [(int(fit[1]), int(fit[2])) for fit in fits if fit]
    if len(found) < len(fits):
        raise InputError(f"{option} is {given!r}; heads are wanted as layer.head, such as 9.6,9.9")
    return found


def axes_of(given: str) -> tuple[str, ...]:
    """'layer,pos' as ("layer", "pos")."""
    axes = tuple(part.strip() for part in given.split(","))
    for axis in axes:
        if axis not in AXES:
            raise InputError(f"--over has the axis {axis!r}; {nearest(axis, AXES)}")
        if axes.count(axis) > 1:
            raise InputError(f"--over has the axis {axis!r} more than once")
    return axes
