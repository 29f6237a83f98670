"""Patching: values of another run in place of this one's (Vig et al. 2020; Meng et al. 2022, section 2)."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from ..cache import ActivationCache
from ..errors import InterventionError, KindError, nearest
from ..keywords import checked_keywords
from ..sites import Selector, Site
from ._base import Choice, Intervention, Region


@dataclass(frozen=True)
class Patch(Intervention):
    cache: ActivationCache = field(kw_only=True, repr=False)

    def check(self, site: Site) -> None:
        super().check(site)
        if site.name not in self.cache:
            raise InterventionError(
                f"the cache to patch from has not recorded {site.name}; {nearest(site.name, self.cache)}"
            )

    def changed(self, value: Tensor, site: Site, region: Region) -> Tensor:
        source = self.cache[site.name]
        if source.shape != value.shape:
            raise InterventionError(
                f"the cache's {site.name} is {list(source.shape)} and this run's {list(value.shape)}; "
                "patching wants as many examples and positions recorded (without pos_slice) as the run has"
            )
        return source[region].to(value)


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
