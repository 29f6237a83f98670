"""Attention patterns: who looks where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from ..errors import InputError
from .arrays import array, check_size, without_future
from .edges import Edge
from .heatmaps import heat_maps
from .tokens import escaped, token_list, visible

ONE, MANY = 520, 224  # px that one pattern, or each of several, may take


def attention(
    weights: Any, tokens: Sequence[str], title: str | None = None, *, quantity: str = "weight", theme: str = "auto"
) -> go.Figure:
    """Queries down, keys to the right; the colour follows the square root, so that small weights show.

    `weights` is [query, key], or [head, query, key] (also [1, head, query, key]) for one panel per head;
    `tokens` has one string per position. The hover gives the exact weight and both tokens. What a causal
    mask hides is blank. Where weights are below zero (a difference, a contribution) the colours are those of a signed
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
    cell = _cell(len(labels), many=len(panels) > 1)
    signed = bool((panels < 0).any())
    most = _most(panels, least=0 if signed or quantity != "weight" else 1)
    return heat_maps(
        panels,
        Edge("query", labels, cell),
        Edge("key", labels, cell),
        hover="%{y} %{y:d} → %{x} %{x:d}<br><b>%{z:.4f}</b>",
        scale="signed" if signed else "weight",
        span=(-most if signed else 0, most),
        quantity=escaped(quantity),
        names=[f"head {head}" for head in range(len(panels))] if pattern.ndim == 3 else (),
        title=escaped(title) if title else None,
        theme=theme,
    )


def _cell(n: int, many: bool) -> float:
    """Pixels of a cell's side; whole ones where there is room, so that all cells are alike."""
    side = (MANY if many else ONE) / n
    return min(26, int(side)) if side >= 2 else side


def _most(panels: np.ndarray, least: float) -> float:
    """The end of the colour scale: 1 for weights, so that patterns compare, or more where an edited one goes beyond."""
    return max(least, float(np.abs(np.nan_to_num(panels, posinf=1.0, neginf=-1.0)).max())) or 1.0
