"""Heads by what they attend to: a map over layers and heads for each kind."""

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
from .tokens import escaped

PANEL = 200  # px across: four fit a page
LETTER = 0.56 * LABEL_SIZE  # px of a heading's letter
TITLE = "what heads attend to"
SUBTITLE = "attention to the places of each kind; chance is what uniform attention would pay them"
OF_CHANCE = "entropy is coloured by its share of chance"


class Scores(Protocol):
    """What scores of heads must have to be drawn."""

    @property
    def values(self) -> Any: ...  # [kind, layer, head]

    @property
    def kinds(self) -> Sequence[str]: ...

    @property
    def chance(self) -> Any: ...  # [kind]

    @property
    def units(self) -> Sequence[str]: ...  # of each kind: "share", or what no scale from 0 to 1 is for


def head_scores(scores: Scores, *, theme: str = "auto") -> go.Figure:
    """A heat map for each kind side by side, layers down from layer 0 and heads to the right, on one scale from 0 to 1.

    A heading says what chance is. Entropy is no share and is coloured by its ratio to chance, which is the most that
    rows can have; the hover gives it in nats. NaN is blank: a head that a layer has not got, or a kind without a place
    in the texts.

    Raises InputError for kinds, chance or units that do not fit the values.
    """
    values, chance = _parts(scores)
    most = np.where(chance > 0, chance, np.float32(np.nan))[:, None, None]
    shares = np.array([unit == "share" for unit in scores.units])
    names = [_heading(*of) for of in zip(scores.kinds, chance, scores.units, strict=True)]
    n_layers, n_heads = values.shape[1:]
    fig = heat_maps(
        np.where(shares[:, None, None], values, values / most),
        Edge("layer", [str(layer) for layer in range(n_layers)], max(6, min(13, 640 // n_layers))),
        Edge("head", [str(head) for head in range(n_heads)], _width(n_heads, max(map(len, names)))),
        hover="layer %{y}, head %{x}<br>score <b>%{z:.3f}</b>",
        scale="weight",
        span=(0, 1),
        quantity="score",
        names=names,
        title=TITLE,
        subtitle=SUBTITLE if shares.all() else f"{SUBTITLE}; {OF_CHANCE}",
        theme=theme,
    )
    for panel, unit in enumerate(scores.units):
        if unit != "share":  # heat maps share their hover, and here the colour is not the number
            _hover_in_units(fig.data[panel], values[panel], unit)
    return fig


def _parts(scores: Scores) -> tuple[Array, Array]:
    """Values and chance, once all parts agree."""
    values, chance = array(scores.values, "values"), array(scores.chance, "chance")
    if values.ndim != 3 or not values.size:
        raise InputError(
            f"scores of heads are [kind, layer, head], with something on each axis; {list(values.shape)} came"
        )
    for what, n in (("name", len(scores.kinds)), ("chance", chance.size), ("unit", len(scores.units))):
        if n != len(values):
            raise InputError(f"the scores are of {count(len(values), 'kind')}, and {count(n, what)} came")
    check_size(values.size, "scores of fewer layers")
    return values, chance


def _heading(kind: str, chance: float, unit: str) -> str:
    if np.isnan(chance):
        return f"{escaped(_words(kind))} (no places)"
    return f"{escaped(_words(kind))} (chance {chance:.2g}{'' if unit == 'share' else f' {escaped(unit)}'})"


def _words(kind: str) -> str:
    return kind.replace("_", " ")


def _width(n_heads: int, letters: int) -> float:
    """Pixels of a cell: a panel is as wide as its heading, and as cells that can be pointed at."""
    return max(4, max(PANEL, LETTER * letters) / n_heads)


def _hover_in_units(panel: Any, values: Array, unit: str) -> None:
    score, ratio = f"score <b>%{{customdata:.3f}} {escaped(unit)}</b>", "%{z:.0%} of chance"
    panel.update(customdata=values, hovertemplate=panel.hovertemplate.replace("score <b>%{z:.3f}</b>", score))
    panel.update(hovertemplate=panel.hovertemplate.replace("<extra>", f"<br>{ratio}<extra>"))
