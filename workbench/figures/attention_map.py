"""Attention patterns: who looks where."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from ..errors import InputError
from .arrays import array, check_size, without_future
from .edges import Edge
from .heatmaps import heat_maps
from .pooling import strongest
from .tokens import escaped, token_list, visible

ONE, MANY = 520, 224  # px that one pattern, or each of several, may take
HOVER = "%{y} %{y:d} → %{x} %{x:d}<br><b>%{z:.4f}</b>"
POOLED_HOVER = "%{y} → %{x}<br>the strongest <b>%{z:.4f}</b>, %{customdata[0]} → %{customdata[1]}"


def attention(
    weights: Any, tokens: Sequence[str], title: str | None = None, *, quantity: str = "weight", theme: str = "auto"
) -> go.Figure:
    """Queries down, keys to the right; the colour follows the square root, so that small weights show.

    `weights` is [query, key], or [head, query, key] (also [1, head, query, key]) for one panel per head;
    `tokens` has one string per position. The hover gives the exact weight and both tokens. What a causal
    mask hides is blank. Of more tokens than pixels a cell stands for several, the strongest, and the hover says which.
    Where weights are below zero (a difference, a contribution) the colours are those of a signed
    map, even about zero; `quantity` says what they are, and any but "weight" may go beyond 1.

    Raises InputError where shapes, tokens or theme do not fit, KindError for what holds no numbers or no
    strings, TooLargeError for more cells than a browser shows.
    """
    pattern = array(weights, "weights")
    if pattern.ndim == 4 and len(pattern) == 1:  # a layer's attention of a single text
        pattern = pattern[0]
    if pattern.ndim not in (2, 3) or pattern.shape[-1] != pattern.shape[-2] or not pattern.size:
        shape = list(pattern.shape)
        raise InputError(f"weights must be [query, key] or [head, query, key], as many keys as queries, not {shape}")
    check_size(pattern.size, "pass fewer heads, such as weights[:4]")
    labels = [visible(token) for token in token_list(tokens, pattern.shape[-1], "the pattern")]
    panels = without_future(pattern.reshape(-1, *pattern.shape[-2:]))
    room = MANY if len(panels) > 1 else ONE
    block = math.ceil(len(labels) / room)
    signed = bool((panels < 0).any())
    most = _most(panels, least=0 if signed or quantity != "weight" else 1)
    where = None
    if block > 1:
        panels, where = strongest(panels, block)
    fig = heat_maps(
        panels,
        _edge("query", labels, block, room),
        _edge("key", labels, block, room),
        hover=HOVER if where is None else POOLED_HOVER,
        scale="signed" if signed else "weight",
        span=(-most if signed else 0, most),
        quantity=escaped(quantity),
        names=[f"head {head}" for head in range(len(panels))] if pattern.ndim == 3 else (),
        title=escaped(title) if title else None,
        theme=theme,
    )
    for panel, each in enumerate(() if where is None else where):
        fig.data[panel].update(customdata=each)
    return fig


def _edge(name: str, labels: Sequence[str], block: int, room: int) -> Edge:
    """One cell for each `block` labels, named by the first."""
    firsts, lasts = labels[::block], [labels[min(i + block, len(labels)) - 1] for i in range(0, len(labels), block)]
    side = room / len(firsts)  # whole pixels where there is room, so that all cells are alike
    cell = min(26, int(side)) if side >= 2 or block > 1 else side
    spans = [f"{first} … {last}" for first, last in zip(firsts, lasts, strict=True)]
    return Edge(name, firsts, cell, spans if block > 1 else None)


def _most(panels: np.ndarray, least: float) -> float:
    """The end of the colour scale: 1 for weights, so that patterns compare, or more where an edited one goes beyond."""
    return max(least, float(np.abs(np.nan_to_num(panels, posinf=1.0, neginf=-1.0)).max())) or 1.0
