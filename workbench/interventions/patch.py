"""Patching: values of another run in place of this one's (Vig et al. 2020; Meng et al. 2022, section 2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional as F

from ..cache import ActivationCache
from ..errors import InterventionError, KindError, nearest
from ..hooks import At
from ..keywords import checked_keywords
from ..sites import Selector, Site
from ._base import Replacing
from ._choice import POSITIONS, Choice, axis_of, columns_of


@dataclass(frozen=True)
class Patch(Replacing):
    cache: ActivationCache = field(kw_only=True, repr=False)

    def check(self, site: Site) -> None:
        super().check(site)
        if site.name not in self.cache:
            raise InterventionError(
                f"the cache to patch from has not recorded {site.name}; {nearest(site.name, self.cache)}"
            )

    def check_run(self, value: Tensor, at: At) -> None:
        recorded, columns = self.cache[at.name], at.columns
        fits = recorded.shape == value.shape
        if columns.generating and (fits := self._fits_beside(recorded, value, at)):
            n_there, n_rows = (tensor.shape[axis_of(at.site, POSITIONS)] for tensor in (recorded, value))
            chosen = range(columns.start + n_rows) if self.positions is None else columns_of(self.positions, columns)
            if max(chosen) >= n_there:
                raise InterventionError(
                    f"the cache's {at.name} has {n_there} positions and this generation reaches position "
                    f"{max(chosen)}; choose positions=, or give wb.on_prompt(...) the patch"
                )
        if not fits:
            raise InterventionError(
                f"the cache's {at.name} is {list(recorded.shape)} and this run's {list(value.shape)}; "
                "patching wants as many examples and positions recorded (without pos_slice) as the run has"
            )

    def _fits_beside(self, recorded: Tensor, value: Tensor, at: At) -> bool:
        """Whether a cache fits a text that outgrows it: recorded from the first position on, as many examples."""
        if recorded.ndim != value.ndim:
            return False
        real = self.cache.positions >= 0
        from_the_start = torch.equal(self.cache.positions[real], (real.cumsum(1) - 1)[real])
        sizes = zip(at.axes, recorded.shape, value.shape, strict=True)
        return from_the_start and all(a == b for word, a, b in sizes if word not in ("pos", "query", "key"))

    def values(self, at: At, shape: Sequence[int]) -> Tensor:
        source = self.cache[at.name]
        if at.columns.generating:  # zeros stand where no position was chosen, and for keys ahead of a query
            axis, start = axis_of(at.site, POSITIONS), at.columns.start
            source = _fitted(source.narrow(axis, start, source.shape[axis] - start), axis, shape[axis])
            source = _fitted(source, source.ndim - 1, shape[-1])
        return source


def _fitted(tensor: Tensor, axis: int, size: int) -> Tensor:
    """Cut to a size along an axis, or filled up with zeros."""
    cut = tensor.narrow(axis, 0, min(size, tensor.shape[axis]))
    return F.pad(cut, [0, 0] * (tensor.ndim - axis - 1) + [0, size - cut.shape[axis]])


@checked_keywords
def patch(
    cache: ActivationCache,
    site: Selector,
    layers: Choice = None,
    positions: Choice = None,
    heads: Choice = None,
    neurons: Choice = None,
) -> Patch:
    """Take a site's values from another run's cache.

        model(corrupted, hooks=[wb.patch(clean_cache, "resid_pre", layers=5, positions=[9])])

    The cache must have recorded the site, for as many examples and positions.
    """
    return Patch(site, layers, positions, heads, neurons, cache=_checked(cache, "patch"))


@dataclass(frozen=True)
class Freeze(Patch):
    """The same arithmetic with another intent: the values are this text's own."""


@checked_keywords
def freeze(
    cache: ActivationCache,
    site: Selector,
    layers: Choice = None,
    positions: Choice = None,
    heads: Choice = None,
    neurons: Choice = None,
) -> Freeze:
    """Hold a site at the values that a run of the same text had, whatever else is changed: what goes through it stays
    as it was (Goldowsky-Dill et al. 2023, "path patching", holds attention patterns so).

        _, own = model.run_with_cache(text, "pattern")
        model(text, hooks=[wb.freeze(own, "pattern"), wb.zero("z", layers=9, heads=6)])
    """
    return Freeze(site, layers, positions, heads, neurons, cache=_checked(cache, "freeze"))


def _checked(cache: object, name: str) -> ActivationCache:
    if not isinstance(cache, ActivationCache):
        raise KindError(f"wb.{name} takes a cache of another run first, not {type(cache).__name__}")
    return cache
