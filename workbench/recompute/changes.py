"""What cells change at a site: which columns, which heads, and what stands there then."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from ..hooks import At, Columns
from ..inputs import Text
from ..interventions import Intervention, Part, Replacing
from ..interventions._choice import columns_of, within
from ..sites import Site
from .rows import Rows

# From what stands in some part of a site's value, and which part of the whole run's value that is, to what it becomes.
Becomes: TypeAlias = Callable[[Tensor, Part], Tensor]
UNITS = ("head", "kv_head", "expert", "d_mlp")  # axes of what a site has several of


@dataclass(frozen=True)
class Change:
    """Of the cells of one batch, at one site; of a single cell, which stands for all.

    becomes: what some part of the value becomes.
    columns: [cell example column] which columns a cell changes, of queries where the site has a query axis.
    units:   [cell unit] which heads, neurons or experts; one unit where the site has none of these.
    keys:    [cell key] which keys of a pattern; None for all.
    """

    site: Site
    becomes: Becomes
    columns: Bool[Tensor, "cell example column"]
    units: Bool[Tensor, "cell unit"]
    keys: Bool[Tensor, "cell key"] | None = None

    def applied(self, value: Tensor, rows: Rows) -> Tensor:
        """The value with its changes; packed tokens, or rows of queries side by side.

        Of a whole run's value [example column ...] the touched tokens are the part [example, column]: two cells that
        change column 9 of example 0 pick the same place of another run's values twice.
        """
        cell, example = rows.cell[rows.row], rows.example[rows.row]
        if len(self.columns) == 1:
            cell = torch.zeros_like(cell)
        touched = self.columns[cell, example, rows.column].nonzero()[:, 0]
        if not len(touched):
            return value
        cell, example, column = cell[touched], example[touched], rows.column[touched]
        value = value.clone()
        if "query" in self.site.axes:  # [row unit slot (key)]
            part = Part(self._shape(value, 2), (example, slice(None), column))
            row, slot = rows.row[touched], rows.slot[touched]
            value[row, :, slot] = self._put(value[row, :, slot], part, cell)
        else:  # [token 1 (unit) width]
            part = Part(self._shape(value, 1), (example, column))
            value[touched, 0] = self._put(value[touched, 0], part, cell)
        return value

    def _shape(self, value: Tensor, axis: int) -> tuple[int, ...]:
        """Of the value of a run over the examples."""
        _, n_examples, n_columns = self.columns.shape
        return (n_examples, *value.shape[1:axis], n_columns, *value.shape[axis + 1 :])

    def _put(self, old: Tensor, part: Part, cell: Int[Tensor, " touched"]) -> Tensor:
        chosen = self.units[cell]
        chosen = chosen.view(*chosen.shape, *[1] * (old.ndim - chosen.ndim))
        if self.keys is not None:
            chosen = chosen & self.keys[cell][:, None, : old.shape[-1]]
        return torch.where(chosen, self.becomes(old, part), old)


def becoming(change: Intervention, at: At, shape: Sequence[int]) -> Becomes:
    """What an intervention makes of the values at a site, whole or in part, in a run of this shape there. Values that
    are known beforehand are made once."""
    if isinstance(change, Replacing):
        new = change.values(at, shape)
        return lambda old, part: part.of(new).to(old)
    return lambda old, part: change.changed(old, at, part)


def held(change: Intervention, site: Site, text: Text) -> Change:
    """An intervention that every cell has."""
    at, (n_examples, n_columns), size = at_text(site, text), text.tokens.shape, n_units(site)
    columns = range(n_columns) if change.positions is None else columns_of(change.positions, at.columns)
    chosen = change.heads if change.heads is not None else change.neurons
    units = range(size) if chosen is None else within(chosen, size, "unit")
    return Change(
        site,
        lambda old, part: change.changed(old, at, part),
        among(columns, n_columns).to(text.tokens.device).expand(1, n_examples, n_columns),
        among(units, size)[None].to(text.tokens.device),
    )


def at_text(site: Site, text: Text) -> At:
    """What a hook is told in a run of a whole text."""
    n_columns = text.tokens.shape[1]
    return At(site, text.positions, Columns(0, n_columns, n_columns))


def n_units(site: Site) -> int:
    """How many heads, neurons or experts there are; 1 where a site has none."""
    return next((size or 1 for word, size in zip(site.axes, site.sizes, strict=True) if word in UNITS), 1)


def among(chosen: Sequence[int], size: int) -> Bool[Tensor, " size"]:
    mask = torch.zeros(size, dtype=torch.bool)
    mask[list(chosen)] = True
    return mask
