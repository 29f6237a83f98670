"""The axes of a sweep as a page lays them out, and its cells between names and numbers.

Layers go down, positions or heads to the right, and a third axis makes sheets. A cell is one number for each axis of
the result, in the result's order: the number that its place has there (layer 23 is 23), or where places have names
(labels), its index among them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..errors import InputError
from ..figures.patching_map import ACROSS, TOKENS, WORDS
from ..figures.tokens import visible
from ..recompute.changes import UNITS
from ..sweep_result import SweepResult


@dataclass(frozen=True)
class Axis:
    """An axis of the result, or one that it has not got: without a name, of a single place.

    places: the number of each place;  names: how each is shown;  at: which axis of the result it is, -1 for none.
    """

    name: str
    places: tuple[int, ...]
    names: tuple[str, ...]
    at: int

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "word": WORDS.get(self.name, self.name),
            "places": list(self.places),
            "names": list(self.names),
            "tokens": self.name in TOKENS,
            "at": self.at,
        }


@dataclass(frozen=True)
class Axes:
    """Which axis goes down, which to the right, and which makes sheets."""

    down: Axis
    across: Axis
    sheets: Axis

    @property
    def order(self) -> list[int]:
        """The axes of the result, as (sheets, down, across)."""
        return [axis.at for axis in (self.sheets, self.down, self.across) if axis.at >= 0]

    @property
    def shape(self) -> tuple[int, int, int]:
        return len(self.sheets.places), len(self.down.places), len(self.across.places)


def axes_of(result: SweepResult) -> Axes:
    """InputError for more than three axes, or an axis without places."""
    if len(result.axes) > 3:
        named = ", ".join(result.axes)
        raise InputError(f"a sweep is shown over at most 3 axes, and this one has {named}; sweep over= fewer")
    for axis in result.axes:
        if not result.places[axis]:
            raise InputError(f"the sweep has no cells to show: its axis {axis!r} is empty")
    rest = list(result.axes)
    down = "layer" if "layer" in rest else rest[0] if len(rest) > 1 else ""
    rest = [axis for axis in rest if axis != down]
    across = next((axis for axis in ACROSS if axis in rest), rest[0] if rest else "")
    sheets = next((axis for axis in rest if axis != across), "")
    return Axes(*(_axis(result, name) for name in (down, across, sheets)))


def _axis(result: SweepResult, name: str) -> Axis:
    if not name:
        return Axis("", (0,), ("",), -1)
    names = tuple(visible(label) if name in TOKENS else label for label in result.labels[name])
    return Axis(name, numbers_of(result, name), names, result.axes.index(name))


def numbers_of(result: SweepResult, axis: str) -> tuple[int, ...]:
    """The number of each place, by which cells go."""
    places = result.places[axis]
    return tuple(place if isinstance(place, int) else index for index, place in enumerate(places))


def one_pair(result: SweepResult, pair: int) -> SweepResult:
    """The sweep of one pair alone."""
    one = [pair]
    corrupted = result.corrupted[one] if result.corrupted.numel() else result.corrupted
    return replace(result, values=result.values[one], clean=result.clean[one], corrupted=corrupted)


def one_sheet(result: SweepResult, axis: Axis, place: int) -> SweepResult:
    """The sweep at one place of an axis, without that axis."""
    index, rest = axis.places.index(place), tuple(name for name in result.axes if name != axis.name)
    return replace(
        result,
        values=result.values.select(axis.at + 1, index),
        unchanged=result.unchanged.select(axis.at, index),
        axes=rest,
        labels={name: result.labels[name] for name in rest},
        places={name: result.places[name] for name in rest},
    )


def index_of(result: SweepResult, cell: Sequence[int]) -> tuple[int, ...]:
    """Where a cell lies in the result's tensors."""
    return tuple(numbers_of(result, axis).index(place) for axis, place in zip(result.axes, cell, strict=True))


def unit_of(result: SweepResult) -> str | None:
    """The axis of heads (or neurons, or experts) of a sweep from which (layer, head) pairs can be selected."""
    return next((axis for axis in UNITS if axis in result.axes), None) if "layer" in result.axes else None
