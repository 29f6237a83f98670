"""A lens: what the model would say next, read off the stream before each block and at the end."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Protocol, cast

import numpy as np
import plotly.graph_objects as go

from ..errors import InputError, KindError, count
from ..keywords import checked_keywords
from .arrays import Array, array, check_size
from .edges import Edge
from .heatmaps import heat_maps
from .lens_shade import has, needed, of_example, ranks_of, shade_of
from .style import LABEL_SIZE
from .tokens import escaped, shortened, token_list, visible

CELLS_WITH_TEXT = 64 * 64  # and at most 64 across: more is not read but only drawn
COLUMNS_WITH_TEXT = 64
FULL_HOVER = 8192  # cells whose hover lists all k tokens; beyond, `BRIEF` of them, or a page takes megabytes
BRIEF = 3
STAR, NONE = "★", "–"  # of a cell that is right; of a number that there is not
ROOM = 680  # px for all columns, where that leaves room for words: with edges and scale a notebook's width


class Lens(Protocol):
    """What a lens must have to be drawn.

    Where it also has `entropy`, `kl`, `next_logprobs`, `next_ranks`, `right` [example, row, pos], `target_texts`,
    `target_logprobs` and `target_ranks` [example, row, pos, target], hovers say them and colour can stand for them.
    """

    @property
    def labels(self) -> Sequence[str]: ...  # one per row

    @property
    def str_tokens(self) -> Sequence[Sequence[str]]: ...  # [example][pos], the prompts

    @property
    def texts(self) -> Sequence[Sequence[Sequence[Sequence[str]]]]: ...  # [example][row][pos][k], best first

    @property
    def logprobs(self) -> Any: ...  # [example, row, pos, k], natural


@checked_keywords
def lens(lens: Lens, example: int = 0, *, show: str = "prob", target: int = 0, theme: str = "auto") -> go.Figure:
    """Rows down from the first stream to the last, positions to the right.

    The top token stands in its cell (up to 64 x 64 cells), with a star where it is the text's next token. The hover
    lists the top k with probabilities, and what else the lens has.

    show: what colour stands for: "prob" of the top token; "rank" of the text's next token, 0 the strongest, blank
          where the text ends; "entropy"; "kl" from the model's output; "target", the rank of the lens' target number
          `target`.

    Raises InputError for an example, quantity or target that the lens has not got, or parts that do not fit each other.
    """
    probs = np.exp(_logprobs(lens, example))
    n_rows, n_pos, _ = probs.shape
    prompt = [visible(token) for token in token_list(lens.str_tokens[example], n_pos, "the lens")]
    width, written = _cells(n_rows, n_pos)
    shade = shade_of(lens, example, show, target)
    right = of_example(lens, "right", example) if has(lens, "right") else np.zeros_like(shade.z)
    hover, customdata = _hover(lens, example, probs)
    fig = heat_maps(
        shade.z[None],
        Edge("layer", list(lens.labels), 20 if n_rows <= 64 else 13),
        Edge("position", prompt, width),
        hover=hover,
        scale="under_text",
        span=shade.span,
        quantity=shade.quantity,
        percent=shade.percent,
        text=_cell_texts(lens.texts[example], right, width) if written else None,
        customdata=cast("Any", customdata),
        theme=theme,
    )
    if shade.ticks:
        fig.update_layout(coloraxis_colorbar={"tickvals": shade.ticks[0], "ticktext": shade.ticks[1]})
    return fig


def _logprobs(lens: Lens, example: int) -> Array:
    """[row, pos, k] of one example, once the lens' parts agree."""
    logprobs = array(lens.logprobs, "logprobs")
    if logprobs.ndim != 4:
        raise InputError(f"logprobs must be [example, row, pos, k], not {list(logprobs.shape)}")
    if not isinstance(example, int) or isinstance(example, bool):
        raise KindError(f"example is {example!r}; a number is wanted, 0 for the first")
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
    return (ROOM // n_pos if n_pos <= ROOM // 2 else max(1, ROOM / n_pos)), False


def _cell_texts(texts: Sequence[Sequence[Sequence[str]]], right: Array, width: float) -> list[list[str]]:
    """[row][pos]: the top tokens, cut to what a cell has room for."""
    letters = int((width - 6) / (0.56 * LABEL_SIZE))
    return [
        [_cell(best[0], star > 0, letters) for best, star in zip(row, starred, strict=True)]
        for row, starred in zip(texts, right, strict=True)
    ]


def _cell(text: str, star: bool, letters: int) -> str:
    """A starred cell is bold as well, so that it is told apart from a token that is a star itself."""
    if star:  # bold letters are wider
        return f"<b>{escaped(shortened(visible(text), max(1, letters - 2)))}{STAR}</b>"
    return escaped(shortened(visible(text), letters))


def _hover(lens: Lens, example: int, probs: Array) -> tuple[str, list[list[list[str]]]]:
    """A template and what fills it, [row][pos][slot]: the prompt's token, a line per guess, probability first so that
    they align, then what the lens has beside them. What all cells say alike is said once, or a page takes megabytes."""
    n_rows, n_pos, k = probs.shape
    kept = k if n_rows * n_pos <= FULL_HOVER else min(k, BRIEF)
    slots = [[list(map(_guesses, *row)) for row in zip(lens.texts[example], probs[..., :kept], strict=True)]]

    def slot(values: Array, decimals: int) -> str:
        slots.append([[_number(value, decimals) for value in row] for row in values.tolist()])
        return f"%{{customdata[{len(slots) - 1}]}}"

    lines = ["%{y}", "after %{x} %{x:d}", "%{customdata[0]}"]
    for name, logprobs, ranks in _followed(lens, example):
        lines.append(f"{name}: log p {slot(logprobs, 2)}, rank {slot(ranks, 0)}")
    if has(lens, "entropy", "kl"):
        entropy, kl = (slot(of_example(lens, name, example), 2) for name in ("entropy", "kl"))
        lines.append(f"entropy {entropy}, KL {kl} nats")
    return "<br>".join(lines), [[list(cell) for cell in zip(*row, strict=True)] for row in zip(*slots, strict=True)]


def _guesses(texts: Sequence[str], probs: Array) -> str:
    return "<br>".join(_guess(text, prob) for text, prob in zip(texts, probs.tolist(), strict=False))


def _guess(text: str, prob: float) -> str:
    return f"{prob:6.1%}  {escaped(shortened(visible(text), 32))}"


def _followed(lens: Lens, example: int) -> Iterator[tuple[str, Array, Array]]:
    """Tokens that the lens follows, each with log-probabilities and ranks [row, pos]."""
    if has(lens, "next_logprobs", "next_ranks"):
        yield "next token", of_example(lens, "next_logprobs", example), ranks_of(lens, "next_ranks", example)
    if has(lens, "target_texts", "target_logprobs", "target_ranks"):
        logprobs, ranks = of_example(lens, "target_logprobs", example), ranks_of(lens, "target_ranks", example)
        for at, text in enumerate(needed(lens, "target_texts")):
            yield escaped(shortened(visible(text), 32)), logprobs[..., at], ranks[..., at]


def _number(value: float, decimals: int) -> str:
    return NONE if math.isnan(value) else f"{value:.{decimals}f}".replace("-", "−")
