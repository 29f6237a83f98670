"""Patching: values of another run in place of this one's (Vig et al. 2020; Meng et al. 2022, section 2)."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor
from torch.nn import functional as F

from ..cache import ActivationCache
from ..errors import InterventionError, KindError, nearest
from ..hooks import At
from ..keywords import checked_keywords
from ..sites import Selector, Site
from ._base import Choice, Intervention, Region, rows_of_pass


@dataclass(frozen=True)
class Patch(Intervention):
    cache: ActivationCache = field(kw_only=True, repr=False)

    def check(self, site: Site) -> None:
        super().check(site)
        if site.name not in self.cache:
            raise InterventionError(
                f"the cache to patch from has not recorded {site.name}; {nearest(site.name, self.cache)}"
            )

    def changed(self, value: Tensor, at: At, region: Region) -> Tensor:
        recorded = self.cache[at.name]
        source = self._of_pass(recorded, value, at) if at.columns.generating else recorded
        if source.shape != value.shape:
            raise InterventionError(
                f"the cache's {at.name} is {list(recorded.shape)} and this run's {list(value.shape)}; "
                "patching wants as many examples and positions recorded (without pos_slice) as the run has"
            )
        return source[region].to(value)

    def _of_pass(self, recorded: Tensor, value: Tensor, at: At) -> Tensor:
        """While tokens are generated the text outgrows the cache: the recorded columns that this pass runs through,
        filled up with zeros where no position was chosen, and where keys lie ahead of every recorded query."""
        start = at.columns.start
        for axis, word in enumerate(at.axes):
            n_there, n_wanted = recorded.shape[axis], value.shape[axis]
            if word in ("pos", "query"):
                chosen = None if self.positions is None else rows_of_pass(self.positions, at.columns, n_wanted)
                if n_there < start + (n_wanted if chosen is None else 1 + max(chosen)):
                    continue  # a chosen position was not recorded; the shapes tell
                recorded = recorded.narrow(axis, start, min(n_there - start, n_wanted))
            elif word == "key":
                recorded = recorded.narrow(axis, 0, min(n_there, n_wanted))
            else:
                continue
            padding = [0, 0] * (recorded.ndim - axis - 1) + [0, n_wanted - recorded.shape[axis]]
            recorded = F.pad(recorded, padding)
        return recorded


@checked_keywords
def patch(
    cache: ActivationCache,
    site: Selector,
    layers: Choice = None,
    positions: Choice = None,
    heads: Choice = None,
) -> Patch:
    """Take a site's values from another run's cache.

        model(corrupted, hooks=[wb.patch(clean_cache, "resid_pre", layers=5, positions=[9])])

    The cache must have recorded the site, for as many examples and positions.
    """
    if not isinstance(cache, ActivationCache):
        raise KindError(f"wb.patch takes a cache of another run first, not {type(cache).__name__}")
    return Patch(site, layers, positions, heads, cache=cache)
