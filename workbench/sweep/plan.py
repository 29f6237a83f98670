"""What there is to do in a sweep: where each cell changes something first, and how many cells go together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from ..recompute import Batch, Change
from ..recompute.changes import Becomes
from ..sites import Site
from .grid import Grid


@dataclass(frozen=True)
class Plan:
    """Where each cell first changes each example: the layer (-1: the embedding, n_layers: the end) and the column
    (behind all: nowhere)."""

    layer: Int[Tensor, "cell example"]
    first: Int[Tensor, "cell example"]
    n_columns: int

    @property
    def unchanged(self) -> Bool[Tensor, " cell"]:
        return (self.first == self.n_columns).all(1)


def planned(
    grid: Grid,
    base: Mapping[str, Tensor],
    new: Mapping[str, Tensor],
    real: Bool[Tensor, "example column"],
    n_layers: int,
) -> Plan:
    """From the values at the sites, as they were recorded and as they become: what is equal already changes nothing,
    and neither does what stands where there is no token."""
    n_examples, n_columns = real.shape
    layer = torch.full((grid.n_cells, n_examples), n_layers)
    first = torch.full((grid.n_cells, n_examples), n_columns)
    at_layers, at_columns, at_units, _ = grid.at.t()
    for index, site in enumerate(grid.sites):  # from the first layer on, so that the earliest change comes first
        cells = grid.layers[at_layers, index].nonzero()[:, 0]
        differs = _differs(site, base[site.name], new[site.name], grid.units.shape[-1]).cpu() & real.cpu()[..., None]
        where = _first_columns(differs, grid.columns, grid.units[:, index])[at_columns[cells], at_units[cells]]
        earliest = (where < n_columns) & (first[cells] == n_columns)
        layer[cells] = torch.where(earliest, _stage(site, n_layers), layer[cells])
        first[cells] = torch.minimum(first[cells], where)
    return Plan(layer, first, n_columns)


def _stage(site: Site, n_layers: int) -> int:
    """Where a change at a site lies."""
    if site.layer is not None:
        return site.layer
    return n_layers if site.name.startswith("ln_final") else -1


def _differs(site: Site, base: Tensor, new: Tensor, n_units: int) -> Bool[Tensor, "example column unit"]:
    differs = base != new
    if "query" in site.axes:
        differs = differs.transpose(1, 2)
    return differs.reshape(*differs.shape[:2], n_units, -1).any(-1)


def _first_columns(
    differs: Bool[Tensor, "example column unit"],
    columns: Bool[Tensor, "columns_choice example column"],
    units: Bool[Tensor, "units_choice unit"],
) -> Int[Tensor, "columns_choice units_choice example"]:
    """The first changed column, for each choice of columns and of units. Of a pattern any key counts, so that it may be
    too early for a cell of one key; that only computes more."""
    n_columns = differs.shape[1]
    changed = torch.einsum("ecu,pu->pec", differs.float(), units.float()) > 0
    each = [(changed & mask) for mask in columns]
    return torch.stack([torch.where(some.any(-1), some.int().argmax(-1), n_columns) for some in each])


def nowhere(grid: Grid, real: Bool[Tensor, "example column"]) -> Bool[Tensor, "cell example"]:
    """Whether a cell is about a position (or a key) at which an example has no token."""
    at_columns, at_keys = grid.at[:, 1], grid.at[:, 3]
    columns = (grid.columns & real.cpu()).any(-1)[at_columns]
    if not grid.has_keys:
        return ~columns
    return ~(columns & (grid.keys[:, None] & real.cpu()).any(-1)[at_keys])


class Room(NamedTuple):
    """How many numbers fit into memory, and how many a token and a row of a cell take."""

    total: int
    of_token: int
    of_row: int


def batches(
    grid: Grid, plan: Plan, becomes: Mapping[str, Becomes], last: Int[Tensor, " example"], room: Room
) -> Iterator[tuple[Int[Tensor, " cell"], Batch]]:
    """Cells that change something, as many at a time as there is room for; each with its numbers in the grid."""
    n_tokens = (last.cpu() - plan.first + 1).clamp(min=0)
    size = n_tokens.sum(1) * room.of_token + (n_tokens > 0).sum(1) * room.of_row
    waiting = size.nonzero()[:, 0]
    while len(waiting):
        n_taken = max(1, int((size[waiting].cumsum(0) <= room.total).sum()))
        cells, waiting = waiting[:n_taken], waiting[n_taken:]
        changes = changes_of(grid, cells, becomes, last.device)
        yield cells, Batch(changes, plan.layer[cells].to(last.device), plan.first[cells].to(last.device))


def changes_of(
    grid: Grid, cells: Int[Tensor, " cell"], becomes: Mapping[str, Becomes], device: torch.device
) -> dict[str, Change]:
    """What these cells change, by the name of the site."""
    layers, columns, units, keys = grid.at[cells].t()
    chosen = None if not grid.has_keys else grid.keys[keys].to(device)
    changes = {}
    for index, site in enumerate(grid.sites):
        here = grid.layers[layers, index]
        if here.any():
            changed = grid.columns[columns] & here[:, None, None]
            of_site = grid.units[units, index].to(device)
            changes[site.name] = Change(site, becomes[site.name], changed.to(device), of_site, chosen)
    return changes
