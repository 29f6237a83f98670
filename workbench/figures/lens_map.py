"""A lens: what the model would say next, read off the stream before each block and at the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import plotly.graph_objects as go

from ..errors import InputError, count
from .arrays import Array, array, check_size
from .edges import Edge
from .heatmaps import heat_maps
from .style import LABEL_SIZE
from .tokens import escaped, shortened, token_list, visible

CELLS_WITH_TEXT = 64 * 64  # and at most 64 across: more is not read but only drawn
COLUMNS_WITH_TEXT = 64
FULL_HOVER = 8192  # cells whose hover lists all k tokens; beyond, `BRIEF` of them, or a page takes megabytes
BRIEF = 3
ROOM = 680  # px for all columns, where that leaves room for words: with edges and scale a notebook's width


class Lens(Protocol):
    """What a lens must have to be drawn."""

    @property
    def labels(self) -> Sequence[str]: ...  # one per row

    @property
    def str_tokens(self) -> Sequence[Sequence[str]]: ...  # [example][pos], the prompts

    @property
    def texts(self) -> Sequence[Sequence[Sequence[Sequence[str]]]]: ...  # [example][row][pos][k], best first

    @property
    def logprobs(self) -> Any: ...  # [example, row, pos, k], natural


def lens(lens: Lens, example: int = 0, *, theme: str = "auto") -> go.Figure:
    """Rows down from the first stream to the last, positions to the right; colour: the top token's probability.

    The top token stands in its cell (up to 64 x 64 cells); the hover lists the top k with probabilities.

    Raises InputError for an example the lens has not got, or parts of it that do not fit each other.
    """
    probs = np.exp(_logprobs(lens, example))
    n_rows, n_pos, _ = probs.shape
    prompt = [visible(token) for token in token_list(lens.str_tokens[example], n_pos, "the lens")]
    width, written = _cells(n_rows, n_pos)
    return heat_maps(
        probs[None, :, :, 0],
        Edge("layer", list(lens.labels), 20 if n_rows <= 64 else 13),
        Edge("position", prompt, width),
        hover="%{y}<br>after %{customdata}",
        scale="under_text",
        span=(0, 1),
        quantity="top token",
        percent=True,
        text=_cell_texts(lens.texts[example], width) if written else None,
        customdata=_hovers(lens.texts[example], probs, prompt),
        theme=theme,
    )


def _logprobs(lens: Lens, example: int) -> Array:
    """[row, pos, k] of one example, once the lens' parts agree."""
    logprobs = array(lens.logprobs, "logprobs")
    if logprobs.ndim != 4:
        raise InputError(f"logprobs must be [example, row, pos, k], not {list(logprobs.shape)}")
    if not 0 <= example < len(logprobs):
        raise InputError(f"there is no example {example}: the lens has {count(len(logprobs), 'example')}")
    n_rows = logprobs.shape[1]
    if len(lens.labels) != n_rows:
        raise InputError(f"the lens has {count(n_rows, 'row')} and {count(len(lens.labels), 'label')}")
    check_size(logprobs[example].size, "pass a lens over fewer positions")
    return logprobs[example]


def _cells(n_rows: int, n_pos: int) -> tuple[float, bool]:
    """Pixels across a cell, and whether words go in."""
    written = n_pos <= COLUMNS_WITH_TEXT and n_rows * n_pos <= CELLS_WITH_TEXT
    if written:
        return min(72, max(46, ROOM // n_pos)), True
    return (ROOM // n_pos if n_pos <= ROOM // 2 else ROOM / n_pos), False


def _cell_texts(texts: Sequence[Sequence[Sequence[str]]], width: float) -> list[list[str]]:
    letters = int((width - 6) / (0.56 * LABEL_SIZE))
    return [[escaped(shortened(visible(top[0]), letters)) for top in row] for row in texts]


def _hovers(texts: Sequence[Sequence[Sequence[str]]], probs: Array, prompt: list[str]) -> list[list[str]]:
    """[row][pos]: the prompt's token, then a line per guess, probability first so that they align."""
    n_rows, n_pos, k = probs.shape
    kept = k if n_rows * n_pos <= FULL_HOVER else min(k, BRIEF)
    heads = [f"{escaped(shortened(token, 48))} {pos}" for pos, token in enumerate(prompt)]
    return [
        [
            "<br>".join([heads[pos], *map(_guess, texts[row][pos][:kept], probs[row, pos, :kept])])
            for pos in range(n_pos)
        ]
        for row in range(n_rows)
    ]


def _guess(text: str, prob: float) -> str:
    return f"{prob:6.1%}  {escaped(shortened(visible(text), 32))}"
