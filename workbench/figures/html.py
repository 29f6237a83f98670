"""A report as one HTML file: figures, tables, text and widgets, with no network and in light or dark.

plotly's script is inlined once. Figures stay data until the page opens; then they are drawn in the theme
the reader's system asks for, and redrawn when it changes. All text is escaped; only `Raw` is not.
"""

from __future__ import annotations

import html
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Protocol, runtime_checkable

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from ..errors import InputError, KindError, count
from .style import look, scale_of


@dataclass(frozen=True)
class Table:
    """Column names and rows of cells; a column whose cells are numbers is set to the right."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                cells = count(len(row), "cell")
                raise InputError(f"a table of {count(len(self.columns), 'column')} has a row of {cells}")


@dataclass(frozen=True)
class Raw:
    """HTML that is trusted and goes in as it is."""

    html: str


@runtime_checkable
class Fragment(Protocol):
    """A widget that can be put into a page, such as an AttentionDashboard."""

    def html_fragment(self) -> str: ...


Part = str | go.Figure | Table | Raw | Fragment


@dataclass(frozen=True)
class Section:
    """A heading and what stands below it; a string is a paragraph."""

    heading: str
    parts: Sequence[Part]


def page(title: str, sections: Iterable[Section | tuple[str, Sequence[Part]]]) -> str:
    """One HTML document that works from a file with the network off.

    Raises KindError for a part that cannot be shown.
    """
    body = "".join(_section(Section(*s) if isinstance(s, tuple) else s) for s in sections)
    name = html.escape(title)
    has_figures = 'class="figure"' in body
    script = "".join(f"<script>{text}</script>" for text in _scripts()) if has_figures else ""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{name}</title>\n<style>\n{_asset('page.css')}</style>\n</head>\n"
        f"<body>\n<main>\n<h1>{name}</h1>\n{body}</main>\n{script}</body>\n</html>\n"
    )


def _section(section: Section) -> str:
    parts = "".join(_part(part) + "\n" for part in section.parts)
    return f"<section>\n<h2>{html.escape(section.heading)}</h2>\n{parts}</section>\n"


def _part(part: Part) -> str:
    if isinstance(part, str):
        return f"<p>{html.escape(part)}</p>"
    if isinstance(part, go.Figure):
        return _figure(part)
    if isinstance(part, Table):
        return _table(part)
    if isinstance(part, Raw):
        return part.html
    if isinstance(part, Fragment):
        return part.html_fragment()
    kind = type(part).__name__
    raise KindError(f"a page shows strings, figures, tables, widgets and Raw, not {kind}")


def _figure(fig: go.Figure) -> str:
    """The figure's data, drawn by page.js; its place is kept so that nothing jumps."""
    height = fig["layout"]["height"] or 450
    data = fig.to_json() or ""
    return (
        f'<div class="figure" style="min-height:{height}px" data-scale="{scale_of(fig) or ""}">'
        f'<script type="application/json">{in_script(data)}</script></div>'
    )


def _table(table: Table) -> str:
    columns = [[row[i] for row in table.rows] for i in range(len(table.columns))]
    right = [bool(cells) and all(isinstance(c, int | float) for c in cells) for cells in columns]
    texts = zip(*map(_column_texts, columns), strict=True)
    head = _row("th", table.columns, right)
    body = "".join(_row("td", row, right) for row in texts)
    return f'<div class="table"><table><thead>{head}</thead><tbody>{body}</tbody></table></div>'


def _row(tag: str, texts: Sequence[str], right: list[bool]) -> str:
    numbers = (" class=number" if number else "" for number in right)
    cells = (f"<{tag}{n}>{html.escape(text)}</{tag}>" for text, n in zip(texts, numbers, strict=True))
    return f"<tr>{''.join(cells)}</tr>"


def _column_texts(cells: Sequence[Any]) -> list[str]:
    """Floats to the same decimals all the way down, four figures for the largest, so that points align."""
    sizes = [abs(c) for c in cells if isinstance(c, float) and math.isfinite(c)]
    whole = math.floor(math.log10(max(sizes))) if sizes and max(sizes) > 0 else 0
    decimals = min(6, max(0, 3 - whole))
    return [f"{c:.{decimals}f}".replace("-", "−") if isinstance(c, float) else str(c) for c in cells]


def _scripts() -> list[str]:
    """plotly, the themes, and what draws the figures, in the order they run."""
    scales = ("weight", "under_text", "signed", "sign", None)
    # The page has its own paper; figures lie on it.
    clear = {"paper_bgcolor": "rgba(0,0,0,0)"}
    themes = {t: {s or "": look(t, s) | clear for s in scales} for t in ("light", "dark")}
    return [get_plotlyjs(), f"const THEMES = {in_script(json.dumps(themes))};", _asset("page.js")]


def in_script(text: str) -> str:
    """JSON that cannot end the script element it stands in."""
    return text.replace("<", "\\u003c")


def _asset(name: str) -> str:
    return (files("workbench.figures") / name).read_text(encoding="utf-8")
