"""What cells change at a site: which columns, which heads, and what stands there then."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from ..sites import Site
from .rows import Rows


@dataclass(frozen=True)
class Change:
    """Of the cells of one batch, at one site.

    new:     what the whole site becomes, in the shape of a run over the examples.
    columns: [cell example column] which columns a cell changes, of queries where the site has a query axis.
    units:   [cell unit] which heads, neurons or experts; one unit where the site has none of these.
    keys:    [cell key] which keys of a pattern; None for all.
    """

    site: Site
    new: Tensor
    columns: Bool[Tensor, "cell example column"]
    units: Bool[Tensor, "cell unit"]
    keys: Bool[Tensor, "cell key"] | None = None

    def applied(self, value: Tensor, rows: Rows) -> Tensor:
        """The value with its changes; packed tokens, or rows of queries side by side."""
        cell, example = rows.cell[rows.row], rows.example[rows.row]
        touched = self.columns[cell, example, rows.column].nonzero()[:, 0]
        if not len(touched):
            return value
        cell, example, column = cell[touched], example[touched], rows.column[touched]
        value = value.clone()
        if "query" in self.site.axes:  # [row unit slot (key)]
            row, slot = rows.row[touched], rows.slot[touched]
            value[row, :, slot] = self._put(value[row, :, slot], self.new[example, :, column], cell)
        else:  # [token 1 (unit) width]
            value[touched, 0] = self._put(value[touched, 0], self.new[example, column], cell)
        return value

    def _put(self, old: Tensor, new: Tensor, cell: Int[Tensor, " touched"]) -> Tensor:
        chosen = self.units[cell]
        chosen = chosen.view(*chosen.shape, *[1] * (old.ndim - chosen.ndim))
        if self.keys is not None:
            chosen = chosen & self.keys[cell][:, None, : old.shape[-1]]
        return torch.where(chosen, new.to(old), old)
