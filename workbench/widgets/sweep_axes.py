"""The axes of a sweep as a page lays them out, and its cells between names and numbers.

Layers go down, positions or heads to the right, and a third axis makes sheets. A cell is one number for each axis of
the result, in the result's order: the number that its place has there (layer 23 is 23), or where places have names
(labels), its index among them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import index as as_int
from typing import Any

from ..errors import InputError, KindError, nearest
from ..figures.patching_map import ACROSS, TOKENS, WORDS
from ..figures.tokens import visible
from ..recompute.changes import UNITS
from ..sweep.grid import pairs_of
from ..sweep_result import SweepResult

Pair = tuple[int, int]


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
    return Axis(name, _numbers(result, name), names, result.axes.index(name))


def _numbers(result: SweepResult, axis: str) -> tuple[int, ...]:
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


def cell_of(result: SweepResult, given: object) -> list[int]:
    """A cell that somebody names, by numbers or names of its places; [] is none. KindError or InputError."""
    form = "[" + ", ".join(result.axes) + "]"
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise KindError(f"a cell is a list {form}, not {type(given).__name__}")
    if not given:
        return []
    if len(given) != len(result.axes):
        wanted = f"{form} is wanted" if result.axes else "this sweep is one cell, which is not chosen"
        raise InputError(f"{list(given)!r} names no cell: {wanted}")
    return [_place(result, axis, place) for axis, place in zip(result.axes, given, strict=True)]


def _place(result: SweepResult, axis: str, given: object) -> int:
    numbers = _numbers(result, axis)
    if isinstance(given, str):
        names = [place for place in result.places[axis] if isinstance(place, str)]
        if given not in names:
            raise InputError(f"there is no {axis} {given!r}; {nearest(given, names or map(str, numbers))}")
        return names.index(given)
    number = _whole(given, f"a cell's {axis}")
    if number not in numbers:
        raise InputError(f"there is no {axis} {number} in this sweep; {nearest(str(number), map(str, numbers))}")
    return number


def index_of(result: SweepResult, cell: Sequence[int]) -> tuple[int, ...]:
    """Where a cell lies in the result's tensors."""
    return tuple(_numbers(result, axis).index(place) for axis, place in zip(result.axes, cell, strict=True))


def unit_of(result: SweepResult) -> str | None:
    """The axis of heads (or neurons, or experts) of a sweep from which (layer, head) pairs can be selected."""
    return next((axis for axis in UNITS if axis in result.axes), None) if "layer" in result.axes else None


def selection_of(result: SweepResult, given: object) -> list[Pair]:
    """(layer, head) pairs, each once, in the order given. KindError or InputError."""
    pairs = list(dict.fromkeys(pairs_of(given, "a selection")))
    unit = unit_of(result)
    if pairs and unit is None:
        raise InputError(f"this sweep has no (layer, head) to select: its axes are {', '.join(result.axes) or 'none'}")
    for layer, head in pairs:
        _place(result, "layer", layer)
        _place(result, str(unit), head)
    return pairs


def example_of(result: SweepResult, given: object) -> int:
    """The number of a pair, or -1 for all."""
    pair, n = _whole(given, "a pair"), len(result.values)
    if not -1 <= pair < n:
        raise InputError(f"there is no pair {pair}: pairs go from 0 to {n - 1}, and -1 is all of them")
    return pair


def sheet_of(result: SweepResult, axes: Axes, given: object) -> int:
    """The number of a place on the third axis, or -1 for the strongest along it."""
    number = _whole(given, "a slice")
    if number == -1:
        return number
    if axes.sheets.at < 0:
        raise InputError(f"this sweep has no third axis, and its slice is -1; {number} came")
    return _place(result, axes.sheets.name, number)


def _whole(given: Any, what: str) -> int:
    try:
        if isinstance(given, bool):
            raise TypeError
        return as_int(given)
    except TypeError:
        raise KindError(f"{what} is a whole number; {given!r} came") from None
