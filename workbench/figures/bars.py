"""One number per cell of a single axis, as bars that start at zero; the first cell is at the top."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from .arrays import Array
from .edges import Edge
from .style import LABEL_SIZE, TEXT_SIZE, finish, title_room

WIDTH = 480  # px of the plot


def bars(
    values: Array,
    rows: Edge,
    bound: float,
    hover: str,
    quantity: str,
    *,
    title: str | None = None,
    subtitle: str | None = None,
    theme: str = "auto",
) -> go.Figure:
    """Horizontal bars for `values` [row], coloured by sign, on an axis to `bound` on both sides.

    `hover` is a plotly template (`%{y}` the row's label, `%{x}` its value), `quantity` names the values.
    """
    fig = go.Figure(layout={"template": go.layout.Template()})
    # Two traces, since a theme can give traces colours (`colorway`) and not bars.
    for sign in (values < 0, values >= 0):
        fig.add_trace(
            go.Bar(
                x=np.where(sign, values, np.nan),
                y=list(range(len(rows))),
                orientation="h",
                hovertemplate=f"{hover}<extra></extra>",
            )
        )
    above, across = title_room(title, subtitle)
    right = max(24, round(across) - WIDTH + 8)
    fig.update_layout(
        barmode="overlay",
        plot_bgcolor="rgba(0,0,0,0)",
        bargap=0.25,
        yaxis={**rows.axis(down=True), **(rows.every_cell() if rows.step == 1 else {})},
        xaxis=_value_axis(bound, quantity),
        margin={"l": rows.left, "r": right, "t": above, "b": 48, "pad": 0},
        width=WIDTH + rows.left + right,
        height=round(rows.pixels) + above + 48,
    )
    fig.update_yaxes(title_text=rows.name)
    finish(fig, title, subtitle, theme=theme, scale="sign")
    return fig


def _value_axis(bound: float, quantity: str) -> dict[str, object]:
    return {
        "range": [-bound * 1.05, bound * 1.05],
        "title": {"text": quantity, "standoff": 8, "font": {"size": TEXT_SIZE}},
        "tickfont": {"size": LABEL_SIZE},
        "showgrid": True,
        "gridcolor": "rgba(128,131,138,0.2)",
        "zeroline": True,
        "zerolinecolor": "rgba(128,131,138,0.8)",
        "zerolinewidth": 1,
        "nticks": 6,
    }
