"""`workbench ablate`: what is lost where a place is kept from saying what it says."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import InputError, count, nearest
from ..loading import load
from ..sweep import ablate as ablation
from .sweep_options import (
    AsJson,
    Correct,
    File,
    Heads,
    Incorrect,
    Labels,
    Layers,
    Metric,
    Model,
    N,
    Neurons,
    Out,
    Over,
    Positions,
    Selection,
    Task,
    Top,
    Window,
    extent,
    where,
)
from .sweep_prompts import Source, Typed, check_labels, check_metric, source_of_texts, texts_of
from .sweep_report import Report, check_outputs, finish, told, with_an_axis

KINDS = {
    "zero": "set to zero",
    "mean": "set to its mean over {}",
    "resample": "set to that of another text, drawn for each from {}",
}
CORRUPTED = "corrupted"  # the reference texts that come with a task


def ablate(
    model: Model,
    texts: Annotated[list[str] | None, typer.Argument(metavar="TEXT", help="One text or several.")] = None,
    correct: Correct = None,
    incorrect: Incorrect = None,
    file: File = None,
    task: Task = None,
    n: N = None,
    seed: Annotated[int | None, typer.Option(help="Of the task's pairs, and of resampling; 0.", min=0)] = None,
    site: Annotated[str, typer.Option(help="What is ablated, in every layer: see workbench info.")] = "z",
    kind: Annotated[str, typer.Option(help="What stands there instead: zero, mean or resample.")] = "zero",
    reference: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Texts for mean and resample, one a line; or corrupted: those of the task."),
    ] = None,
    over: Over = None,
    layers: Layers = None,
    heads: Heads = None,
    neurons: Neurons = None,
    positions: Positions = None,
    labels: Labels = False,
    window: Window = 1,
    selection: Selection = None,
    metric: Metric = None,
    top: Top = 10,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Ablation: take away what one place says, and measure what is lost. Of a task or file, the clean texts are run.

    The metric may also be loss, that of the texts themselves, which wants no answers.
    """
    of_pairs = None if kind == "resample" and task is None else seed
    source = source_of_texts(texts or (), correct or (), incorrect or (), file, task, n, of_pairs)
    check_metric(metric, source)
    known = _reference(kind, reference, source)
    places = where(over, layers, heads, neurons, positions, labels, window, selection)
    check_labels(labels, source)
    check_outputs(out or (), [file, None if known is None else Path(str(reference))])
    loaded = load(model)
    prompts = source.read(loaded)
    measure = metric or prompts.measure
    stands_in = prompts.corrupted if reference == CORRUPTED else known
    if labels:
        places["positions"] = prompts.labels
    with told() as warned:
        result = ablation(
            loaded,
            prompts.clean,
            prompts.metric(measure, loaded),
            site=site,
            kind=kind,
            reference=stands_in,
            seed=seed or 0,
            progress=not as_json,
            **places,
        )
    becomes = KINDS[kind].format(count(len(stands_in or ()), "reference text"))
    done = f"{site} {becomes}{extent(window, selection)}"
    words, result = prompts.words(measure), with_an_axis(result, selection)
    finish(Report("ablate", model, done, measure, words, prompts, result, top, warned), out or (), as_json)


def _reference(kind: str, reference: str | None, source: Source) -> list[str] | None:
    """The texts of a file; None for zeros, and for the corrupted texts, which the source will give."""
    if kind not in KINDS:
        raise InputError(f"--kind is {kind!r}; {nearest(kind, KINDS)}")
    if kind == "zero":
        if reference is not None:
            raise InputError("--reference is for --kind mean and resample; zeros need none")
        return None
    if reference is None:
        raise InputError(f"--kind {kind} wants --reference, a file of texts, or corrupted for those of a --task")
    if reference != CORRUPTED:
        return texts_of(Path(reference))
    if isinstance(source, Typed):
        raise InputError("--reference corrupted is of a --task or --file, and there is none; name a file of texts")
    return None
