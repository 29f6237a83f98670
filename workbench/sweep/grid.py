"""The grid of a sweep: its axes, and what each cell of it changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import index as as_int
from typing import TypeAlias

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from ..errors import InterventionError, KindError
from ..hooked import HookedTransformer
from ..inputs import Text
from ..interventions._choice import HEADS, NEURONS, POSITIONS, Choice, within
from ..metrics import Labels
from ..recompute.changes import UNITS, among, n_units
from ..sites import Site
from .labels import columns_of_labels

Selection: TypeAlias = Sequence[tuple[int, int]] | None
Place: TypeAlias = int | str
Masks: TypeAlias = tuple[Tensor, Tensor, Tensor, Tensor]


@dataclass(frozen=True)
class Where:
    """What a sweep is asked to range over. A selection of (layer, head) pairs is changed at once."""

    over: Sequence[str] | None = None
    layers: Choice = None
    heads: Choice = None
    neurons: Choice = None
    positions: Choice | Mapping[str, Sequence[int]] = None
    window: int = 1
    selection: Selection = None


@dataclass(frozen=True)
class Grid:
    """Cells, each of which changes some layers, and in these some columns, units (heads, neurons, experts) and keys.

    axes:    in the order asked for; places: the numbers (or names) on each, labels: how they are shown.
    at:      [cell 4] which of the layers, columns, units and keys below.
    layers:  [choice site]; columns: [choice example column], of queries in a pattern; units: [choice site unit];
    keys:    [choice key].
    """

    site: str
    sites: tuple[Site, ...]
    axes: tuple[str, ...]
    places: dict[str, tuple[Place, ...]]
    labels: dict[str, tuple[str, ...]]
    at: Int[Tensor, "cell 4"]
    layers: Bool[Tensor, "choice site"]
    columns: Bool[Tensor, "choice example column"]
    units: Bool[Tensor, "choice site unit"]
    keys: Bool[Tensor, "choice key"]

    @property
    def n_cells(self) -> int:
        return len(self.at)

    @property
    def shape(self) -> list[int]:
        return [len(self.places[axis]) for axis in self.axes]

    @property
    def has_keys(self) -> bool:
        return self.sites[0].axes[-1] == "key"


def grid_of(model: HookedTransformer, site: str, where: Where, text: Text, named: Labels) -> Grid:
    """The grid that is asked for; InterventionError where the site has not got it.

    named: [example] positions by their label, where positions are given so."""
    sites = sites_of(model, site)
    along = next(word for word in sites[0].axes if word in POSITIONS)
    unit_axis = next((word for word in sites[0].axes if word in UNITS), "unit")
    possible = [word for word in sites[0].axes if word in (*POSITIONS, *UNITS, "key")]
    possible = possible if sites[0].layer is None else ["layer", *possible]
    if isinstance(where.positions, Mapping):
        possible[possible.index(along)] = "label"
        along = "label"
    axes = _axes(site, possible, where)
    selected = None if where.selection is None else _selected(model, sites[0], where)
    layers, sites = _layers(model, site, sites, where, selected)
    columns, positions = _columns(where, text, named)
    units, numbers = _units(sites, unit_axis, where) if selected is None else (_units_selected(sites, selected), [])
    n_columns = text.tokens.shape[1]
    keys = torch.eye(n_columns, dtype=torch.bool)
    places: dict[str, tuple[Place, ...]] = {
        "layer": tuple(layers),
        along: positions,
        unit_axis: tuple(numbers),
        "key": tuple(range(n_columns)),
    }
    masks = {
        "layer": _layer_masks(sites, layers, min(where.window, 2 * model.spec.n_layers)),
        along: columns,
        unit_axis: units,
        "key": keys,
    }
    joint = {kind: mask if kind in axes else mask.any(0, keepdim=True) for kind, mask in masks.items()}
    cells = _product({axis: len(places[axis]) for axis in axes})
    return Grid(
        site=site,
        sites=tuple(sites),
        axes=axes,
        places={axis: places[axis] for axis in axes},
        labels=_shown(model, {axis: places[axis] for axis in axes}, text),
        at=torch.stack([cells.get(kind, cells[""]) for kind in masks], 1),
        layers=joint["layer"],
        columns=joint[along],
        units=joint[unit_axis],
        keys=joint["key"],
    )


def grid_of_selections(model: HookedTransformer, site: str, selections: Sequence[Selection], text: Text) -> Grid:
    """A cell for each selection."""
    grids = [grid_of(model, site, Where(selection=selection), text, {}) for selection in selections]
    sites = sites_of(model, site)
    number = {found.name: index for index, found in enumerate(sites)}
    units = torch.zeros(len(grids), len(sites), grids[0].units.shape[-1], dtype=torch.bool)
    for index, grid in enumerate(grids):
        units[index, [number[found.name] for found in grid.sites]] = grid.units[0]
    every = torch.arange(len(grids))
    none = torch.zeros_like(every)
    return Grid(
        site=site,
        sites=tuple(sites),
        axes=("selection",),
        places={"selection": tuple(range(len(grids)))},
        labels={"selection": tuple(map(str, range(len(grids))))},
        at=torch.stack([every, none, every, none], 1),
        layers=units.any(-1),
        columns=grids[0].columns,
        units=units,
        keys=grids[0].keys,
    )


def sites_of(model: HookedTransformer, site: str) -> list[Site]:
    """Of one kind, one in each layer that has it."""
    if not isinstance(site, str):
        raise InterventionError(f"a sweep is over one kind of site, such as 'resid_pre' or 'z'; {site!r} came")
    found = model.sites.select(site)
    if kinds := sorted({at.short for at in found[1:]} - {found[0].short}):
        raise InterventionError(f"{site!r} fits {found[0].short} and {kinds[0]}; a sweep is over one kind of site")
    return found


def _axes(asked: str, possible: Sequence[str], where: Where) -> tuple[str, ...]:
    """Layer x head (or another unit) where a site has these, otherwise layer x position; or what is asked for. A
    selection says which layers and heads, and labels are an axis wherever they are given."""
    if where.selection is not None:
        possible = [word for word in possible if word not in ("layer", *UNITS)]
    if where.over is None:
        units = [word for word in possible if word in UNITS]
        along = [word for word in possible if word == "label" or (word in POSITIONS and not units)]
        along = [word for word in along if word == "label" or where.selection is None]
        return tuple(word for word in possible if word in ("layer", *units, *along))
    axes = tuple(where.over) if isinstance(where.over, (list, tuple)) else None
    if axes is None or not all(isinstance(axis, str) for axis in axes):
        raise InterventionError(f"over is a list of axes, such as {possible!r}; {where.over!r} came")
    if not set(axes) <= set(possible) or len(set(axes)) < len(axes):
        beside = " beside a selection" if where.selection is not None else ""
        hint = ""
        if "label" in axes and "label" not in possible:
            hint = "; labels are given as positions={label: [position of each example]}"
        elif "label" in possible and {*axes} & {*POSITIONS}:
            hint = "; positions are given by label here"
        raise InterventionError(
            f"{asked!r} is swept over some of {', '.join(possible)}{beside}; {where.over!r} came{hint}"
        )
    return axes


def _selected(model: HookedTransformer, site: Site, where: Where) -> list[tuple[int, int]]:
    """The selection as (layer, unit), counted from the front."""
    if where.layers is not None or where.heads is not None or where.neurons is not None or where.window != 1:
        raise InterventionError("a selection says which layers and heads; leave layers, heads, neurons and window out")
    unit_axis = next((word for word in site.axes if word in UNITS), None)
    if unit_axis is None or site.layer is None:
        raise InterventionError(f"{site.name} has no heads for a selection of (layer, head)")
    given = pairs_of(where.selection, "a selection")
    if not given:
        raise InterventionError("an empty selection selects nothing")
    layers, units = zip(*given, strict=True)
    layers, units = within(layers, model.spec.n_layers, "layer"), within(units, n_units(site), unit_axis)
    return list(zip(layers, units, strict=True))


def pairs_of(given: object, what: str) -> list[tuple[int, int]]:
    """A list of (layer, unit), also as an array or rows of a table; KindError for anything else."""
    try:
        pairs = [tuple(as_int(number) for number in pair if not isinstance(number, bool)) for pair in given]  # type: ignore[union-attr]
    except TypeError:
        pairs = None
    if pairs is None or any(len(pair) != 2 for pair in pairs):
        raise KindError(f"{what} is a list of pairs (layer, head); {given!r} came")
    return pairs  # type: ignore[return-value]


def _listed(layers: Sequence[int]) -> str:
    return f"layer {layers[0]}" if len(layers) == 1 else f"layers {', '.join(map(str, layers))}"


def _layers(
    model: HookedTransformer, site: str, sites: list[Site], where: Where, selected: list[tuple[int, int]] | None
) -> tuple[list[int], list[Site]]:
    """The layers on the axis, and the sites that they need: with a window, those of other layers too."""
    if isinstance(where.window, bool) or not isinstance(where.window, int) or where.window < 1:
        raise KindError(f"window is {where.window!r}; how many layers are changed at a time, from 1 on, is wanted")
    existing = [site.layer if site.layer is not None else 0 for site in sites]
    if sites[0].layer is None and (where.layers is not None or where.window != 1):
        raise InterventionError(f"{sites[0].name} is in no layer; leave layers and window out")
    if selected is not None:
        chosen = sorted({layer for layer, _ in selected})
    else:
        chosen = existing if where.layers is None else within(where.layers, model.spec.n_layers, "layer")
    if lacking := [layer for layer in chosen if layer not in existing]:
        raise InterventionError(f"there is no {site!r} in layer {lacking[0]}; it is in {_listed(existing)}")
    if where.window > 1 and len(existing) < len(model.sites.select(sites[0].short)):
        raise InterventionError(f"{site!r} is one layer's; a window of layers wants the kind, {sites[0].short!r}")
    window = min(where.window, 2 * model.spec.n_layers)
    needed = {layer for centre in chosen for layer in _around(centre, window)}
    sites = [site for site, layer in zip(sites, existing, strict=True) if layer in needed]
    if len({(found.axes, found.sizes) for found in sites}) > 1:
        raise InterventionError(
            f"{sites[0].short!r} differs in shape from layer to layer; choose layers= that are alike"
        )
    return chosen, sites


def _around(layer: int, window: int) -> range:
    """The window of layers around one, as Meng et al. 2022 take it: cut off at the first layer and the last."""
    return range(layer - window // 2, layer - (-window // 2))


def _layer_masks(sites: list[Site], layers: list[int], window: int) -> Bool[Tensor, "choice site"]:
    there = [site.layer if site.layer is not None else 0 for site in sites]
    return torch.tensor([[layer in _around(centre, window) for layer in there] for centre in layers])


def _units(sites: list[Site], unit_axis: str, where: Where) -> tuple[Bool[Tensor, "choice site unit"], list[int]]:
    """One choice for each unit that is swept, in every site; their numbers."""
    size = n_units(sites[0])
    for words, choice, name in ((HEADS, where.heads, "heads"), (NEURONS, where.neurons, "neurons")):
        if choice is not None and unit_axis not in words:
            raise InterventionError(f"{sites[0].name} has no {name} to choose from; leave {name} out")
    choice = where.heads if where.heads is not None else where.neurons
    numbers = list(range(size)) if choice is None else within(choice, size, unit_axis)
    masks = torch.stack([among([number], size) for number in numbers])
    return masks[:, None].expand(-1, len(sites), -1), numbers


def _units_selected(sites: list[Site], selected: list[tuple[int, int]]) -> Bool[Tensor, "1 site unit"]:
    """Those of each layer that are selected, as one choice."""
    size = n_units(sites[0])
    return torch.stack([among([u for layer, u in selected if layer == site.layer], size) for site in sites])[None]


def _columns(
    where: Where, text: Text, named: Labels
) -> tuple[Bool[Tensor, "choice example column"], tuple[Place, ...]]:
    """One choice for each position that is swept, or label; their numbers or names."""
    n_examples, n_columns = text.tokens.shape
    if isinstance(where.positions, Mapping):
        return columns_of_labels(named, text), tuple(named)
    chosen = within(range(n_columns) if where.positions is None else where.positions, n_columns, "position")
    masks = torch.stack([among([column], n_columns) for column in chosen])
    return masks[:, None].expand(-1, n_examples, -1), tuple(chosen)


def _product(sizes: Mapping[str, int]) -> dict[str, Int[Tensor, " cell"]]:
    """Of each axis, the place of each cell; under no name, 0 for each."""
    every = torch.cartesian_prod(torch.zeros(1, dtype=torch.long), *map(torch.arange, sizes.values()))
    return dict(zip(("", *sizes), every.view(-1, 1 + len(sizes)).t(), strict=True))


def _shown(model: HookedTransformer, places: Mapping[str, tuple[Place, ...]], text: Text) -> dict[str, tuple[str, ...]]:
    """Positions of a single text as its tokens; all else by number or name."""
    shown = {axis: tuple(map(str, numbers)) for axis, numbers in places.items()}
    if model.tokenizer is not None and len(text.tokens) == 1:
        pieces = model.to_str_tokens(text.tokens)
        named = {axis: numbers for axis, numbers in places.items() if axis in (*POSITIONS, "key")}
        shown |= {axis: tuple(pieces[int(number)] for number in numbers) for axis, numbers in named.items()}
    return shown
