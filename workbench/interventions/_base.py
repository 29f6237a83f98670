"""What every intervention shares: where it acts, and how it becomes a hook."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from ..errors import InterventionError
from ..hooks import At, Hook
from ..sites import Selector, Site, Sites
from ._choice import HEADS, NEURONS, POSITIONS, Choice, Region, axis_of, region_of, rows_of_pass, within


@dataclass(frozen=True)
class Part:
    """Of a value of some shape, what an index picks."""

    shape: Sequence[int]
    region: Region

    def of(self, whole: Tensor) -> Tensor:
        return whole[self.region]


@dataclass(frozen=True)
class Intervention(ABC):
    """A change at one kind of site, and the hook that makes it.

    layers, positions, heads, neurons: which of them, by number, from the end when negative (None: all). Positions are
    columns of the text; while tokens are generated those of the new ones follow, and negative ones count from the end
    of the prompt. Heads are kv heads at k and v.
    """

    site: Selector
    layers: Choice = None
    positions: Choice = None
    heads: Choice = None
    neurons: Choice = None

    @abstractmethod
    def changed(self, old: Tensor, at: At, part: Part) -> Tensor:
        """What a part of the value becomes, which is `old` now."""

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
        return [(site, self) for site in chosen]

    def check(self, site: Site) -> None:
        """What can be known before a run: the site has the positions, heads and neurons to choose from."""
        for words, choice in ((HEADS, self.heads), (NEURONS, self.neurons)):
            if choice is not None:
                axis = axis_of(site, words)
                within(choice, site.sizes[axis] or 0, site.axes[axis])
        if self.positions is not None:
            axis_of(site, POSITIONS)

    def check_run(self, value: Tensor, at: At) -> None:
        """What can be known at a site's first pass: that this run is one that the change fits."""

    def __call__(self, value: Tensor, at: At) -> Tensor | None:
        """The hook: the value with its region changed; None where this pass has nothing of the region."""
        self.check_run(value, at)
        rows = None
        if self.positions is not None:
            rows = rows_of_pass(self.positions, at.columns, value.shape[axis_of(at.site, POSITIONS)])
            if not rows:
                return None
        region = region_of(at.site, value.shape, {POSITIONS: rows, HEADS: self.heads, NEURONS: self.neurons})
        value[region] = self.changed(value[region], at, Part(value.shape, region))
        return value


class Replacing(Intervention):
    """A change to values that are known beforehand, whatever stands there now."""

    @abstractmethod
    def values(self, at: At, shape: Sequence[int]) -> Tensor:
        """What the whole value would become, in its shape."""

    def changed(self, old: Tensor, at: At, part: Part) -> Tensor:
        return part.of(self.values(at, part.shape)).to(old)
