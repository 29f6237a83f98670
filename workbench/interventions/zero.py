"""Zero ablation: as if a component had said nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..hooks import At
from ..keywords import checked_keywords
from ..sites import Selector
from ._base import Replacing
from ._choice import Choice


@dataclass(frozen=True)
class Zero(Replacing):
    def values(self, at: At, shape: Sequence[int]) -> Tensor:
        return torch.zeros(()).expand(*shape)


@checked_keywords
def zero(
    site: Selector, layers: Choice = None, positions: Choice = None, heads: Choice = None, neurons: Choice = None
) -> Zero:
    """Set a site's values to 0.

    model(tokens, hooks=[wb.zero("z", layers=9, heads=[6, 9])])
    """
    return Zero(site, layers, positions, heads, neurons)
