"""Two ways through a sweep, which say the same.

The cone computes what a cell can reach, and wants to know beforehand all that is changed. The wide way is for a view of
the model with functions of its user's, which may look at anything, or with patterns that weigh what comes later: each
cell is a run of the whole batch, from the layer of the change on.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from tqdm.auto import tqdm

from ..errors import KindError, count
from ..hooked import HookedTransformer
from ..hooks import At
from ..inputs import Text
from ..interventions import Intervention, Part
from ..metrics import Labels, Metric, MetricLike, measure
from ..recompute import Recorded, declared, recompute, record
from ..recompute.changes import Becomes, at_text, becoming
from ..recompute.reading import Reading, reading_of
from ..sites import Site
from ..sizes import free_memory
from .grid import Grid
from .plan import Plan, Room, batches, nowhere, planned

# Bytes that a batch of cells may take, where free memory allows. A CPU is slower where a batch outgrows its caches.
_MEMORY = {"cpu": 2**27}
_MEMORY_ELSEWHERE = 2**31

Done = tuple[Int[Tensor, " cell"], Float[Tensor, "cell example"], int]


@dataclass(frozen=True)
class Base:
    """An untouched run, and what the metric says of it."""

    recorded: Recorded
    measured: Float[Tensor, " example"]
    reading: Reading | None = None


class Swept(NamedTuple):
    """The metric of every cell, which cells change nothing, and how many tokens went through a layer for it."""

    values: Float[Tensor, "cell example"]
    unchanged: Bool[Tensor, " cell"]
    computed: int


@dataclass(frozen=True)
class Way(ABC):
    """labels: names of positions, which the metric may go by."""

    model: HookedTransformer
    metric: MetricLike
    labels: Labels
    memory: int | None

    @abstractmethod
    def base(self, text: Text, sites: tuple[Site, ...]) -> Base:
        """Run a text and measure it."""

    @abstractmethod
    def cells(self, base: Base, grid: Grid, plan: Plan, becomes: Mapping[str, Becomes]) -> Iterator[Done]:
        """Cells that can move the metric, as they are done: their values, and the work."""

    def moving(self, base: Base, plan: Plan) -> Bool[Tensor, " cell"]:
        """Which cells can move the metric."""
        return ~plan.unchanged

    def recorded(self, text: Text, sites: tuple[Site, ...]) -> Recorded:
        return record(self.model, text, sites, self.model._view_hooks)

    def metric_of(self, text: Text) -> MetricLike:
        """The metric in columns of a text."""
        if not isinstance(self.metric, Metric):
            return self.metric
        return self.metric.of_texts(text.tokens, text.positions >= 0, self.labels)


def way_through(model: HookedTransformer, metric: MetricLike, text: Text, labels: Labels, memory: int | None) -> Way:
    if memory is not None and (isinstance(memory, bool) or not isinstance(memory, int) or memory < 1):
        raise KindError(f"memory is {memory!r}; how many bytes a batch of cells may take, from 1 on, is wanted")
    way = Cone if declared(model._view_hooks, model, text) else Wide
    return way(model, metric, labels, memory)


@torch.no_grad()
def swept(way: Way, base: Base, grid: Grid, change: Intervention, progress: bool) -> Swept:
    """Cells that change nothing are the base run and are not run again. What is done when a person interrupts long
    work is kept, and what is not is NaN."""
    recorded, n_layers = base.recorded, way.model.spec.n_layers
    old = dict(recorded.cache)
    at = {site.name: at_text(site, recorded.text) for site in grid.sites}
    for site in grid.sites:
        change.check(site)
        change.check_run(old[site.name], at[site.name])
    becomes = {name: becoming(change, at[name], value.shape) for name, value in old.items()}
    new = {name: becomes[name](value, Part(value.shape, (slice(None),))) for name, value in old.items()}
    plan = planned(grid, old, new, recorded.real, n_layers)
    values = base.measured.repeat(grid.n_cells, 1)
    waiting, computed = way.moving(base, plan), recorded.text.tokens.numel() * n_layers
    with tqdm(total=grid.n_cells, unit="cell", disable=not progress, leave=False) as bar, _kept(values, waiting):
        for cells, of_cells, work in way.cells(base, grid, plan, becomes):
            values[cells], waiting[cells] = of_cells.cpu(), False
            computed += work
            bar.update(len(cells))
        waiting[:] = False
        bar.update(grid.n_cells - bar.n)
    values = values.masked_fill(nowhere(grid, recorded.real), torch.nan)
    return Swept(values, plan.unchanged, computed)


class Cone(Way):
    @torch.no_grad()
    def base(self, text: Text, sites: tuple[Site, ...]) -> Base:
        recorded = self.recorded(text, sites)
        reading = reading_of(self.model, recorded, self.metric_of(text))
        return Base(recorded, reading.base.cpu(), reading)

    def moving(self, base: Base, plan: Plan) -> Bool[Tensor, " cell"]:
        """Not those whose changes begin after the last column that it reads."""
        assert base.reading is not None
        return (plan.first <= base.reading.last.cpu()).any(1)

    def cells(self, base: Base, grid: Grid, plan: Plan, becomes: Mapping[str, Becomes]) -> Iterator[Done]:
        reading, recorded = base.reading, base.recorded
        assert reading is not None
        room = _room(self.model, recorded.text, reading, self.memory)
        for cells, batch in batches(grid, plan, becomes, reading.last, room):
            x, rows, work = recompute(self.model, recorded, batch, reading.read)
            yield cells, reading.of(x, rows, batch.changes, len(cells)), work


class Wide(Way):
    """Hooks of the view act before the change, once, on a batch of the shape that they were given."""

    @torch.no_grad()
    def base(self, text: Text, sites: tuple[Site, ...]) -> Base:
        recorded, end = self.recorded(text, sites), self.model.spec.n_layers
        logits, _ = self.model.resume(recorded.streams[-1], end, attention_mask=recorded.real)
        return Base(recorded, measure(self.metric_of(text), logits))

    def cells(self, base: Base, grid: Grid, plan: Plan, becomes: Mapping[str, Becomes]) -> Iterator[Done]:
        model, recorded, metric = self.model, base.recorded, self.metric_of(base.recorded.text)
        real = recorded.real
        for cell in (~plan.unchanged).nonzero()[:, 0].tolist():
            start = int(plan.layer[cell].min())  # before it the cell's values are what they were
            every = [site for index, site in enumerate(grid.sites) if grid.layers[grid.at[cell, 0], index]]
            sites = [site for site in every if site.layer is None or site.layer >= start]
            hooks = [(site, partial(_put, grid=grid, cell=cell, becomes=becomes[site.name])) for site in sites]
            if start < 0:
                logits, _ = model(recorded.text.tokens, hooks=hooks, attention_mask=real)
            else:
                logits, _ = model.resume(recorded.streams[start], start, hooks=hooks, attention_mask=real)
            work = (model.spec.n_layers - max(start, 0)) * recorded.positions.numel()
            yield torch.tensor([cell]), measure(metric, logits)[None], work


def _put(value: Tensor, at: At, grid: Grid, cell: int, becomes: Becomes) -> Tensor:
    """A cell's change as a hook."""
    new = becomes(value, Part(value.shape, (slice(None),)))
    return torch.where(_mask(grid, cell, at.site, value), new, value)


def _mask(grid: Grid, cell: int, site: Site, value: Tensor) -> Bool[Tensor, "..."]:
    """Where a cell changes a value, as a mask that it broadcasts with."""
    _, columns, units, keys = grid.at[cell].tolist()
    of_columns = grid.columns[columns]  # [example column]
    of_units = grid.units[units, grid.sites.index(site)]
    if "query" in site.axes:  # [example unit query (key)]
        mask = of_columns[:, None] & of_units[:, None]
        mask = mask[..., None] & grid.keys[keys] if grid.has_keys else mask
    else:  # [example column (unit) ...]
        mask = of_columns[..., None] & of_units
    return mask.view(*mask.shape, *[1] * (value.ndim - mask.ndim)).to(value.device)


@contextmanager
def _kept(values: Float[Tensor, "cell example"], waiting: Bool[Tensor, " cell"]) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        values[waiting] = torch.nan
        n_waiting = int(waiting.sum())
        warnings.warn(f"interrupted: {n_waiting} of {count(len(waiting), 'cell')} were not computed, NaN", stacklevel=4)


def _room(model: HookedTransformer, text: Text, reading: Reading, memory: int | None) -> Room:
    """What a batch of cells may take, in numbers: the widest layer's activations of each token, the keys and values of
    each row's whole text, and logits."""
    spec, n_columns = model.spec, text.tokens.shape[1]
    of_attention = max(getattr(layer.attn, "n_heads", 0) * getattr(layer.attn, "d_head", 0) for layer in spec.layers)
    d_mlp = max(getattr(layer.mlp, "d_mlp", 0) for layer in spec.layers)
    usual = min(_MEMORY.get(model.device.type, _MEMORY_ELSEWHERE), free_memory(model.device) // 4)
    budget = usual if memory is None else min(memory, 2**60)
    return Room(
        total=budget // 4,
        of_token=6 * spec.d_model + 4 * of_attention + 3 * d_mlp + n_columns + reading.of_token,
        of_row=3 * n_columns * of_attention + reading.of_row,
    )
