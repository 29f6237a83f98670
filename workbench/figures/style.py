"""How every figure looks: type, colours, and the three themes.

A theme is nothing but a set of layout values (`look`), so that a page can change it in the browser. Zero
is the colour of the paper, the sign is hue (blue above, red below, as the field draws it), size is
contrast with the paper. "auto" has no background of its own: its greys read on white and on black, and its
colours let the paper through where values are small. Only cells with words in them are opaque and pale there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import plotly.graph_objects as go

from ..errors import InputError, nearest

Theme = Literal["auto", "light", "dark"]
# weight: 0 and up, the colour by the square root; under_text: 0 and up, pale enough to read words on;
# signed: around 0; sign: two colours, below 0 and above, for bars, whose length says the size.
Scale = Literal["weight", "under_text", "signed", "sign"]

SANS = "Inter, system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', 'Liberation Sans', Arial, sans-serif"
MONO = "ui-monospace, 'SF Mono', SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
TEXT_SIZE, LABEL_SIZE = 12, 11
MONO_WIDTH = 0.602 * LABEL_SIZE  # px a letter, for margins


@dataclass(frozen=True)
class Palette:
    """Colours of one theme; `weight` and `under_text` run from nothing to most, `signed` from low to high.

    `missing` lies behind the cells of a signed map, and is what a NaN shows.
    """

    paper: str
    ink: str
    border: str
    card: str
    missing: str
    weight: tuple[str, ...]
    under_text: tuple[str, ...]
    signed: tuple[str, ...]

    def colorscale(self, scale: Scale) -> list[list[Any]]:
        """The plotly colour scale of this name."""
        if scale == "weight":
            return _square_root(self.weight)
        return _even(self.under_text if scale == "under_text" else self.signed)


_LIGHT_WEIGHT = ("#f4f3ef", "#cfdfeb", "#93bbda", "#4a8abf", "#1d5c98", "#0d3563")
_LIGHT_UNDER_TEXT = ("#f6f6f4", "#d6e5f0", "#94c1e6")
_LIGHT_SIGNED = ("#8c2318", "#c9533f", "#e9a894", "#f4f3ef", "#9cc3df", "#3f82ba", "#124a80")
_DARK_WEIGHT = ("#22252a", "#24405c", "#2f6493", "#4a90c8", "#86bfe8", "#d3ebfb")
_DARK_UNDER_TEXT = ("#1f2226", "#253e57", "#2c6cab")
_DARK_SIGNED = ("#ffc0ae", "#ec7a63", "#8f4438", "#22252a", "#2f6493", "#5aa2da", "#bfe1f8")
# Colours with an opacity, as hexadecimal digits too. 0 is a faint tile, so that a missing cell is no tile at all.
_CLEAR_WEIGHT = ("#80838a1c", "#2f7cc24c", "#2f7cc27a", "#2f7cc2a8", "#2f7cc2d4", "#2f7cc2ff")
_CLEAR_SIGNED = ("#cb4a34ff", "#cb4a34b0", "#cb4a3460", "#80838a1c", "#2f7cc260", "#2f7cc2b0", "#2f7cc2ff")
_GREY = "rgba(128,131,138,0.25)"
_LIGHT = (_LIGHT_WEIGHT, _LIGHT_UNDER_TEXT, _LIGHT_SIGNED)
_DARK = (_DARK_WEIGHT, _DARK_UNDER_TEXT, _DARK_SIGNED)
PALETTES: dict[str, Palette] = {
    "light": Palette("#ffffff", "#24262b", "#c9ccd2", "#ffffff", _GREY, *_LIGHT),
    "dark": Palette("#16181c", "#e3e4e8", "#4a4e56", "#24272d", _GREY, *_DARK),
    "auto": Palette(
        *("rgba(0,0,0,0)", "#76797f", "#c9ccd2", "#ffffff", "rgba(0,0,0,0)"),
        *(_CLEAR_WEIGHT, _LIGHT_UNDER_TEXT, _CLEAR_SIGNED),
    ),
}


def check_theme(theme: str) -> None:
    """Raises InputError for a theme that does not exist."""
    if theme not in PALETTES:
        raise InputError(f"there is no theme {theme!r}, {nearest(theme, get_args(Theme))}")


def look(theme: str, scale: Scale | None) -> dict[str, Any]:
    """The layout values, by dotted name, that make a figure of this scale look like `theme`.

    None: a figure that is not ours, whose colours are left alone.
    """
    check_theme(theme)
    palette = PALETTES[theme]
    common = {"paper_bgcolor": palette.paper, "font.color": palette.ink}
    if scale is None:
        return {**common, "plot_bgcolor": "rgba(0,0,0,0)"}
    if scale == "sign":
        colours = {"colorway": [_colour(palette.signed[1]), _colour(palette.signed[-2])]}
    else:
        colours = {"coloraxis.colorscale": palette.colorscale(scale)}
    behind = {"plot_bgcolor": palette.missing if scale == "signed" else "rgba(0,0,0,0)"}
    return {
        **common,
        **colours,
        **behind,
        "hoverlabel.bgcolor": palette.card,
        "hoverlabel.font.color": "#24262b" if theme == "auto" else palette.ink,
        "hoverlabel.bordercolor": palette.border,
    }


def _even(colours: tuple[str, ...]) -> list[list[Any]]:
    last = len(colours) - 1
    return [[i / last, _colour(colour)] for i, colour in enumerate(colours)]


def _square_root(colours: tuple[str, ...], steps: int = 8) -> list[list[Any]]:
    """A scale whose colour goes with the root of the value, so that z and the hover stay the true weight."""
    stops = len(colours) - 1
    fine = [i / (stops * steps) for i in range(stops * steps + 1)]
    return [[t * t, _between(colours, t * stops)] for t in fine]


def _between(colours: tuple[str, ...], at: float) -> str:
    low = min(int(at), len(colours) - 2)
    share = at - low
    pairs = zip(_channels(colours[low]), _channels(colours[low + 1]), strict=True)
    return _rgb([round(a + (b - a) * share) for a, b in pairs])


def _channels(colour: str) -> list[int]:
    """Three of a colour, four of one with an opacity."""
    return [int(colour[i : i + 2], 16) for i in range(1, len(colour), 2)]


def _rgb(channels: list[int]) -> str:
    red, green, blue, *opacity = channels
    return f"rgba({red},{green},{blue},{opacity[0] / 255:.3f})" if opacity else f"rgb({red},{green},{blue})"


def _colour(colour: str) -> str:
    """As plotly takes it, which knows no opacity in hexadecimal digits."""
    return _rgb(_channels(colour)) if len(colour) == 9 else colour


def finish(fig: go.Figure, title: str | None, subtitle: str | None, *, theme: str, scale: Scale) -> None:
    """Type, title and colours, in place. `title` and `subtitle` are escaped already."""
    lines = [f"<b>{title}</b>"] if title else []
    if subtitle:  # plotly's own subtitle leaves a gap between the two
        lines.append(f'<span style="font-size:{TEXT_SIZE}px">{subtitle}</span>')
    fig.update_layout(
        font={"family": SANS, "size": TEXT_SIZE},
        title={
            "text": "<br>".join(lines) or None,
            "font": {"size": 14},
            "x": 0,
            "xref": "paper",
            "y": 1,
            "yref": "container",
            "yanchor": "top",
            "pad": {"t": 12 * len(lines)},  # plotly lifts a second line above the place it is given
        },
        hoverlabel={"align": "left", "font": {"family": MONO, "size": TEXT_SIZE}},
        meta={"workbench": {"scale": scale}},
        dragmode="zoom",
        showlegend=False,
    )
    fig.update_layout(_underscored(look(theme, scale)))


def themed(fig: go.Figure, theme: Theme) -> go.Figure:
    """A copy of a figure of ours in another theme; a figure from elsewhere gets its type and paper only."""
    return go.Figure(fig).update_layout(_underscored(look(theme, scale_of(fig))))


def scale_of(fig: go.Figure) -> Scale | None:
    """The scale a figure of ours was finished with; None for one from elsewhere."""
    meta = fig["layout"]["meta"]
    own = meta.get("workbench") if isinstance(meta, dict) else None
    return own["scale"] if own else None


def _underscored(values: dict[str, Any]) -> dict[str, Any]:
    return {name.replace(".", "_"): value for name, value in values.items()}


def title_room(title: str | None, subtitle: str | None) -> tuple[int, float]:
    """Pixels that `finish` needs for these: above the plot, and across it."""
    above = 18 + (20 if title else 0) + (20 if subtitle else 0)
    return above, max(8.2 * len(title or ""), 6.6 * len(subtitle or ""))


SCALE_LEAST = 90  # pixels that a scale needs to be read, however low the plot


def colorbar(title: str, height: float, **more: Any) -> dict[str, Any]:
    """A slim scale at the top right of a plot `height` pixels high."""
    return {
        "title": {"text": title, "side": "top", "font": {"size": LABEL_SIZE}},
        "lenmode": "pixels",
        "len": max(SCALE_LEAST, min(height, 220)),
        "y": 1,
        "yanchor": "top",
        "ypad": 0,
        "thickness": 10,
        "outlinewidth": 0,
        "ticks": "",
        "nticks": 6 if height > SCALE_LEAST else 4,
        "tickfont": {"size": LABEL_SIZE},
        "xpad": 14,
        "x": 1,
        **more,
    }
