"""Sweeps: one kind of intervention over a grid of places, and what it did to a metric at each.

All cells of a layer go through the model together, as rows of one batch that starts at the layer's recorded stream:
what comes before cannot change. Each cell is exactly the run with its one intervention.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import torch
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor
from tqdm.auto import tqdm

from .cache import ActivationCache
from .errors import InputError, InterventionError
from .hooked import HookedTransformer
from .hooks import At
from .inputs import TextLike
from .interventions._base import Choice, Region, region_of, within
from .metrics import MetricLike, measure, resolve
from .sites import Site

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

_LEAST = 1e-6  # of a difference between base and other that an effect can be a share of
_ROW_BYTES = 2**28  # logits of one batch of cells; the largest tensor of a sweep

# What each kind of site is swept over, the first form by default.
_OVER = {
    "pos": (("layer", "pos"), ("layer",)),
    "head": (("layer", "head"), ("layer", "pos", "head"), ("layer", "pos"), ("layer",)),
}
_SITES = {"resid_pre": "pos", "attn_out": "pos", "mlp_out": "pos", "z": "head"}


@dataclass(frozen=True)
class SweepResult:
    """What an intervention did to a metric, at each place of a grid.

    values:    [example, *axes] the metric of the edited run.
    axes:      the grid's axes, e.g. ("layer", "pos").
    labels:    for each axis, what its places are called: numbers, or tokens for positions.
    clean, corrupted: [example] the metric of the untouched runs; for an ablation corrupted is empty.
    site, direction:  what was changed; "denoise", "noise" or "ablate".
    unchanged: [*axes] where the new values equalled the old ones, so that nothing could happen.
    """

    values: Float[Tensor, " example *axes"]
    axes: tuple[str, ...]
    labels: dict[str, tuple[str, ...]]
    clean: Float[Tensor, " example"]
    corrupted: Float[Tensor, " *example"]
    site: str
    direction: str
    unchanged: Bool[Tensor, " *axes"]

    @property
    def mean(self) -> Float[Tensor, " *axes"]:
        """The metric of each cell, over examples."""
        return self.values.mean(0)

    @property
    def _base_and_other(self) -> tuple[Tensor, Tensor]:
        return (self.corrupted, self.clean) if self.direction == "denoise" else (self.clean, self.corrupted)

    @property
    def effect(self) -> Float[Tensor, " *axes"]:
        """(mean value - mean base) / (mean other - mean base): 0 nothing moved, 1 moved all the way. The base is the
        run that is edited, the other the run patched from. For an ablation: mean value - mean clean.

        NaN where base and other do not differ.
        """
        if self.direction == "ablate":
            return self.mean - self.clean.mean()
        base, other = self._base_and_other
        return (self.mean - base.mean()) / _or_nan(other.mean() - base.mean())

    @property
    def effect_each(self) -> Float[Tensor, " example *axes"]:
        """The effect of each example on its own."""
        over = (slice(None), *[None] * len(self.axes))
        if self.direction == "ablate":
            return self.values - self.clean[over]
        base, other = self._base_and_other
        return (self.values - base[over]) / _or_nan(other - base)[over]

    def to_dataframe(self) -> pd.DataFrame:
        """Long form: one row per example and cell, with value and effect."""
        import pandas as pd  # slow to import, and few programs ask for a table

        cells = product(range(len(self.values)), *(range(len(self.labels[axis])) for axis in self.axes))
        index = pd.DataFrame(list(cells), columns=["example", *self.axes])
        for axis in self.axes:
            if axis == "pos":
                index["token"] = [self.labels["pos"][place] for place in index["pos"]]
            else:
                index[axis] = [int(self.labels[axis][place]) for place in index[axis]]
        return index.assign(value=self.values.flatten().numpy(), effect=self.effect_each.flatten().numpy())

    def figure(self) -> go.Figure:
        """The effects as a heat map."""
        from . import figures

        return figures.patching(self)


def activation_patching(
    model: HookedTransformer,
    clean: TextLike,
    corrupted: TextLike,
    metric: MetricLike,
    site: str = "resid_pre",
    over: Sequence[str] | None = None,
    direction: str = "denoise",
    layers: Choice = None,
    heads: Choice = None,
    positions: Choice = None,
    progress: bool = True,
) -> SweepResult:
    """Patch one site between two runs, at each place of a grid, and measure.

    direction "denoise" edits the corrupted run with clean values, "noise" the clean run with corrupted ones.
    site:  "resid_pre", "attn_out", "mlp_out" (over layer and pos) or "z" (over layer and head; also with pos).
    over:  the grid's axes; what is not an axis is patched as a whole.
    layers, heads, positions: sweep these only.

    clean and corrupted are texts or tokens of equal length, one pair or a batch of pairs. (Heimersheim and Nanda
    2024 discuss what each direction shows.)
    """
    if direction not in ("denoise", "noise"):
        raise InputError(f"direction is {direction!r}; 'denoise' or 'noise' is wanted")
    grid = _Grid.of(model, site, over, layers, heads, positions, _pair(model, clean, corrupted))
    metric = resolve(metric, model.tokenizer)
    base, other = (corrupted, clean) if direction == "denoise" else (clean, corrupted)
    base_logits, streams = _recorded(model, base, ["resid_pre", grid.site])
    other_logits, source = _recorded(model, other, grid.site)
    at_base, at_other = measure(metric, base_logits), measure(metric, other_logits)
    values, unchanged = grid.run(model, metric, streams, source, at_base, progress)
    on_clean, on_corrupted = (at_other, at_base) if direction == "denoise" else (at_base, at_other)
    return grid.result(values, on_clean, on_corrupted, direction, unchanged)


def ablate(
    model: HookedTransformer,
    tokens: TextLike,
    metric: MetricLike,
    site: str = "z",
    kind: str = "zero",
    over: Sequence[str] | None = None,
    layers: Choice = None,
    heads: Choice = None,
    positions: Choice = None,
    progress: bool = True,
) -> SweepResult:
    """Set one site to zero at each place of a grid, and measure what the metric loses.

    Sites and axes as in `activation_patching`. The effect is the metric's change.
    """
    if kind != "zero":
        raise InputError(f"kind is {kind!r}; 'zero' is what can be ablated with")
    grid = _Grid.of(model, site, over, layers, heads, positions, model.to_tokens(tokens))
    metric = resolve(metric, model.tokenizer)
    logits, streams = _recorded(model, tokens, ["resid_pre", grid.site])
    at_base = measure(metric, logits)
    nothing = {name: torch.zeros_like(value) for name, value in streams.items()}
    values, unchanged = grid.run(model, metric, streams, nothing, at_base, progress)
    return grid.result(values, at_base, torch.empty(0), "ablate", unchanged)


@dataclass(frozen=True)
class _Grid:
    """The places of a sweep: which layers, and within a layer which positions and heads make a cell."""

    site: str
    sites: tuple[Site, ...]  # one per layer swept
    axes: tuple[str, ...]
    cells: tuple[tuple[Choice, Choice], ...]  # positions and heads of each cell of a layer
    labels: dict[str, tuple[str, ...]]

    @classmethod
    def of(
        cls,
        model: HookedTransformer,
        site: str,
        over: Sequence[str] | None,
        layers: Choice,
        heads: Choice,
        positions: Choice,
        tokens: Tensor,
    ) -> _Grid:
        axes = _axes(site, over)
        sites = [found for found in model.sites.select(site) if found.layer is not None]
        if layers is not None:
            wanted = within(layers, model.spec.n_layers, "layer")
            sites = [found for found in sites if found.layer in wanted]
        chosen_pos = within(range(tokens.shape[1]) if positions is None else positions, tokens.shape[1], "position")
        chosen_heads = _heads(sites[0], heads)
        pos_cells = chosen_pos if "pos" in axes else [positions]
        head_cells = chosen_heads if "head" in axes else [heads]
        names = {
            "layer": tuple(str(found.layer) for found in sites),
            "pos": _position_names(model, tokens, chosen_pos),
            "head": tuple(map(str, chosen_heads)),
        }
        cells = tuple(product(pos_cells, head_cells))
        return cls(site, tuple(sites), axes, cells, {axis: names[axis] for axis in axes})

    def run(
        self,
        model: HookedTransformer,
        metric: MetricLike,
        streams: ActivationCache,
        source: Mapping[str, Tensor],
        at_base: Float[Tensor, " example"],
        progress: bool,
    ) -> tuple[Float[Tensor, "layer cell example"], Bool[Tensor, "layer cell"]]:
        """The metric of every cell, and which cells change nothing. These are the base run and are not run again."""
        values = at_base.repeat(len(self.sites), len(self.cells), 1)
        unchanged = torch.zeros(len(self.sites), len(self.cells), dtype=torch.bool)
        with tqdm(total=unchanged.numel(), unit="cell", disable=not progress, leave=False) as bar:
            for row, site in enumerate(self.sites):
                stream, before, after = streams["resid_pre", site.layer], streams[site.name], source[site.name]
                regions = [region_of(site, before.shape, pos, heads) for pos, heads in self.cells]
                unchanged[row] = torch.tensor([torch.equal(before[region], after[region]) for region in regions])
                changing = (~unchanged[row]).nonzero().flatten().tolist()
                for cells in _batches(changing, model.spec.vocab_size * stream[..., 0].numel() * 4):
                    edits = [regions[cell] for cell in cells]
                    values[row, cells] = _edited(model, site, stream, after, edits, metric)
                    bar.update(len(cells))
                bar.update(len(regions) - len(changing))
        return values, unchanged

    def result(
        self, values: Tensor, clean: Tensor, corrupted: Tensor, direction: str, unchanged: Tensor
    ) -> SweepResult:
        shape = [len(self.labels[axis]) for axis in self.axes]
        result = SweepResult(
            values=rearrange(values, "layer cell example -> example (layer cell)").reshape(-1, *shape),
            axes=self.axes,
            labels=self.labels,
            clean=clean,
            corrupted=corrupted,
            site=self.site,
            direction=direction,
            unchanged=unchanged.reshape(shape),
        )
        if direction != "ablate" and (same := (clean - corrupted).abs() < _LEAST).any():
            pairs = same.nonzero().flatten().tolist()
            warnings.warn(f"clean and corrupted measure the same in pairs {pairs}; their effect is NaN", stacklevel=3)
        return result


@torch.no_grad()
def _edited(
    model: HookedTransformer, site: Site, stream: Tensor, after: Tensor, regions: Sequence[Region], metric: MetricLike
) -> Float[Tensor, "cell example"]:
    """Run the cells of one layer as one batch, [cell example] along its rows."""
    n_examples = len(stream)

    def edit(value: Tensor, at: At) -> Tensor:
        for cell, region in zip(value.split(n_examples), regions, strict=True):
            cell[region] = after[region]
        return value

    rows = stream.repeat(len(regions), 1, 1)
    logits, _ = model.resume(rows, start_at_layer=site.layer or 0, hooks=[(site.name, edit)])
    return torch.stack([measure(metric, cell) for cell in logits.split(n_examples)])


def _recorded(model: HookedTransformer, tokens: TextLike, names: str | list[str]) -> tuple[Tensor, ActivationCache]:
    return model.run_with_cache(tokens, names_filter=names)


def _batches(cells: Sequence[int], bytes_per_cell: int) -> Iterator[list[int]]:
    size = max(1, _ROW_BYTES // bytes_per_cell)
    return (list(cells[start : start + size]) for start in range(0, len(cells), size))


def _or_nan(denominator: Tensor) -> Tensor:
    return torch.where(denominator.abs() < _LEAST, torch.nan, denominator)


def _axes(site: str, over: Sequence[str] | None) -> tuple[str, ...]:
    if site not in _SITES:
        raise InterventionError(f"a sweep is over {', '.join(_SITES)}; {site!r} came")
    forms = _OVER[_SITES[site]]
    if over is None:
        return forms[0]
    axes = tuple(over)
    if axes not in forms:
        raise InterventionError(f"{site!r} is swept over {' or '.join(map(str, forms))}; {axes} came")
    return axes


def _heads(site: Site, heads: Choice) -> list[int]:
    if "head" not in site.axes:
        if heads is not None:
            raise InterventionError(f"{site.name} has no heads to choose from; leave heads out")
        return []
    n_heads = site.sizes[site.axes.index("head")] or 0
    return within(range(n_heads) if heads is None else heads, n_heads, "head")


def _pair(model: HookedTransformer, clean: TextLike, corrupted: TextLike) -> Tensor:
    """The clean tokens, once both texts are known to fit each other."""
    ours, theirs = model.to_tokens(clean), model.to_tokens(corrupted)
    if ours.shape != theirs.shape:
        raise InputError(
            f"clean is {ours.shape[0]} x {ours.shape[1]} tokens and corrupted {theirs.shape[0]} x {theirs.shape[1]}; "
            "patching wants pairs of equal length"
        )
    return ours


def _position_names(model: HookedTransformer, tokens: Tensor, positions: Sequence[int]) -> tuple[str, ...]:
    """Token texts where there is one text to name them by, numbers otherwise."""
    if model.tokenizer is None or len(tokens) > 1:
        return tuple(map(str, positions))
    pieces = model.to_str_tokens(tokens)
    return tuple(pieces[position] for position in positions)
