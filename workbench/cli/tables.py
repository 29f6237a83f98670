"""Tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

_WIDE = 160


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Columns of numbers to the right, words to the left. Texts are as they are, never markup."""
    rows = [list(row) for row in rows]
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for index, column in enumerate(columns):
        numbers = all(isinstance(row[index], (int, float)) for row in rows)
        table.add_column(Text(column), justify="right" if numbers else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(_shown(cell)) for cell in row))
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = _WIDE  # a file or a pipe has no width of its own to fold at
    console.print(Text(title, style="bold"), table)


def _shown(cell: object) -> str:
    if isinstance(cell, float):
        return f"{cell:.3f}"
    return f"{cell:,}" if isinstance(cell, int) and abs(cell) >= 10_000 else str(cell)
