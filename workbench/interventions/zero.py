"""Zero ablation: as if a component had said nothing."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..hooks import At
from ..keywords import checked_keywords
from ..sites import Selector
from ._base import Choice, Intervention, Region


@dataclass(frozen=True)
class Zero(Intervention):
    def changed(self, value: Tensor, at: At, region: Region) -> Tensor:
        return torch.zeros_like(value[region])


@checked_keywords
def zero(site: Selector, layers: Choice = None, positions: Choice = None, heads: Choice = None) -> Zero:
    """Set a site's values to 0.

    model(tokens, hooks=[wb.zero("z", layers=9, heads=[6, 9])])
    """
    return Zero(site, layers, positions, heads)
