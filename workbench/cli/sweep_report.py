"""What a sweep found: as JSON, on the terminal, and as files that can be read again or looked at."""

from __future__ import annotations

import json
import math
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from ..errors import InputError, count, nearest
from ..figures.html import Part, Table, page
from ..figures.patching_map import TOKENS, WORDS
from ..figures.tokens import visible
from ..files import atomic_file, check_writable
from ..sweep_result import SweepResult
from .sweep_prompts import Prompts
from .tables import print_table

SELECTION = "selection"  # the axis of a sweep that has no other
SUFFIXES = (".csv", ".parquet", ".safetensors", ".html")
MEANS = {
    "denoise": "effect: 0 is the corrupted run, 1 the clean one",
    "noise": "effect: 0 is the clean run, 1 the corrupted one",
    "ablate": "effect: the change from the clean run",
}
INTERVAL = "interval: where 95% of the effects of resampled {} lie"
PADDED = "position: a column of texts of unequal length, which end together; --labels goes by what stands there"
_SHOWN = 20  # texts in a report


@dataclass(frozen=True)
class Report:
    """A sweep and what was asked of it.

    done: what was changed, in words. measure: the metric's name, and in words what it measures.
    warned: what the sweep had to say.
    """

    command: str
    model: str
    done: str
    measure: str
    words: str
    prompts: Prompts
    result: SweepResult
    top: int
    warned: list[str]

    @property
    def noun(self) -> str:
        return "text" if self.result.direction == "ablate" else "pair"

    @property
    def n_cells(self) -> int:
        return self.result.mean.numel()

    @property
    def means(self) -> dict[str, float]:
        """Of the untouched runs, over examples."""
        runs = {"clean": self.result.clean, "corrupted": self.result.corrupted}
        return {name: run.mean().item() for name, run in runs.items() if run.numel()}

    @property
    def sentence(self) -> str:
        axes = " x ".join(WORDS.get(axis, axis) for axis in self.result.axes)
        over = "" if self.result.axes == (SELECTION,) else f" at each {axes}"
        return f"{self.done}{over}: {count(self.n_cells, 'cell')}, {count(len(self.result.values), self.noun)}"

    @property
    def work(self) -> str:
        computed, naive = self.result.work
        of = f" of {naive:,}" if computed < naive else ""  # the runs that are recorded may outweigh a cell or two
        return f"work: {computed:,}{of} tokens through a layer"

    @property
    def notes(self) -> list[str]:
        several = len(self.result.values) > 1
        padded = "pos" in self.result.axes and bool(self.result.values.isnan().any())
        return [
            MEANS[self.result.direction],
            *([INTERVAL.format(self.noun + "s")] if several else []),
            *([PADDED] if padded else []),
        ]


def check_outputs(paths: Sequence[Path], read: Sequence[Path | None]) -> None:
    """InputError, before any work is done, for a file that is of no known kind, could not be written, or is read."""
    for path in paths:
        if path.suffix.lower() not in SUFFIXES:
            raise InputError(f"--out is {str(path)!r}, a file of unknown kind; {nearest(path.suffix, SUFFIXES)}")
        if path.suffix.lower() == ".parquet" and find_spec("pyarrow") is None:
            raise InputError(f"--out is {str(path)!r}, which needs pyarrow (pip install pyarrow); .csv needs nothing")
        if path.resolve() in [other.resolve() for other in read if other is not None]:
            raise InputError(f"--out is {str(path)!r}, the file that is read; another one is wanted")
        check_writable(path)


@contextmanager
def told() -> Iterator[list[str]]:
    """What is warned of, as sentences on the error stream rather than lines of code."""
    sentences: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield sentences
    for warning in caught:
        sentences.append(str(warning.message))
        print("workbench:", sentences[-1], file=sys.stderr)


def finish(report: Report, out: Sequence[Path], as_json: bool) -> None:
    """Print and write."""
    if not as_json:
        _print(report)
    for path in out:
        write(report, path)
        if not as_json:
            print(f"written: {path.resolve()}")
    if as_json:
        print(json.dumps(as_data(report) | {"files": [str(path.resolve()) for path in out]}, indent=1))


def with_an_axis(result: SweepResult, selection: str | None) -> SweepResult:
    """A selection that is changed at once at all positions is one place without axes: an axis of that one place."""
    if result.axes:
        return result
    names = {SELECTION: (str(selection),)}
    values, unchanged = result.values[:, None], result.unchanged[None]
    return replace(result, values=values, unchanged=unchanged, axes=(SELECTION,), labels=names, places=names)


def strongest(result: SweepResult, top: int) -> list[dict[str, Any]]:
    """The cells with the largest effects of either sign, largest first: places, the mean value and its effect, and
    an interval, None for a single example. Where there is no effect, because clean and corrupted do not differ, what
    moved the metric most."""
    effect, moved = result.effect.flatten() + 0.0, result.mean.flatten() - result.clean.mean()  # no -0
    strength = (effect if effect.isfinite().any() else moved).abs()
    chosen = strength.nan_to_num(-1).argsort(descending=True, stable=True)[:top]
    intervals = _interval(result, chosen)
    found = []
    for cell, interval in zip(chosen.tolist(), intervals, strict=True):
        at = torch.unravel_index(torch.tensor(cell), result.mean.shape)
        place = _place(result, [int(index) for index in at])
        value = result.mean.flatten()[cell].item()
        found.append({**place, "value": value, "effect": effect[cell].item(), "interval": interval})
    return found


def _interval(result: SweepResult, cells: torch.Tensor) -> list[list[float] | None]:
    """Of these cells only: each takes thousands of resampled effects."""
    if len(result.values) == 1:
        return [None] * len(cells)
    names = tuple(map(str, range(len(cells))))
    few = replace(
        result,
        values=result.values.flatten(1)[:, cells],
        axes=("cell",),
        labels={"cell": names},
        places={"cell": names},
        unchanged=result.unchanged.flatten()[cells],
    )
    return few.interval().t().tolist()


def _place(result: SweepResult, at: list[int]) -> dict[str, Any]:
    """A cell's number (or name) on each axis, and its token, where an axis is labelled with them."""
    place: dict[str, Any] = {}
    for axis, index in zip(result.axes, at, strict=True):
        place[axis] = result.places[axis][index]
        if axis in TOKENS and result.labels[axis] != tuple(map(str, result.places[axis])):
            place["token" if axis == "pos" else f"{axis}_token"] = result.labels[axis][index]
    return place


def as_data(report: Report) -> dict[str, Any]:
    """Plain data; None for what is no number."""
    result = report.result
    return _without_nan(
        {
            "command": report.command,
            "model": report.model,
            "site": result.site,
            "direction": result.direction,
            "metric": report.measure,
            "n_examples": len(result.values),
            "axes": list(result.axes),
            "n_cells": report.n_cells,
            "n_unchanged": int(result.unchanged.sum()),
            **report.means,
            "strongest": strongest(result, report.top),
            "work": result.work._asdict(),
            "warnings": report.warned,
        }
    )


def _without_nan(data: Any) -> Any:
    if isinstance(data, dict):
        return {name: _without_nan(value) for name, value in data.items()}
    if isinstance(data, list):
        return [_without_nan(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


# ---- the terminal --------------------------------------------------------------------------------------


def _print(report: Report) -> None:
    print(report.sentence)
    texts = {"clean": report.prompts.clean, "corrupted": report.prompts.corrupted}
    for name, mean in report.means.items():
        several = len(texts[name]) > 1
        print(f"{name:<9}  {texts[name][0]!r}" + (f" and {len(texts[name]) - 1} more" if several else ""))
        print(f"{'':<9}  {'mean ' if several else ''}{report.words} = {_decimals([mean])[0]}")
    cells = strongest(report.result, report.top)
    columns = _columns(report, cells)
    aligned = [_aligned(name, column) for name, column in columns.items()]
    shown = f"strongest {len(cells)} of {report.n_cells:,}" if len(cells) < report.n_cells else "strongest first"
    print()
    print_table(shown, [name for name, _ in aligned], list(zip(*(column for _, column in aligned), strict=True)))
    for note in (*report.notes, report.work):
        print(note)


def _columns(report: Report, cells: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Of the table: places, tokens made visible, value, effect, and the ends of the interval if there are several
    examples."""
    names = [name for name in cells[0] if name not in ("value", "effect", "interval")]
    columns: dict[str, list[Any]] = {}
    for name in names:
        of_tokens = name.endswith("token")
        heading = name.replace("_", " ") if of_tokens else WORDS.get(name, name)
        columns[heading] = [visible(cell[name]) if of_tokens else cell[name] for cell in cells]
    columns[report.measure] = [cell["value"] for cell in cells]
    columns["effect"] = [cell["effect"] for cell in cells]
    if len(report.result.values) > 1:
        columns["from"], columns["to"] = ([cell["interval"][end] for cell in cells] for end in (0, 1))
    return columns


def _aligned(name: str, column: list[Any]) -> tuple[str, list[Any]]:
    """Small numbers with the decimals that they need, as texts whose points stand below each other."""
    if not isinstance(column[0], float):
        return name, column
    texts = _decimals(column)
    width = max(map(len, [name, *texts]))
    return f"{name:>{width}}", [f"{text:>{width}}" for text in texts]


def _decimals(numbers: Sequence[float]) -> list[str]:
    """Three decimals, or as many as leave three figures to the largest; with a power of ten if these are many."""
    largest = max((abs(number) for number in numbers if math.isfinite(number)), default=0.0)
    decimals = 3 if largest >= 0.1 or largest == 0 else 2 - math.floor(math.log10(largest))
    return [f"{number:.{decimals}f}" if decimals <= 6 else f"{number:.2e}" for number in numbers]


# ---- files ---------------------------------------------------------------------------------------------


def write(report: Report, path: Path) -> None:
    """Whole or not at all, in the kind that its name ends with."""
    suffix = path.suffix.lower()
    if suffix == ".safetensors":
        report.result.save(path)
        return
    with atomic_file(path) as temporary:
        if suffix == ".html":
            temporary.write_text(html(report), "utf-8")
        elif suffix == ".csv":
            report.result.to_dataframe().to_csv(temporary, index=False, lineterminator="\n", encoding="utf-8")
        else:
            report.result.to_dataframe().to_parquet(temporary, engine="pyarrow", index=False)


def html(report: Report) -> str:
    """One page with the figure, the baselines and the strongest cells, complete in itself."""
    columns = _columns(report, strongest(report.result, report.top))
    baselines = Table(["run", report.words], [[name, mean] for name, mean in report.means.items()])
    table = Table(list(columns), list(zip(*columns.values(), strict=True)))
    sections: list[tuple[str, list[Part]]] = [
        ("What was done", [f"{report.model}: {report.sentence}.", *report.warned, baselines]),
        ("The effect of each place", [_figure(report), *(note + "." for note in report.notes)]),
        ("The strongest places", [table, report.work + "."]),
        (report.noun.capitalize() + "s", _texts(report)),
    ]
    return page(f"workbench {report.command}: {report.result.site}", sections)


def _figure(report: Report) -> Part:
    """The heat map, or why there is none."""
    try:
        return report.result.figure()
    except InputError as error:
        return f"There is no figure: {error}."


def _texts(report: Report) -> list[Part]:
    """Each with what was measured of it, where it is not too many."""
    n, result = len(report.result.values), report.result
    clean = [["clean", value.item(), text] for text, value in zip(report.prompts.clean, result.clean, strict=True)]
    rows = clean[:_SHOWN]
    if result.corrupted.numel():
        other = zip(report.prompts.corrupted, result.corrupted, strict=True)
        corrupted = [["corrupted", value.item(), text] for text, value in other]
        rows = [row for pair in zip(clean[:_SHOWN], corrupted[:_SHOWN], strict=True) for row in pair]
    first = [f"The first {_SHOWN} of {n}."] if n > _SHOWN else []
    return [*first, Table(["run", report.measure, "text"], rows)]
