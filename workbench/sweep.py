"""Sweeps: one kind of intervention over a grid of places, and what it did to a metric at each.

All cells of a layer go through the model together, as rows of one batch that starts at the layer's recorded stream:
what comes before cannot change. Each cell is exactly the run with its one intervention.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import torch
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor
from tqdm.auto import tqdm

from .cache import ActivationCache
from .errors import InputError, InterventionError
from .hooked import HookedTransformer
from .hooks import At
from .inputs import TextLike, read_text
from .interventions._base import Choice, Region, region_of, within
from .keywords import checked_keywords
from .metrics import MetricLike, measure, resolve
from .sites import Site
from .sweep_result import SweepResult, difference

_ROW_BYTES = 2**28  # logits of one batch of cells; the largest tensor of a sweep

# What each kind of site is swept over, the first form by default.
_OVER = {
    "pos": (("layer", "pos"), ("layer",)),
    "head": (("layer", "head"), ("layer", "pos", "head"), ("layer", "pos"), ("layer",)),
}
_SITES = {"resid_pre": "pos", "attn_out": "pos", "mlp_out": "pos", "z": "head"}


@checked_keywords
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

    clean and corrupted are texts or tokens, one pair or a batch of pairs, all of equal length. (Heimersheim and Nanda
    2024 discuss what each direction shows.)
    """
    if direction not in ("denoise", "noise"):
        raise InputError(f"direction is {direction!r}; 'denoise' or 'noise' is wanted")
    on_clean, on_corrupted = _pair(model, clean, corrupted)
    grid = _Grid.of(model, site, over, layers, heads, positions, on_clean)
    metric = resolve(metric, model.tokenizer)
    tokens, others = (on_corrupted, on_clean) if direction == "denoise" else (on_clean, on_corrupted)
    logits, base, streams = _recorded(model, tokens, grid.sites)
    other_logits, other = model.run_with_cache(others, names_filter=list(grid.sites))
    at_base, at_other = measure(metric, logits), measure(metric, other_logits)
    values, unchanged = grid.run(model, metric, streams, base, other, at_base, progress)
    of_clean, of_corrupted = (at_other, at_base) if direction == "denoise" else (at_base, at_other)
    return grid.result(values, of_clean, of_corrupted, direction, unchanged)


@checked_keywords
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
    ids = _tokens(model, tokens)
    grid = _Grid.of(model, site, over, layers, heads, positions, ids)
    metric = resolve(metric, model.tokenizer)
    logits, base, streams = _recorded(model, ids, grid.sites)
    at_base = measure(metric, logits)
    nothing = {name: torch.zeros_like(value) for name, value in base.items()}
    values, unchanged = grid.run(model, metric, streams, base, nothing, at_base, progress)
    return grid.result(values, at_base, torch.empty(0), "ablate", unchanged)


@dataclass(frozen=True)
class _Grid:
    """The places of a sweep: which layers, and within a layer which positions and heads make a cell."""

    site: str
    sites: tuple[Site, ...]  # one per layer swept
    axes: tuple[str, ...]
    cells: tuple[tuple[Choice, Choice], ...]  # positions and heads of each cell of a layer
    labels: dict[str, tuple[str, ...]]
    places: dict[str, tuple[int, ...]]

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
        numbers = {"layer": [found.layer or 0 for found in sites], "pos": chosen_pos, "head": chosen_heads}
        places = {axis: tuple(numbers[axis]) for axis in axes}
        labels = {axis: _numbers(places[axis]) for axis in axes}
        if "pos" in axes and model.tokenizer is not None and len(tokens) == 1:
            pieces = model.to_str_tokens(tokens)
            labels["pos"] = tuple(pieces[position] for position in chosen_pos)
        return cls(site, tuple(sites), axes, tuple(product(pos_cells, head_cells)), labels, places)

    def run(
        self,
        model: HookedTransformer,
        metric: MetricLike,
        streams: Sequence[Tensor],
        base: Mapping[str, Tensor],
        other: Mapping[str, Tensor],
        at_base: Float[Tensor, " example"],
        progress: bool,
    ) -> tuple[Float[Tensor, "layer cell example"], Bool[Tensor, "layer cell"]]:
        """The metric of every cell, and which cells change nothing. These are the base run and are not run again.

        streams: what enters the layer of each site. base, other: the values at the sites, as they were and as they
        become. Hooks that a view of the model brings along may count on the rows of their text, so that there each
        cell is a batch of its own.
        """
        values = at_base.repeat(len(self.sites), len(self.cells), 1)
        unchanged = torch.zeros(len(self.sites), len(self.cells), dtype=torch.bool)
        with tqdm(total=unchanged.numel(), unit="cell", disable=not progress, leave=False) as bar:
            for row, (site, stream) in enumerate(zip(self.sites, streams, strict=True)):
                before, after = base[site.name], other[site.name]
                regions = [region_of(site, before.shape, pos, heads) for pos, heads in self.cells]
                unchanged[row] = torch.tensor([torch.equal(before[region], after[region]) for region in regions])
                changing = (~unchanged[row]).nonzero().flatten().tolist()
                one_at_a_time = bool(model._view_hooks)
                bytes_per_cell = _ROW_BYTES if one_at_a_time else model.spec.vocab_size * stream[..., 0].numel() * 4
                for cells in _batches(changing, bytes_per_cell):
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
            places=self.places,
            clean=clean,
            corrupted=corrupted,
            site=self.site,
            direction=direction,
            unchanged=unchanged.reshape(shape),
        )
        if direction != "ablate" and (same := difference(clean, corrupted).isnan()).any():
            pairs = same.nonzero().flatten().tolist()
            warnings.warn(f"clean and corrupted measure the same in pairs {pairs}; their effect is NaN", stacklevel=4)
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


def _recorded(
    model: HookedTransformer, tokens: Tensor, sites: Sequence[Site]
) -> tuple[Tensor, ActivationCache, list[Tensor]]:
    """Logits, the values at the sites, and for each site what enters its layer. That is taken before anything that a
    view of the model does there, since a run that resumes does it again."""
    layers = [site.layer or 0 for site in sites]
    embedded, _ = model.run_with_cache(tokens, names_filter="embed", stop_at_layer=0)
    before = [("resid_post", layer - 1) for layer in layers if layer]
    logits, cache = model.run_with_cache(tokens, names_filter=[*sites, *before])
    return logits, cache, [cache["resid_post", layer - 1] if layer else embedded for layer in layers]


def _batches(cells: Sequence[int], bytes_per_cell: int) -> Iterator[list[int]]:
    size = max(1, _ROW_BYTES // bytes_per_cell)
    return (list(cells[start : start + size]) for start in range(0, len(cells), size))


def _axes(site: str, over: Sequence[str] | None) -> tuple[str, ...]:
    if not isinstance(site, str) or site not in _SITES:
        raise InterventionError(f"a sweep is over {', '.join(_SITES)}; {site!r} came")
    forms = _OVER[_SITES[site]]
    if over is None:
        return forms[0]
    axes = tuple(over) if isinstance(over, (list, tuple)) else ()
    if axes not in forms:
        raise InterventionError(f"{site!r} is swept over {' or '.join(map(str, forms))}; {over!r} came")
    return axes


def _heads(site: Site, heads: Choice) -> list[int]:
    if "head" not in site.axes:
        if heads is not None:
            raise InterventionError(f"{site.name} has no heads to choose from; leave heads out")
        return []
    n_heads = site.sizes[site.axes.index("head")] or 0
    return within(range(n_heads) if heads is None else heads, n_heads, "head")


def _tokens(model: HookedTransformer, given: TextLike) -> Tensor:
    text = read_text(given, model.spec, model.tokenizer, model.device)
    if text.padded:
        raise InputError("the texts of this batch have unequal numbers of tokens; sweep those of each length by itself")
    return text.tokens


def _pair(model: HookedTransformer, clean: TextLike, corrupted: TextLike) -> tuple[Tensor, Tensor]:
    """The tokens of both, which fit each other."""
    ours, theirs = _tokens(model, clean), _tokens(model, corrupted)
    if ours.shape != theirs.shape:
        raise InputError(
            f"clean is {ours.shape[0]} x {ours.shape[1]} tokens and corrupted {theirs.shape[0]} x {theirs.shape[1]}; "
            "patching wants pairs of equal length"
        )
    return ours, theirs


def _numbers(places: Sequence[int]) -> tuple[str, ...]:
    return tuple(map(str, places))
