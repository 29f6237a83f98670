"""Sweeps: one kind of intervention over a grid of places, and what it did to a metric at each.

Each cell is exactly the run with its one intervention. What a cell cannot change is not computed: see `recompute`. A
view of the model brings functions of its user's along, which may look at anything; there each cell is a run of the
whole batch, from the layer of the change on.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from tqdm.auto import tqdm

from ..errors import InputError
from ..hooked import HookedTransformer
from ..hooks import At
from ..inputs import Text, TextLike, read_text
from ..interventions._base import Choice
from ..keywords import checked_keywords
from ..metrics import Metric, MetricLike, measure, resolve
from ..recompute import recompute, record
from ..recompute.reading import OfCallable, reading_of
from ..sizes import free_memory
from ..sweep_result import SweepResult, Work, difference
from .grid import Grid, Room, batches, grid_of, nowhere, planned, region
from .source import Source, ablation, as_it_is

_MEMORY = 2**29  # bytes that a batch of cells may take, where free memory allows


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
    attention_mask: Tensor | None = None,
    progress: bool = True,
    memory: int | None = None,
) -> SweepResult:
    """Patch one site between two runs, at each place of a grid, and measure.

    direction "denoise" edits the corrupted run with clean values, "noise" the clean run with corrupted ones.
    site:  any kind that a layer has, such as "resid_pre", "attn_out", "mlp_out", "q", "k", "v", "z", "post".
    over:  the grid's axes, among "layer", "pos" and the site's own ("head", "kv_head", "d_mlp", "expert"); what is not
           an axis is patched as a whole. None for layer x pos, or layer x head where a site has heads.
    layers, heads, positions: sweep these only.
    memory: bytes that may be used at a time; None for half a gigabyte, or a quarter of what is free.

    clean and corrupted are texts or tokens (these with an attention_mask, where padded), one pair or a batch of them,
    the two of a pair of equal length. Positions of the grid are columns of the batch; where an example has no token
    its value is NaN, and means skip it. (Heimersheim and Nanda 2024 discuss what each direction shows.)
    """
    if direction not in ("denoise", "noise"):
        raise InputError(f"direction is {direction!r}; 'denoise' or 'noise' is wanted")
    on_clean, on_corrupted = _pair(model, clean, corrupted, attention_mask)
    grid = grid_of(model, site, over, layers, heads, positions, on_clean.tokens)
    metric = resolve(metric, model.tokenizer)
    text, others = (on_corrupted, on_clean) if direction == "denoise" else (on_clean, on_corrupted)
    swept = _swept(model, text, grid, metric, Source(others, as_it_is, measured=True), progress, memory)
    of_clean, of_corrupted = (swept.other, swept.base) if direction == "denoise" else (swept.base, swept.other)
    result = _result(model, text, grid, swept, of_clean, of_corrupted, direction)
    if (same := difference(of_clean, of_corrupted).isnan()).any():
        pairs = same.nonzero().flatten().tolist()
        warnings.warn(f"clean and corrupted measure the same in pairs {pairs}; their effect is NaN", stacklevel=3)
    return result


@checked_keywords
def ablate(
    model: HookedTransformer,
    tokens: TextLike,
    metric: MetricLike,
    site: str = "z",
    kind: str = "zero",
    reference: TextLike | None = None,
    over: Sequence[str] | None = None,
    layers: Choice = None,
    heads: Choice = None,
    positions: Choice = None,
    attention_mask: Tensor | None = None,
    seed: int = 0,
    progress: bool = True,
    memory: int | None = None,
) -> SweepResult:
    """Take away what one site says, at each place of a grid, and measure what the metric loses.

    kind:      what stands there instead. "zero": 0. "mean": the mean over a reference set, at each position (Wang et
               al. 2022). "resample": the values of an example of the reference set, one drawn for each by `seed` (Chan
               et al. 2022, "causal scrubbing").
    reference: texts or tokens as long as those that are ablated.

    Sites and axes as in `activation_patching`. The effect is the metric's change.
    """
    text = _text(model, tokens, attention_mask)
    source = ablation(kind, None if reference is None else _text(model, reference), text, seed)
    grid = grid_of(model, site, over, layers, heads, positions, text.tokens)
    swept = _swept(model, text, grid, resolve(metric, model.tokenizer), source, progress, memory)
    return _result(model, text, grid, swept, swept.base, swept.other, "ablate")


class Swept(NamedTuple):
    """The metric of every cell, of the run that is changed and of the one that changes come from (if any), which cells
    change nothing, and how many tokens went through a layer for it."""

    values: Float[Tensor, "cell example"]
    base: Float[Tensor, " example"]
    other: Float[Tensor, " *example"]
    unchanged: Bool[Tensor, " cell"]
    computed: int


def _swept(
    model: HookedTransformer,
    text: Text,
    grid: Grid,
    metric: MetricLike,
    source: Source,
    progress: bool,
    memory: int | None,
) -> Swept:
    """Cells that change nothing are the base run and are not run again."""
    way = _wide if model._view_hooks else _cone
    with tqdm(total=grid.n_cells, unit="cell", disable=not progress, leave=False) as bar:
        swept = way(model, text, grid, metric, source, bar, memory)
    return swept._replace(values=swept.values.masked_fill(nowhere(grid, text.positions >= 0), torch.nan))


@torch.no_grad()
def _cone(
    model: HookedTransformer,
    text: Text,
    grid: Grid,
    metric: MetricLike,
    source: Source,
    bar: tqdm,
    memory: int | None,
) -> Swept:
    recorded = record(model, text, grid.sites)
    reading = reading_of(model, recorded, metric)
    base = dict(recorded.cache)
    of_source = recorded if source.text is None else record(model, source.text, grid.sites)
    new = {name: source.becomes(value) for name, value in of_source.cache.items()}
    at_other = reading_of(model, of_source, metric).base.cpu() if source.measured else torch.empty(0)
    plan = planned(grid, base, new, recorded.real, model.spec.n_layers)
    values = reading.base.repeat(grid.n_cells, 1)
    room = _room(model, text, isinstance(reading, OfCallable), memory)
    computed = (text.tokens.numel() + source.n_tokens) * model.spec.n_layers
    unchanged = (plan.first == text.tokens.shape[1]).all(1)
    waiting = (plan.first <= reading.last.cpu()).any(1)
    with _kept_when_interrupted(values, waiting):
        for cells, batch in batches(grid, plan, new, reading.last, room):
            x, rows, work = recompute(model, recorded, batch, reading.last)
            computed += work
            values[cells] = reading.of(x, rows, batch.changes, len(cells))
            waiting[cells] = False
            bar.update(len(cells))
    bar.update(grid.n_cells - bar.n)
    return Swept(values.cpu(), reading.base.cpu(), at_other, unchanged, computed)


@torch.no_grad()
def _wide(
    model: HookedTransformer,
    text: Text,
    grid: Grid,
    metric: MetricLike,
    source: Source,
    bar: tqdm,
    memory: int | None,
) -> Swept:
    """Hooks of a view act before the change, once, on a batch of the shape that they were given."""
    layers = [site.layer or 0 for site in grid.sites]
    real = text.positions >= 0
    metric = metric.of_texts(real) if isinstance(metric, Metric) else metric
    embedded, _ = model.run_with_cache(text.tokens, names_filter="embed", stop_at_layer=0, attention_mask=real)
    before = [("resid_post", layer - 1) for layer in layers if layer]
    logits, cache = model.run_with_cache(text.tokens, names_filter=[*grid.sites, *before], attention_mask=real)
    at_base = measure(metric, logits)
    base = {site.name: cache[site.name] for site in grid.sites}
    of_source = cache
    if source.text is not None:
        mask = source.text.positions >= 0
        logits, of_source = model.run_with_cache(source.text.tokens, names_filter=list(grid.sites), attention_mask=mask)
    new = {site.name: source.becomes(of_source[site.name]) for site in grid.sites}
    at_other = measure(metric, logits) if source.measured else torch.empty(0)
    unchanged = (planned(grid, base, new, real, model.spec.n_layers).first == text.tokens.shape[1]).all(1)
    values = at_base.repeat(grid.n_cells, 1)
    computed = (text.tokens.numel() + source.n_tokens) * model.spec.n_layers
    waiting = ~unchanged
    with _kept_when_interrupted(values, waiting):
        for cell in waiting.nonzero()[:, 0].tolist():
            sites = grid.sites if grid.layer[cell] == -1 else (grid.sites[int(grid.layer[cell])],)
            start = sites[0].layer or 0
            hooks = [(site, partial(_put, grid=grid, cell=cell, new=new)) for site in sites]
            stream = cache["resid_post", start - 1] if start else embedded
            computed += (model.spec.n_layers - start) * text.tokens.numel()
            logits, _ = model.resume(stream, start_at_layer=start, hooks=hooks, attention_mask=real)
            values[cell] = measure(metric, logits)
            waiting[cell] = False
            bar.update()
    bar.update(grid.n_cells - bar.n)
    return Swept(values, at_base, at_other, unchanged, computed)


def _put(value: Tensor, at: At, grid: Grid, cell: int, new: Mapping[str, Tensor]) -> Tensor:
    """A cell's change as a hook."""
    return torch.where(region(grid, cell, at.site, value), new[at.name], value)


@contextmanager
def _kept_when_interrupted(values: Float[Tensor, "cell example"], waiting: Bool[Tensor, " cell"]) -> Iterator[None]:
    """What is done when a person interrupts long work is kept, and what is not is NaN."""
    try:
        yield
    except KeyboardInterrupt:
        values[waiting] = torch.nan
        warnings.warn(
            f"interrupted: {int(waiting.sum())} of {len(waiting)} cells were not computed and are NaN", stacklevel=2
        )


def _room(model: HookedTransformer, text: Text, whole_logits: bool, memory: int | None) -> Room:
    """What a batch of cells may take, in numbers: the widest layer's activations of each token, the keys and values of
    each row's whole text, and logits where all are wanted."""
    spec, n_columns = model.spec, text.tokens.shape[1]
    of_attention = max(getattr(layer.attn, "n_heads", 0) * getattr(layer.attn, "d_head", 0) for layer in spec.layers)
    d_mlp = max(getattr(layer.mlp, "d_mlp", 0) for layer in spec.layers)
    logits = 2 * spec.vocab_size if whole_logits else 0
    budget = min(_MEMORY, free_memory(model.device) // 4) if memory is None else memory
    return Room(
        total=budget // 4,
        of_token=6 * spec.d_model + 4 * of_attention + 3 * d_mlp + n_columns + logits,
        of_row=3 * n_columns * of_attention,
    )


def _result(
    model: HookedTransformer,
    text: Text,
    grid: Grid,
    swept: Swept,
    clean: Tensor,
    corrupted: Tensor,
    direction: str,
) -> SweepResult:
    return SweepResult(
        values=swept.values.t().reshape(-1, *grid.shape),
        axes=grid.axes,
        labels=grid.labels,
        places=grid.places,
        clean=clean,
        corrupted=corrupted,
        site=grid.site,
        direction=direction,
        unchanged=swept.unchanged.reshape(grid.shape),
        work=Work(swept.computed, grid.n_cells * text.tokens.numel() * model.spec.n_layers),
    )


def _text(model: HookedTransformer, given: TextLike, attention_mask: Tensor | None = None) -> Text:
    mask = attention_mask if isinstance(given, Tensor) else None
    return read_text(given, model.spec, model.tokenizer, model.device, mask)


def _pair(
    model: HookedTransformer, clean: TextLike, corrupted: TextLike, attention_mask: Tensor | None
) -> tuple[Text, Text]:
    """Both, which fit each other."""
    ours, theirs = _text(model, clean, attention_mask), _text(model, corrupted, attention_mask)
    if len(ours.tokens) != len(theirs.tokens):
        raise InputError(f"clean has {len(ours.tokens)} texts and corrupted {len(theirs.tokens)}; pairs are wanted")
    lengths = [(text.positions >= 0).sum(1).tolist() for text in (ours, theirs)]
    for pair, (a, b) in enumerate(zip(*lengths, strict=True)):
        if a != b:
            raise InputError(
                f"pair {pair} has {a} tokens in clean and {b} in corrupted; patching wants pairs of equal length"
            )
    if ours.positions.shape != theirs.positions.shape or not torch.equal(ours.positions, theirs.positions):
        raise InputError("clean and corrupted are padded differently; tokens that stand at the same place are wanted")
    return ours, theirs
