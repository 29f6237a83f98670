"""Choosing by number: layers, and the positions, heads and neurons of a value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import index
from typing import Any, TypeAlias

import torch
from torch import Tensor

from ..errors import InterventionError, KindError
from ..hooks import Columns
from ..sites import Site

Choice: TypeAlias = int | Sequence[int] | None
Region: TypeAlias = tuple[slice | Tensor, ...]

POSITIONS, HEADS, NEURONS = ("pos", "query"), ("head", "kv_head"), ("d_mlp",)  # the words of axes that are chosen from


def rows_of_pass(positions: int | Sequence[int], columns: Columns, n_rows: int) -> list[int]:
    """Those of the chosen columns that a pass of n_rows positions runs through, counted within the pass."""
    rows = (column - columns.start for column in columns_of(positions, columns))
    return [row for row in rows if 0 <= row < n_rows]


def columns_of(positions: int | Sequence[int], columns: Columns) -> list[int]:
    """The chosen columns of the whole text."""
    return within(positions, columns.total, "position", end=columns.prompt)


def region_of(site: Site, shape: Sequence[int], chosen: Mapping[tuple[str, ...], Choice]) -> Region:
    """An index into a value at a site: of each axis, by the words that it may have, the chosen numbers or all."""
    restricted: dict[int, list[int]] = {}
    for words, choice in chosen.items():
        if choice is None:
            continue
        axis = axis_of(site, words)
        restricted[axis] = within(choice, shape[axis], site.axes[axis])
    return _outer(restricted, len(shape))


def axis_of(site: Site, words: tuple[str, ...]) -> int:
    for axis, word in enumerate(site.axes):
        if word in words:
            return axis
    raise InterventionError(f"{site.name} [{' '.join(site.axes)}] has no {words[0]} axis to choose from")


def _outer(restricted: dict[int, list[int]], n_axes: int) -> Region:
    """One index per axis; several restricted axes broadcast against each other, so that all pairs are meant."""
    region: list[slice | Tensor] = [slice(None)] * n_axes
    for place, (axis, chosen) in enumerate(sorted(restricted.items())):
        region[axis] = torch.tensor(chosen).view(-1, *[1] * (len(restricted) - 1 - place))
    return tuple(region)


def within(choice: int | Sequence[int], size: int, word: str, end: int | None = None) -> list[int]:
    """Chosen numbers counted from the front; InterventionError for none, or one that does not exist.

    end: where negative numbers count from; None for the size."""
    end = size if end is None else end
    chosen = numbers_of(choice)
    if chosen is None:
        raise KindError(f"each {word} is chosen by its number, an int or a list of ints; {choice!r} came")
    if not chosen:
        raise InterventionError(f"an empty choice of {word} selects nothing")
    if outside := [number for number in chosen if not -end <= number < size]:
        counted = "" if end == size else f", or -{end} to -1 from the end of the prompt"
        raise InterventionError(f"{word} {outside[0]} was chosen; each {word} is one of 0 to {size - 1}{counted}")
    return [number if number >= 0 else number + end for number in chosen]


def numbers_of(choice: Any) -> list[int] | None:
    """One int or several, also numpy's and tensors'; None for anything else."""
    if isinstance(choice, bool) or getattr(choice, "dtype", None) in (torch.bool, "bool"):
        return None
    try:
        return [index(choice)]
    except TypeError:
        pass
    try:
        return None if any(isinstance(number, bool) for number in choice) else [index(number) for number in choice]
    except TypeError:
        return None
