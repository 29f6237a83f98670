"""What can be chosen of a sweep on a page: each choice checked, and all of them as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import index as as_int
from typing import Any

from ..errors import InputError, KindError, nearest
from ..sweep.grid import pairs_of
from ..sweep_result import SweepResult
from .sweep_axes import Axes, numbers_of, unit_of

CHOICES = ("cell", "pair", "show", "slice", "selection")
SHOWS = ("effect", "value")


@dataclass(frozen=True)
class SweepChoices:
    result: SweepResult
    axes: Axes

    def check(self, name: str, given: Any) -> Any:
        """A choice as it is kept. Raises KindError or InputError where it is not there to be made."""
        if name == "cell":
            return cell_of(self.result, given)
        if name == "pair":
            return example_of(self.result, given)
        if name == "slice":
            return sheet_of(self.result, self.axes, given)
        if name == "selection":
            return selection_of(self.result, given)
        if not isinstance(given, str) or given not in SHOWS:
            raise InputError(f"show is {given!r}; {nearest(str(given), SHOWS)}")
        return given

    def to_state(self, choices: Mapping[str, Any]) -> dict[str, Any]:
        """The choices as JSON, with what they are of."""
        return {"of": self._of, **choices, "selection": [list(pair) for pair in choices["selection"]]}

    def of_state(self, state: object) -> dict[str, Any]:
        """The choices in a state. KindError for what is none, InputError for that of another sweep."""
        wanted = {"of", *CHOICES}
        if not isinstance(state, dict) or set(state) != wanted:
            came = sorted(map(str, state)) if isinstance(state, dict) else type(state).__name__
            raise KindError(f"state is {came}; that of a PatchingDashboard is wanted, with {', '.join(sorted(wanted))}")
        if state["of"] != self._of:
            raise InputError(f"state is of another sweep: {state['of']}, and this one is {self._of}")
        return {name: self.check(name, state[name]) for name in CHOICES}

    @property
    def _of(self) -> dict[str, Any]:
        result = self.result
        shape = {axis: len(result.places[axis]) for axis in result.axes}
        return {"site": result.site, "direction": result.direction, "shape": shape, "pairs": len(result.values)}


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
    numbers = numbers_of(result, axis)
    if isinstance(given, str):
        names = [place for place in result.places[axis] if isinstance(place, str)]
        if given not in names:
            raise InputError(f"there is no {axis} {given!r}; {nearest(given, names or map(str, numbers))}")
        return names.index(given)
    number = _whole(given, f"a cell's {axis}")
    if number not in numbers:
        raise InputError(f"there is no {axis} {number} in this sweep; {nearest(str(number), map(str, numbers))}")
    return number


def selection_of(result: SweepResult, given: object) -> list[tuple[int, int]]:
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
