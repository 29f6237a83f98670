"""The grid of a sweep: its axes, and what each cell of it changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..errors import InterventionError
from ..hooked import HookedTransformer
from ..interventions._base import Choice, within
from ..recompute import Batch, Change
from ..sites import Site

_COLUMNS = ("pos", "query")  # axes of positions
_UNITS = ("head", "kv_head", "expert", "d_mlp")


@dataclass(frozen=True)
class Grid:
    """Which layers, and within a layer which positions (of a pattern: queries), units (heads, neurons, experts) and
    keys make a cell.

    sites: one for each layer that is swept.
    layer: [cell] index into `sites`; -1 where a cell is all of them at once.
    pos, unit, key: [cell] number of the column, the unit and the key; -1 where a cell is all of those chosen.
    positions, units: those that are chosen at all.
    """

    site: str
    sites: tuple[Site, ...]
    axes: tuple[str, ...]
    places: dict[str, tuple[int, ...]]
    labels: dict[str, tuple[str, ...]]
    layer: Int[Tensor, " cell"]
    pos: Int[Tensor, " cell"]
    unit: Int[Tensor, " cell"]
    key: Int[Tensor, " cell"]
    positions: Bool[Tensor, " column"]
    units: Bool[Tensor, " unit"]

    @property
    def n_cells(self) -> int:
        return len(self.layer)

    @property
    def shape(self) -> list[int]:
        return [len(self.places[axis]) for axis in self.axes]


def grid_of(
    model: HookedTransformer,
    site: str,
    over: Sequence[str] | None,
    layers: Choice,
    heads: Choice,
    positions: Choice,
    tokens: Tensor,
) -> Grid:
    """The grid that is asked for; InterventionError where the site has not got it."""
    sites = _sites(model, site)
    along = next(word for word in sites[0].axes if word in _COLUMNS)
    unit_axis = next((word for word in sites[0].axes if word in _UNITS), None)
    axes = _axes(site, sites[0], over)
    if layers is not None:
        wanted = within(layers, model.spec.n_layers, "layer")
        sites = [found for found in sites if found.layer in wanted]
    if len({(found.axes, found.sizes) for found in sites}) > 1:
        raise InterventionError(f"{site!r} differs in shape from layer to layer; choose layers= that are alike")
    n_columns, n_units = tokens.shape[1], _n_units(sites[0], unit_axis, heads)
    columns = within(range(n_columns) if positions is None else positions, n_columns, "position")
    units = within(range(n_units) if heads is None else heads, n_units, unit_axis or "head")
    every = list(range(n_columns))
    numbers = {"layer": [found.layer or 0 for found in sites], along: columns, unit_axis or "": units, "key": every}
    places = {axis: tuple(numbers[axis]) for axis in axes}
    labels = {axis: tuple(map(str, numbers[axis])) for axis in axes}
    if model.tokenizer is not None and len(tokens) == 1:
        pieces = model.to_str_tokens(tokens)
        named = {along: columns, "key": every}
        labels |= {axis: tuple(pieces[column] for column in named[axis]) for axis in axes if axis in named}
    by_axis = numbers | {"layer": list(range(len(sites)))}
    cells = torch.cartesian_prod(*[torch.tensor(by_axis[axis]) for axis in axes]).view(-1, len(axes)).t()
    everything = torch.full((cells.shape[1],), -1)
    cell = dict(zip(axes, cells, strict=True))
    return Grid(
        site=site,
        sites=tuple(sites),
        axes=axes,
        places=places,
        labels=labels,
        layer=cell.get("layer", everything),
        pos=cell.get(along, everything),
        unit=cell.get(unit_axis or "", everything),
        key=cell.get("key", everything),
        positions=_among(columns, n_columns),
        units=_among(units, n_units),
    )


def _sites(model: HookedTransformer, site: str) -> list[Site]:
    swept = sorted({s.short.rpartition(".")[2] for s in model.sites if s.layer is not None})
    if not isinstance(site, str):
        raise InterventionError(f"a sweep is over one kind of site, such as 'resid_pre' or 'z'; {site!r} came")
    found = [at for at in model.sites.select(site) if at.layer is not None]
    if kinds := sorted({at.short for at in found[1:]} - {found[0].short} if found else ()):
        raise InterventionError(f"{site!r} fits {found[0].short} and {kinds[0]}; a sweep is over one kind of site")
    if not found:
        raise InterventionError(f"{site!r} is in no layer; a sweep is over one of {', '.join(swept)}")
    return found


def _axes(asked: str, site: Site, over: Sequence[str] | None) -> tuple[str, ...]:
    """Layer x head (or another unit) where a site has these, otherwise layer x position; or what is asked for."""
    possible = ("layer", *(word for word in site.axes if word in (*_COLUMNS, *_UNITS, "key")))
    units = [word for word in possible if word in _UNITS]
    if over is None:
        return ("layer", *units) if units else ("layer", *[word for word in possible if word in _COLUMNS])
    axes = tuple(over) if isinstance(over, (list, tuple)) else ()
    if not axes or axes != tuple(axis for axis in possible if axis in axes):
        raise InterventionError(f"{asked!r} is swept over some of {', '.join(possible)}, in this order; {over!r} came")
    return axes


def _n_units(site: Site, unit_axis: str | None, heads: Choice) -> int:
    if unit_axis is None:
        if heads is not None:
            raise InterventionError(f"{site.name} has no heads to choose from; leave heads out")
        return 1
    return site.sizes[site.axes.index(unit_axis)] or 1


def _among(chosen: Sequence[int], size: int) -> Bool[Tensor, " size"]:
    among = torch.zeros(size, dtype=torch.bool)
    among[list(chosen)] = True
    return among


@dataclass(frozen=True)
class Planned:
    """Where each cell first changes each example: layer (of the model; n_layers for nowhere) and column."""

    layer: Int[Tensor, "cell example"]
    first: Int[Tensor, "cell example"]


def planned(
    grid: Grid,
    base: Mapping[str, Tensor],
    new: Mapping[str, Tensor],
    real: Bool[Tensor, "example column"],
    n_layers: int,
) -> Planned:
    """From the values at the sites, as they were recorded and as they become: what is equal already changes nothing,
    and neither does what stands where there is no token."""
    n_examples, n_columns = len(next(iter(base.values()))), len(grid.positions)
    layer = torch.full((grid.n_cells, n_examples), n_layers)
    first = torch.full((grid.n_cells, n_examples), n_columns)
    column = torch.arange(n_columns)
    for index, site in enumerate(grid.sites):
        cells = ((grid.layer == index) | (grid.layer == -1)).nonzero()[:, 0]
        differs = _differs(site, base[site.name], new[site.name], len(grid.units)).cpu()
        differs = differs & real.cpu()[..., None] & grid.positions[:, None] & grid.units
        by_unit = torch.cat([differs.permute(2, 0, 1), differs.any(-1)[None]])  # the last: of any unit, as -1 asks
        at_pos = (grid.pos[cells, None] == column) | (grid.pos[cells, None] == -1)
        changed = by_unit[grid.unit[cells]] & at_pos[:, None]  # of a single key, perhaps too much
        where = torch.where(changed.any(-1), changed.int().argmax(-1), n_columns)
        earlier = (where < n_columns) & (layer[cells] == n_layers)
        layer[cells] = torch.where(earlier, site.layer or 0, layer[cells])
        first[cells] = torch.minimum(first[cells], where)
    return Planned(layer, first)


def _differs(site: Site, base: Tensor, new: Tensor, n_units: int) -> Bool[Tensor, "example column unit"]:
    differs = base != new
    if "query" in site.axes:
        differs = differs.transpose(1, 2)
    return differs.reshape(*differs.shape[:2], n_units, -1).any(-1)


def nowhere(grid: Grid, real: Bool[Tensor, "example column"]) -> Bool[Tensor, "cell example"]:
    """Whether a cell is about a position (or a key) at which an example has no token."""
    missing = ~real.cpu().t()
    missing = torch.cat([missing, torch.zeros_like(missing[:1])])  # the last: of no single position, as -1 says
    return missing[grid.pos] | missing[grid.key]


class Room(NamedTuple):
    """How many numbers fit into memory, and how many a token and a row of a cell take."""

    total: int
    of_token: int
    of_row: int


def batches(
    grid: Grid, plan: Planned, new: Mapping[str, Tensor], last: Int[Tensor, " example"], room: Room
) -> Iterator[tuple[Int[Tensor, " cell"], Batch]]:
    """Cells that change something, as many at a time as there is room for; each with its numbers in the grid."""
    n_tokens = (last.cpu() - plan.first + 1).clamp(min=0)
    size = n_tokens.sum(1) * room.of_token + (n_tokens > 0).sum(1) * room.of_row
    waiting = size.nonzero()[:, 0]
    while len(waiting):
        n_taken = max(1, int((size[waiting].cumsum(0) <= room.total).sum()))
        cells, waiting = waiting[:n_taken], waiting[n_taken:]
        yield cells, _batch(grid, plan, new, cells, last.device)


def _batch(
    grid: Grid, plan: Planned, new: Mapping[str, Tensor], cells: Int[Tensor, " cell"], device: torch.device
) -> Batch:
    n_examples, n_columns = len(next(iter(new.values()))), len(grid.positions)
    pos, unit, layer = grid.pos[cells], grid.unit[cells], grid.layer[cells]
    columns = grid.positions & ((pos[:, None] == torch.arange(n_columns)) | (pos[:, None] == -1))
    units = grid.units & ((unit[:, None] == torch.arange(len(grid.units))) | (unit[:, None] == -1))
    keys, changes = None, {}
    if "key" in grid.axes:
        keys = (grid.key[cells][:, None] == torch.arange(n_columns)).to(device)
    for index, site in enumerate(grid.sites):
        here = (layer == index) | (layer == -1)
        if here.any():
            mask = (columns & here[:, None])[:, None].expand(-1, n_examples, -1)
            changes[site.name] = Change(site, new[site.name], mask.to(device), units.to(device), keys)
    return Batch(changes, plan.layer[cells].to(device), plan.first[cells].to(device))


def region(grid: Grid, cell: int, site: Site, value: Float[Tensor, "..."]) -> Bool[Tensor, "..."]:
    """Where a cell changes a value of shape [example column (unit) ...], as a mask that it broadcasts with."""
    pos, unit = int(grid.pos[cell]), int(grid.unit[cell])
    columns = grid.positions if pos == -1 else _among([pos], len(grid.positions))
    units = grid.units if unit == -1 else _among([unit], len(grid.units))
    by_axis: dict[str, Tensor] = {**dict.fromkeys(_COLUMNS, columns), **dict.fromkeys(_UNITS, units)}
    if "key" in grid.axes:
        by_axis["key"] = _among([int(grid.key[cell])], len(grid.positions))
    mask = torch.ones([1] * value.ndim, dtype=torch.bool)
    for axis, word in enumerate(site.axes):
        if word in by_axis:
            mask = mask & by_axis[word].view(-1, *[1] * (value.ndim - axis - 1))
    return mask.to(value.device)
