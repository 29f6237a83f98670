"""Activation patching (Vig et al. 2020; Meng et al. 2022; Heimersheim and Nanda 2024)."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

from jaxtyping import Bool
from torch import Tensor

from ..errors import InputError
from ..hooked import HookedTransformer
from ..hooks import HookLike
from ..inputs import TextLike
from ..interventions import Patch
from ..interventions._choice import Choice
from ..keywords import checked_keywords
from ..metrics import MetricLike, resolve
from ..sweep_result import SweepResult, difference
from .grid import Selection, Where, grid_of
from .labels import read_labels
from .texts import checked_model, read_pair, result_of
from .ways import swept, way_through


@checked_keywords
def activation_patching(
    model: HookedTransformer,
    clean: TextLike,
    corrupted: TextLike,
    metric: MetricLike,
    site: str = "resid_pre",
    over: Sequence[str] | None = None,
    direction: str = "denoise",
    *,
    layers: Choice = None,
    heads: Choice = None,
    positions: Choice | Mapping[str, Sequence[int]] = None,
    neurons: Choice = None,
    window: int = 1,
    selection: Selection = None,
    hooks: Sequence[HookLike] = (),
    attention_mask: Tensor | None = None,
    progress: bool = True,
    memory: int | None = None,
) -> SweepResult:
    """Patch one site between two runs, at each place of a grid, and measure.

    direction "denoise" edits the corrupted run with clean values, "noise" the clean run with corrupted ones.
    site:      any kind, such as "resid_pre", "attn_out", "mlp_out", "q", "k", "v", "z", "pattern", "post", "embed".
    over:      the grid's axes, among "layer", "pos" and the site's own ("head", "kv_head", "d_mlp", "expert"; "query"
               and "key" of a pattern); what is not an axis is patched as a whole. None for layer x pos, or layer x head
               where a site has heads.
    layers, heads, neurons, positions: sweep these only. positions={label: [position of each example]} makes an axis
               "label" of them; these count real tokens, plain ones are columns of the batch.
    window:    how many layers are patched at a time, around each (Meng et al. 2022).
    selection: (layer, head) pairs that are patched all at once.
    hooks:     what else is changed, in every run.
    memory:    bytes that may be used at a time; None for what is fast, and no more than a quarter of what is free.

    clean and corrupted are texts or tokens (these with an attention_mask, where padded), one pair or a batch of them,
    the two of a pair of equal length. Where an example has no token at a position its value is NaN, and means skip it.
    """
    if not isinstance(direction, str) or direction not in ("denoise", "noise"):
        raise InputError(f"direction is {direction!r}; 'denoise' or 'noise' is wanted")
    model, metric = checked_model(model).with_hooks(hooks), resolve(metric, model.tokenizer)
    on_clean, on_corrupted = read_pair(model, clean, corrupted, attention_mask)
    text, others = (on_corrupted, on_clean) if direction == "denoise" else (on_clean, on_corrupted)
    labels = read_labels(positions, text)
    where = Where(over, layers, heads, neurons, positions, window, selection)
    grid = grid_of(model, site, where, on_clean, labels)
    way = way_through(model, metric, text, labels, memory)
    base, other = way.base(text, grid.sites), way.base(others, grid.sites)
    _warn(on_clean.tokens.eq(on_corrupted.tokens).all(1), difference(base.measured, other.measured).isnan())
    done = swept(way, base, grid, Patch(site, cache=other.recorded.cache), progress)
    done = done._replace(computed=done.computed + text.tokens.numel() * model.spec.n_layers)
    of_clean, of_corrupted = (other, base) if direction == "denoise" else (base, other)
    scores = of_clean.measured, of_corrupted.measured
    return result_of(model, on_clean, on_corrupted, grid, labels, done, *scores, direction)


def _warn(identical: Bool[Tensor, " example"], level: Bool[Tensor, " example"]) -> None:
    """Of pairs whose effect is a ratio with nothing below the line."""
    said = [
        (identical.cpu(), "clean and corrupted are the same text in"),
        (level & ~identical.cpu(), "clean and corrupted measure the same in"),
    ]
    for of, words in said:
        if of.any():
            pairs = of.nonzero().flatten().tolist()
            warnings.warn(f"{words} pairs {pairs}; their effect is NaN", stacklevel=4)
