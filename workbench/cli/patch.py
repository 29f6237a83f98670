"""`workbench patch`: which places carry what makes a clean text's answer and not a corrupted one's."""

from __future__ import annotations

from typing import Annotated

import typer

from ..errors import InputError, nearest
from ..loading import load
from ..sweep import activation_patching
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
from .sweep_prompts import PATCHED, check_labels, check_metric, source_of_pairs
from .sweep_report import Report, check_outputs, finish, told, with_an_axis

DONE = {
    "denoise": "of the clean run into the corrupted one",
    "noise": "of the corrupted run into the clean one",
}


def patch(
    model: Model,
    clean: Annotated[list[str] | None, typer.Option(help="A text; repeated for several pairs.")] = None,
    corrupted: Annotated[list[str] | None, typer.Option(help="The text beside it, of as many tokens.")] = None,
    correct: Correct = None,
    incorrect: Incorrect = None,
    file: File = None,
    task: Task = None,
    n: N = None,
    seed: Annotated[int | None, typer.Option(help="Of the task's pairs; 0.", min=0)] = None,
    site: Annotated[str, typer.Option(help="What is patched, in every layer: see workbench info.")] = "resid_pre",
    over: Over = None,
    direction: Annotated[str, typer.Option(help="denoise: clean into corrupted; noise: the other way.")] = "denoise",
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
    """Activation patching: one place at a time from one run into the other, and what it does to the answer."""
    source = source_of_pairs(clean or (), corrupted or (), correct or (), incorrect or (), file, task, n, seed)
    check_metric(metric, source, PATCHED)
    if direction not in DONE:
        raise InputError(f"--direction is {direction!r}; {nearest(direction, DONE)}")
    places = where(over, layers, heads, neurons, positions, labels, window, selection)
    check_labels(labels, source)
    check_outputs(out or (), [file])
    loaded = load(model)
    prompts = source.read(loaded)
    measure = metric or prompts.measure
    if labels:
        places["positions"] = prompts.labels
    with told() as warned:
        result = activation_patching(
            loaded,
            prompts.clean,
            prompts.corrupted,
            prompts.metric(measure, loaded),
            site=site,
            direction=direction,
            progress=not as_json,
            **places,
        )
    done = f"{site} {DONE[direction]}{extent(window, selection)}"
    words, result = prompts.words(measure), with_an_axis(result, selection)
    finish(Report("patch", model, done, measure, words, prompts, result, top, warned), out or (), as_json)
