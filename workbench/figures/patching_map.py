"""Sweeps: what each place does to the metric when it is patched or ablated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import plotly.graph_objects as go

from ..errors import InputError, KindError, count, nearest
from .arrays import Array, array, check_size
from .bars import bars
from .edges import Edge
from .heatmaps import heat_maps
from .tokens import escaped, visible

TOKENS = ("pos", "query", "key")  # axes labelled with tokens, which repeat: the hover adds the index
ACROSS = ("pos", "label", "head", "kv_head", "key")  # the first of these that a sweep has runs to the right
WORDS = {"pos": "position", "kv_head": "kv head"}  # axes whose name is short for a word
SITES = {  # what the field's short names stand for
    "resid_pre": "stream before a layer",
    "resid_mid": "stream between attention and feed-forward",
    "resid_post": "stream after a layer",
    "attn_out": "what attention writes",
    "mlp_out": "what the feed-forward writes",
    "z": "head output",
    "q": "queries",
    "k": "keys",
    "v": "values",
    "pattern": "attention pattern",
}
DONE = {"denoise": "clean into corrupted", "noise": "corrupted into clean", "ablate": "ablated"}
SHOWS = ("effect", "mean")


class Sweep(Protocol):
    """What a result must have to be drawn, beside `effect` and `mean` [*axes]."""

    @property
    def axes(self) -> Sequence[str]: ...

    @property
    def labels(self) -> Mapping[str, Sequence[str]]: ...

    @property
    def site(self) -> str: ...

    @property
    def direction(self) -> str: ...  # "denoise", "noise" or "ablate"

    @property
    def clean(self) -> Any: ...  # [example]

    @property
    def corrupted(self) -> Any: ...  # [example]; an ablation has none


def patching(result: Sweep, show: str = "effect", *, theme: str = "auto") -> go.Figure:
    """A sweep as a heat map around zero: layers down from layer 0, positions or heads to the right.

    `result.effect` (or `result.mean` with `show="mean"`) is [*result.axes]; one axis makes bars, a third
    makes one panel per index. Blue is above 0, red below, NaN grey (in the theme "auto" no cell). An
    ablation's effect is a change.

    Raises InputError for another `show`, more than three axes, or labels that do not fit them.
    """
    if show not in SHOWS:
        raise InputError(f"there is nothing to show named {show!r}, {nearest(show, SHOWS)}")
    values = _values(result, show)
    bound = _bound(values)
    quantity = "metric" if show == "mean" else "change" if result.direction == "ablate" else "effect"
    words: dict[str, Any] = {"title": _title(result), "subtitle": _subtitle(result, show, values), "theme": theme}
    if values.ndim == 1:
        (axis,) = result.axes
        hover = f"{_place(axis, 'y')}<br>{quantity} <b>%{{x:+.4f}}</b>"
        edge = Edge(_word(axis), _labels(result, axis), _height(len(values)))
        return bars(values, edge, bound, hover, quantity, **words)
    rows, columns, *panels = _order(result.axes)
    stacked = values.transpose([list(result.axes).index(axis) for axis in (*panels, rows, columns)])
    stacked = stacked.reshape(-1, *stacked.shape[-2:])
    return heat_maps(
        stacked,
        Edge(_word(rows), _labels(result, rows), _height(stacked.shape[1], many=bool(panels))),
        Edge(_word(columns), _labels(result, columns), _width(stacked.shape[2], many=bool(panels))),
        hover=f"{_place(rows, 'y')}, {_place(columns, 'x')}<br>{quantity} <b>%{{z:+.4f}}</b>",
        scale="signed",
        span=(-bound, bound),
        quantity=quantity,
        names=[f"{_word(axis)} {escaped(label)}" for axis in panels for label in _labels(result, axis)],
        **words,
    )


def _values(result: Sweep, show: str) -> Array:
    """The numbers to draw, once they agree with the axes and labels."""
    values = array(getattr(result, show), show)
    axes = tuple(result.axes)
    if not 1 <= len(axes) <= 3 or values.ndim != len(axes):
        named = ", ".join(axes)
        came = f"({named})" if values.ndim else "none, being one cell"
        raise InputError(f"a sweep is drawn over 1 to 3 axes, and this one's {show} of {values.ndim} has {came}")
    for axis, size in zip(axes, values.shape, strict=True):
        if axis not in result.labels:
            raise InputError(f"the sweep has no labels for its axis {axis!r}, {nearest(axis, result.labels)}")
        if len(result.labels[axis]) != size:
            labels = count(len(result.labels[axis]), "label")
            raise InputError(f"the axis {axis!r} has {labels} for {count(size, 'cell')}")
    if not values.size:
        raise InputError("the sweep has no cells to draw")
    check_size(values.size, "sweep over fewer heads or positions")
    return values


def _order(axes: Sequence[str]) -> list[str]:
    """Which axis goes down, which to the right, and which (if there is a third) makes the panels."""
    rows = "layer" if "layer" in axes else axes[0]
    rest = [axis for axis in axes if axis != rows]
    columns = next((axis for axis in ACROSS if axis in rest), rest[0])
    return [rows, columns, *(axis for axis in rest if axis != columns)]


def _bound(values: Array) -> float:
    """Where the colour scale ends on both sides: the largest finite size, so that 0 is always the paper."""
    finite = np.abs(values[np.isfinite(values)])
    return float(finite.max()) if finite.size and finite.max() > 0 else 1.0


def _labels(result: Sweep, axis: str) -> list[str]:
    return [visible(label) if axis in TOKENS else label for label in result.labels[axis]]


def _height(cells: int, many: bool = False) -> float:
    return max(6, min(13 if many else 20, 640 // cells))


def _width(cells: int, many: bool) -> float:
    room = 252 if many else 840
    return min(16 if many else 34, room // cells) if cells <= room // 2 else max(1, room / cells)


def _word(axis: str) -> str:
    return WORDS.get(axis, axis)


def _place(axis: str, letter: str) -> str:
    """A hover's words for one axis: its name and index, and after that the label where it is a token."""
    cell = f"%{{{letter}:d}} %{{{letter}}}" if axis in TOKENS else f"%{{{letter}}}"
    return f"{_word(axis)} {cell}"


def _title(result: Sweep) -> str:
    if result.direction not in DONE:
        raise KindError(f"direction is {result.direction!r}; {', '.join(map(repr, DONE))} are drawn")
    site = escaped(result.site)
    meaning = f" ({SITES[result.site]})" if result.site in SITES else ""
    return f"{site}{meaning}, {DONE[result.direction]}"


def _subtitle(result: Sweep, show: str, values: Array) -> str:
    """What the numbers mean, with the baselines they are measured from."""
    ablated = result.direction == "ablate"
    if not np.isfinite(values).any():
        return f"no {show} to show" if ablated else f"no {show} to show: clean and corrupted runs score alike"
    clean = _mean(result.clean)
    if ablated:
        return f"change of the metric from {clean}" if show == "effect" else f"metric: {clean} unablated"
    corrupted = _mean(result.corrupted)
    if show == "mean":
        return f"metric: {clean} clean, {corrupted} corrupted"
    ends = (corrupted, clean) if result.direction == "denoise" else (clean, corrupted)
    return f"0: metric stays at {ends[0]}, 1: moved all the way to {ends[1]}"


def _mean(scores: Any) -> str:
    mean = float(np.nanmean(array(scores, "the baseline")))
    return f"{mean:.2f}".replace("-", "−")
