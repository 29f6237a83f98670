"""What every intervention shares: where it acts, and how it becomes a hook."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from operator import index
from typing import Any, TypeAlias

import torch
from torch import Tensor

from ..errors import InterventionError, KindError
from ..hooks import At, Columns, Hook
from ..sites import Selector, Site, Sites

Choice: TypeAlias = int | Sequence[int] | None
Region: TypeAlias = tuple[slice | Tensor, ...]


@dataclass(frozen=True)
class Intervention(ABC):
    """A change at one kind of site.

    layers, positions, heads: which of them, by number, from the end when negative (None: all). Positions are columns
    of the text; while tokens are generated those of the new ones follow, and negative ones count from the end of the
    prompt. Heads are kv heads at k and v.
    """

    site: Selector
    layers: Choice = None
    positions: Choice = None
    heads: Choice = None

    @abstractmethod
    def changed(self, value: Tensor, at: At, region: Region) -> Tensor:
        """What the region of the value becomes, in the shape of value[region]."""

    def bind(self, sites: Sites) -> Sequence[tuple[Site, Hook]]:
        """The sites it changes, each with the hook that does it; InterventionError when there is none."""
        chosen = sites.select(self.site)
        if self.layers is not None:
            existing = max((site.layer for site in sites if site.layer is not None), default=-1) + 1
            layers = within(self.layers, existing, "layer")
            chosen = [site for site in chosen if site.layer in layers]
        if not chosen:
            raise InterventionError(f"no site {self.site!r} lies in layers {self.layers}")
        for site in chosen:
            self.check(site)
        return [(site, self.apply) for site in chosen]

    def check(self, site: Site) -> None:
        """What can be known before a run: the site has the heads and positions to choose from."""
        if self.heads is not None:
            axis = axis_of(site, ("head", "kv_head"))
            within(self.heads, site.sizes[axis] or 0, site.axes[axis])
        if self.positions is not None:
            axis_of(site, ("pos", "query"))

    def check_run(self, value: Tensor, at: At) -> None:
        """What can be known at a site's first pass: that this run is one that the change fits."""

    def apply(self, value: Tensor, at: At) -> Tensor | None:
        """The hook: the value with its region changed; None where this pass has nothing of the region."""
        self.check_run(value, at)
        rows = None
        if self.positions is not None:
            rows = rows_of_pass(self.positions, at.columns, value.shape[axis_of(at.site, ("pos", "query"))])
            if not rows:
                return None
        region = region_of(at.site, value.shape, rows, self.heads)
        value[region] = self.changed(value, at, region)
        return value


def rows_of_pass(positions: int | Sequence[int], columns: Columns, n_rows: int) -> list[int]:
    """Those of the chosen columns that a pass of n_rows positions runs through, counted within the pass."""
    rows = (column - columns.start for column in columns_of(positions, columns))
    return [row for row in rows if 0 <= row < n_rows]


def columns_of(positions: int | Sequence[int], columns: Columns) -> list[int]:
    """The chosen columns of the whole text."""
    return within(positions, columns.total, "position", end=columns.prompt)


def region_of(site: Site, shape: Sequence[int], positions: Choice, heads: Choice) -> Region:
    """An index into a value at a site: the chosen positions (or queries) and heads, all of every other axis."""
    restricted: dict[int, list[int]] = {}
    for words, choice in ((("pos", "query"), positions), (("head", "kv_head"), heads)):
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
    chosen = _numbers(choice)
    if chosen is None:
        raise KindError(f"each {word} is chosen by its number, an int or a list of ints; {choice!r} came")
    if not chosen:
        raise InterventionError(f"an empty choice of {word} selects nothing")
    if outside := [number for number in chosen if not -end <= number < size]:
        counted = "" if end == size else f", or -{end} to -1 from the end of the prompt"
        raise InterventionError(f"{word} {outside[0]} was chosen; each {word} is one of 0 to {size - 1}{counted}")
    return [number if number >= 0 else number + end for number in chosen]


def _numbers(choice: Any) -> list[int] | None:
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
