"""A metric taken apart: what each component, head or neuron adds to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import plotly.graph_objects as go

from ..errors import InputError, KindError, count
from .arrays import Array, array, check_size
from .bars import bars
from .edges import Edge
from .heatmaps import GAP, SCALE_ROOM, heat_maps
from .style import LABEL_SIZE, MONO_WIDTH, TEXT_SIZE, title_room
from .tokens import escaped

STRONGEST = 30  # neurons that have a bar of their own
BESIDE = 150  # px of the bars beside a map of heads
NUMBERED = ("neuron", "expert")
OF = {"logit": "logit", "logit_diff": "logit difference"}
KINDS = {  # how the parts of each kind are called together, in the order in which they are told
    "head": "heads",
    "neuron": "neurons",
    "expert": "experts",
    "shared_out": "shared experts",
    "attn_out": "attention",
    "mlp_out": "feed-forward",
    "embed": "embedding",
    "pos_embed": "positions",
    "bias": "biases",
    "edit": "edits",
}


class Parts(Protocol):
    """What a metric taken apart must have to be drawn."""

    @property
    def values(self) -> Any: ...  # [example, part], in order of depth

    @property
    def labels(self) -> Sequence[str]: ...

    @property
    def kinds(self) -> Sequence[str]: ...  # of each part, such as "head"

    @property
    def layers(self) -> Any: ...  # [part], -1 outside the layers

    @property
    def units(self) -> Any: ...  # [part] the number of a head, neuron or expert

    @property
    def total(self) -> Any: ...  # [example]

    @property
    def by(self) -> str: ...  # "component", "head" or "neuron"

    @property
    def of(self) -> str: ...  # "logit" or "logit_diff"

    @property
    def softcapped(self) -> bool: ...


def attribution(parts: Parts, example: int | None = None, *, theme: str = "auto") -> go.Figure:
    """What adds up to a logit or a difference of logits: blue adds, red takes away.

    By component: a bar for each, in order of depth. By head: a map of layers down and heads to the right, and beside it
    a bar for what else each layer adds, which has a scale of its own. By neuron: the strongest 30 neurons or experts,
    the others of them together, and each other kind of part together. What all parts of a kind add up to is told above.

    example: one of them; None for the mean over all.

    Raises InputError for an example that there is not, or parts that do not fit each other.
    """
    values = _values(parts, example)
    kinds = np.array(parts.kinds)
    words = {"title": _title(parts), "subtitle": _subtitle(values, kinds, parts, example), "theme": theme}
    if parts.by == "head" and "head" in parts.kinds:
        return _map_of_heads(values, kinds, parts, words)
    if parts.by == "neuron":
        return _bars(_strongest(values, kinds, parts), words)
    return _bars([Row(label, values[:, [part]]) for part, label in enumerate(parts.labels)], words)


def _values(parts: Parts, example: int | None) -> Array:
    """[example, part] of the examples to draw, once all that there is of parts agrees."""
    values = array(parts.values, "values")
    if values.ndim != 2 or not values.size:
        raise InputError(f"the values of parts are [example, part], with something on each; {list(values.shape)} came")
    for word, given in (("label", parts.labels), ("kind", parts.kinds), ("layer", parts.layers), ("unit", parts.units)):
        if len(given) != values.shape[1]:
            raise InputError(f"there are {count(values.shape[1], 'part')} and {count(len(given), word)}")
    if example is None:
        return values
    if isinstance(example, bool) or not isinstance(example, int):
        raise KindError(f"example is {example!r}; its number is wanted, or None for the mean over all")
    if not 0 <= example < len(values):
        raise InputError(f"there is no example {example}: {count(len(values), 'example')} came")
    return values[[example]]


def _title(parts: Parts) -> str:
    return f"direct attribution of the {OF.get(parts.of, escaped(parts.of))}"


def _subtitle(values: Array, kinds: Any, parts: Parts, example: int | None) -> str:
    """The sum, and what of it is from each kind of part."""
    sums = {kind: float(values[:, kinds == kind].sum(1).mean()) for kind in _told(parts.kinds)}
    total = array(parts.total, "total")
    total = float(total.mean() if example is None else total[example])
    each = ", ".join(f"{KINDS.get(kind, escaped(kind))} {_signed(value)}" for kind, value in sums.items())
    of = f" (mean of {count(len(values), 'example')})" if len(values) > 1 else ""
    capped = ", before the softcap" if parts.softcapped else ""
    return f"{_signed(total).removeprefix('+')}{of}{capped} = {each}"


def _told(kinds: Sequence[str]) -> list[str]:
    """The kinds that there are, in the order of KINDS."""
    there = dict.fromkeys(kinds)
    return [*(kind for kind in KINDS if kind in there), *(kind for kind in there if kind not in KINDS)]


def _signed(value: float, digits: int = 2) -> str:
    text = f"{value:+.{digits}f}".replace("-", "−")
    return text if text.strip("+−0.") else text[1:]


def _hover(values: Array) -> str:
    """What a part or a sum of some [example] adds."""
    mean = f"<b>{_signed(float(values.mean()), 4)}</b>"
    if len(values) == 1:
        return mean
    lowest, highest = (_signed(float(value)) for value in (values.min(), values.max()))
    return f"{mean} mean of {count(len(values), 'example')}<br>from {lowest} to {highest}"


# Bars


class Row(NamedTuple):
    """One bar. values: of the parts that it stands for together, [example, part]."""

    label: str
    values: Array
    told: str = ""  # what the hover calls it, where that is not its label


def _strongest(values: Array, kinds: Any, parts: Parts) -> list[Row]:
    """Neurons and experts that add or take away most, then all else by its kind."""
    units = np.flatnonzero(np.isin(kinds, NUMBERED))
    strong = units[np.argsort(-np.abs(values[:, units].mean(0)), kind="stable")][:STRONGEST]
    rows = [Row(parts.labels[part], values[:, [part]]) for part in map(int, strong)]
    left = np.isin(np.arange(len(kinds)), strong, invert=True)
    for kind in _told(parts.kinds):
        if (rest := left & (kinds == kind)).any():
            name = f"other {KINDS[kind]}" if kind in NUMBERED else KINDS.get(kind, kind)
            rows.append(Row(name, values[:, rest], f"{rest.sum():,} {name}" if kind in NUMBERED else ""))
    return rows


def _bars(rows: list[Row], words: dict[str, Any]) -> go.Figure:
    sums = [row.values.sum(1) for row in rows]
    means = np.array([each.mean() for each in sums])
    edge = Edge("", [row.label for row in rows], max(6, min(20, 840 // len(rows))))
    fig = bars(means, edge, _bound(means), "%{customdata}", "adds", **words)
    names = [escaped(row.told or row.label) for row in rows]
    fig.update_traces(customdata=[f"{name}<br>{_hover(each)}" for name, each in zip(names, sums, strict=True)])
    longest = max(len(row.label) for row in rows)
    return fig.update_layout(margin={"l": round(MONO_WIDTH * longest) + 38})  # labels are written in full


def _bound(values: Array) -> float:
    """Where a scale ends on both sides."""
    finite = np.abs(values[np.isfinite(values)])
    return float(finite.max()) if finite.size and finite.max() > 0 else 1.0


# Heads


def _map_of_heads(values: Array, kinds: Any, parts: Parts, words: dict[str, Any]) -> go.Figure:
    layers, units = array(parts.layers, "layers").astype(int), array(parts.units, "units").astype(int)
    heads = np.flatnonzero(kinds == "head")
    n_layers, n_heads = layers.max() + 1, units[heads].max() + 1
    check_size(n_layers * n_heads, "take fewer layers apart")
    grid = np.full((n_layers, n_heads), np.nan, np.float32)
    grid[layers[heads], units[heads]] = values[:, heads].mean(0)
    hovers = [[""] * n_heads for _ in range(n_layers)]
    for part in heads:
        hovers[layers[part]][units[part]] = _hover(values[:, part])
    rows = Edge("layer", [str(layer) for layer in range(n_layers)], max(6, min(20, 640 // n_layers)))
    columns = Edge("head", [str(head) for head in range(n_heads)], max(6, min(34, 600 // n_heads)))
    bound = _bound(grid)
    fig = heat_maps(
        grid[None],
        rows,
        columns,
        hover="layer %{y}, head %{x}<br>%{customdata}",
        scale="signed",
        span=(-bound, bound),
        quantity="adds",
        customdata=hovers,
        **words,
    )
    _widen(fig, rows, columns, words)
    beside = [np.flatnonzero((kinds != "head") & (layers == layer)) for layer in range(n_layers)]
    lines = [
        [f"{escaped(parts.labels[part])} {_hover(values[:, part])}" for part in those.tolist()] for those in beside
    ]
    sums = np.array([values[:, those].sum(1).mean() for those in beside])
    _add_beside(fig, sums, [f"layer {layer}<br>{'<br>'.join(each)}" for layer, each in enumerate(lines)], bound)
    return fig


def _widen(fig: go.Figure, rows: Edge, columns: Edge, words: dict[str, Any]) -> None:
    """Room to the right of the map, and the axes of what stands there."""
    inside = columns.pixels + GAP + BESIDE
    share = columns.pixels / inside
    fig.update_xaxes(domain=[0, share])
    _, across = title_room(words["title"], words["subtitle"])
    right = max(SCALE_ROOM, round(across - inside) + 8)
    fig.update_layout(
        width=round(inside) + rows.left + right,
        margin={"r": right},
        xaxis9={
            "domain": [share + GAP / inside, 1],
            "anchor": "y9",
            "title": {"text": "other parts", "standoff": 8, "font": {"size": TEXT_SIZE}},
            "tickfont": {"size": LABEL_SIZE},
            "nticks": 6,
            "ticks": "",
            "showgrid": False,
            "zeroline": False,
        },
        yaxis9={**rows.axis(down=True), "anchor": "x9", "matches": "y", "showticklabels": False},
    )


def _add_beside(fig: go.Figure, sums: Array, hovers: list[str], bound: float) -> None:
    """Bars in the colours of the map's scale, so that a theme changes both; behind them a row of it for each layer."""
    reach, places = 1.08 * _bound(sums), list(range(len(sums)))
    axes = {"xaxis": "x9", "yaxis": "y9"}
    tiles = {"z": np.zeros((len(sums), 1)), "x": [-reach, reach], "y": places, "ygap": 1, "hoverinfo": "skip"}
    fig.add_trace(go.Heatmap(**tiles, **axes, coloraxis="coloraxis"))
    colour = {"color": np.sign(sums) * bound * 2 / 3, "coloraxis": "coloraxis", "line": {"width": 0}}
    shown = {"customdata": hovers, "hovertemplate": "%{customdata}<extra></extra>"}
    fig.add_trace(go.Bar(x=sums, y=places, orientation="h", marker=colour, **axes, **shown))
    fig.update_layout(bargap=0.25, xaxis9={"range": [-reach, reach]})
