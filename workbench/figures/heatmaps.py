"""One heat map, or several side by side that share their edges and one colour scale.

Every figure of cells (attention, sweeps, lenses) is made here, so they agree in what they look like: the
first row is at the top, columns run to the right, and a cell has a size in pixels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from .arrays import Array
from .edges import Edge
from .style import LABEL_SIZE, SCALE_LEAST, Scale, colorbar, finish, title_room

GAP = 18  # px between panels
SCALE_ROOM = 84  # px for the colour scale on the right
PAGE = 1000  # px that several panels may take side by side


@dataclass(frozen=True)
class Grid:
    """Panels of one size, filled row by row; positions in pixels from the top left of the plot area."""

    panels: int
    width: float
    height: float
    named: bool

    @property
    def columns(self) -> int:
        """As many as fit a page, then evened out: nine of which four fit make 3 x 3."""
        return math.ceil(self.panels / self.rows)

    @property
    def rows(self) -> int:
        fitting = max(1, int((PAGE + GAP) // (self.width + GAP)))
        return math.ceil(self.panels / fitting)

    @property
    def row_gap(self) -> float:
        return GAP + (18 if self.named else 0)

    @property
    def plot_width(self) -> float:
        return self.columns * (self.width + GAP) - GAP

    @property
    def plot_height(self) -> float:
        return self.rows * (self.height + self.row_gap) - self.row_gap

    def domain(self, panel: int) -> tuple[list[float], list[float]]:
        """The panel's share of the plot area, as plotly wants it: x from the left, y from the bottom."""
        row, column = divmod(panel, self.columns)
        left = column * (self.width + GAP)
        top = self.plot_height - row * (self.height + self.row_gap)
        across = [left / self.plot_width, (left + self.width) / self.plot_width]
        up = [(top - self.height) / self.plot_height, top / self.plot_height]
        return [min(1.0, x) for x in across], [max(0.0, y) for y in up]

    def at_left(self, panel: int) -> bool:
        return panel % self.columns == 0

    def at_bottom(self, panel: int) -> bool:
        return panel + self.columns >= self.panels


def heat_maps(
    z: Array,
    rows: Edge,
    columns: Edge,
    *,
    hover: str,
    scale: Scale,
    span: tuple[float, float],
    quantity: str,
    percent: bool = False,
    names: Sequence[str] = (),
    text: list[list[str]] | None = None,
    customdata: list[list[str]] | None = None,
    title: str | None = None,
    subtitle: str | None = None,
    theme: str = "auto",
) -> go.Figure:
    """A figure of `z` [panel, row, column], NaN left blank.

    `hover` is a plotly template; `%{y}` and `%{x}` are the labels of a cell, `%{y:d}` and `%{x:d}` its
    indices. `span` is where the colours begin and end, `quantity` what they mean. `names` has one heading
    per panel (none for a single one). `text` (drawn in the cells) and `customdata` (for the hover) are
    [row, column] and serve every panel. Strings are escaped already, except the edges' labels. NaN must not
    look like 0 on the signed scale: it is grey there, or no cell at all in the theme "auto". Elsewhere it is blank.
    """
    grid = Grid(z.shape[0], columns.pixels, rows.pixels, named=bool(names))
    fig = go.Figure(layout={"template": go.layout.Template()})
    used = [_add_axes(fig, grid, panel, rows, columns) for panel in range(grid.panels)]
    for panel, (x, y) in enumerate(used):
        name = f"<b>{names[panel]}</b><br>" if names else ""
        fig.add_trace(
            go.Heatmap(
                z=z[panel],
                xaxis=x,
                yaxis=y,
                coloraxis="coloraxis",
                xgap=1 if columns.cell >= 8 else 0,
                ygap=1 if rows.cell >= 8 else 0,
                hoverongaps=False,
                hovertemplate=f"{name}{hover}<extra></extra>",
                text=text,
                texttemplate="%{text}" if text else None,
                textfont={"size": LABEL_SIZE} if text else None,
                customdata=customdata,
            )
        )
    _carry_axes(fig, used)
    _add_names(fig, grid, names)
    bar = colorbar(quantity, grid.plot_height, tickformat=".0%" if percent else None)
    fig.update_layout(
        coloraxis={"cmin": span[0], "cmax": span[1], "colorbar": bar},
    )
    above, across = title_room(title, subtitle)
    _set_size(fig, grid, rows, columns, above + (18 if names else 0), across)
    finish(fig, title, subtitle, theme=theme, scale=scale)
    return fig


def _add_axes(fig: go.Figure, grid: Grid, panel: int, rows: Edge, columns: Edge) -> tuple[str, str]:
    """The panel's axes; the names of the pair that its heat map goes on."""
    x, y = _pair(panel)
    across, up = grid.domain(panel)
    labelled_x, labelled_y = grid.at_bottom(panel), grid.at_left(panel)
    x_axis = {**columns.axis(down=False), "domain": across, "anchor": y, "showticklabels": labelled_x}
    y_axis = {**rows.axis(down=True), "domain": up, "anchor": x, "showticklabels": labelled_y}
    if labelled_x and labelled_y:  # once is enough
        x_axis["title"]["text"], y_axis["title"]["text"] = columns.name, rows.name
    fig.update_layout({f"xaxis{x[1:]}": x_axis, f"yaxis{y[1:]}": y_axis})
    if rows.step == columns.step == 1:
        return x, y
    over_x, over_y = _pair(grid.panels + panel)
    fig.update_layout(
        {
            f"xaxis{over_x[1:]}": {**columns.bare(False, x, over_y), "domain": across},
            f"yaxis{over_y[1:]}": {**rows.bare(True, y, over_x), "domain": up},
        }
    )
    return over_x, over_y


def _carry_axes(fig: go.Figure, used: list[tuple[str, str]]) -> None:
    """plotly draws only axes that carry something: an empty trace on each panel's pair that carries no map."""
    for panel, pair in enumerate(used):
        if pair != (own := _pair(panel)):
            fig.add_trace(go.Scatter(x=[None], y=[None], xaxis=own[0], yaxis=own[1], hoverinfo="skip"))


def _pair(number: int) -> tuple[str, str]:
    """plotly's names of the axes with this number, counted from 0."""
    suffix = "" if number == 0 else str(number + 1)
    return f"x{suffix}", f"y{suffix}"


def _add_names(fig: go.Figure, grid: Grid, names: Sequence[str]) -> None:
    for panel, name in enumerate(names):
        across, up = grid.domain(panel)
        fig.add_annotation(
            text=name,
            x=across[0],
            y=up[1],
            xref="paper",
            yref="paper",
            xanchor="left",
            yanchor="bottom",
            showarrow=False,
            font={"size": LABEL_SIZE},
        )


def _set_size(fig: go.Figure, grid: Grid, rows: Edge, columns: Edge, above: int, across: float) -> None:
    width, height = round(grid.plot_width), round(grid.plot_height)
    right = max(SCALE_ROOM, round(across) - width + 8)  # a title may be longer than the plot is wide
    below = max(columns.depth, SCALE_LEAST - height + 8)  # a scale may be longer than the plot is high
    fig.update_layout(
        margin={"l": rows.left, "r": right, "t": above, "b": below, "pad": 0},
        width=width + rows.left + right,
        height=height + above + below,
    )
