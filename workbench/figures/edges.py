"""The edges of a heat map: which cells get a tick, how the labels lie, how much room they take.

Axes are always numeric. plotly merges columns whose labels repeat, and takes seconds to lay out a thousand
labels, so a tick is a position with a text beside it, at most `TICKS` of them. The hover still names every
cell, since `%{x}` reads the tick text of the axis a trace is on: where not every cell has a visible tick,
the trace gets a second, bare axis on top that has them all (`bare`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from .style import LABEL_SIZE, MONO, MONO_WIDTH, TEXT_SIZE
from .tokens import escaped, shortened

TICKS = 64
LINE = 13  # px from one label to the next
SLANTED = 15.5  # the same along an axis whose labels lie at 45 degrees
TICK_LETTERS, HOVER_LETTERS = 14, 48


@dataclass(frozen=True)
class Edge:
    """One edge: the axis' name, a label per cell (visible, not escaped), and a cell's size in pixels. `full` is what
    the hover calls cells, where that is more than their label."""

    name: str
    labels: Sequence[str]
    cell: float
    full: Sequence[str] | None = None

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def pixels(self) -> float:
        return self.cell * len(self)

    @cached_property
    def step(self) -> int:
        """Cells from one tick to the next: 1, 2, 5, 10, 20, ... so that labels neither touch nor pass TICKS."""
        steps = (digit * 10**power for power in range(9) for digit in (1, 2, 5))
        return next(s for s in steps if s * self.cell >= LINE and len(self) / s <= TICKS)

    @property
    def ticks(self) -> range:
        return range(0, len(self), self.step)

    @cached_property
    def shown(self) -> list[str]:
        """The labels at the ticks, short, not yet escaped."""
        return [shortened(self.labels[i], TICK_LETTERS) for i in self.ticks]

    @property
    def width(self) -> float:
        """Pixels of the longest shown label."""
        return MONO_WIDTH * max(map(len, self.shown), default=0)

    @property
    def angle(self) -> int:
        """How labels below a heat map lie: flat where they fit, slanted where lines fit, else upright."""
        spacing = self.step * self.cell
        return 0 if self.width + 4 <= spacing else -45 if spacing >= SLANTED else -90

    @property
    def depth(self) -> int:
        """Pixels the labels take below the plot, the axis' name included."""
        labels = {0: LABEL_SIZE + 6, -45: self.width * 0.72 + 16, -90: self.width + 8}[self.angle]
        return round(labels + 26)

    @property
    def left(self) -> int:
        """Pixels the labels take left of the plot, the axis' name included."""
        return round(self.width + 38)

    def axis(self, down: bool) -> dict[str, Any]:
        """The visible plotly axis; `down`: a vertical one, cell 0 at the top."""
        last = len(self) - 0.5
        return {
            "range": [last, -0.5] if down else [-0.5, last],
            "tickmode": "array",
            "tickvals": list(self.ticks),
            "ticktext": [escaped(text) for text in self.shown],
            "tickangle": 0 if down else self.angle,
            "tickfont": {"family": MONO, "size": LABEL_SIZE},
            "ticks": "",
            "ticklabelstandoff": 4,
            "title": {"font": {"size": TEXT_SIZE}, "standoff": 8},
            "showgrid": False,
            "zeroline": False,
            "showline": False,
        }

    def bare(self, down: bool, over: str, anchor: str) -> dict[str, Any]:
        """An axis nobody sees, over the visible one named `over`, with a text for every cell."""
        return {
            **self.axis(down),
            "overlaying": over,
            "matches": over,
            "anchor": anchor,
            "showticklabels": False,
            **self.every_cell(),
        }

    def every_cell(self) -> dict[str, Any]:
        """Tick values and texts for all cells, for the hover."""
        texts = [escaped(shortened(label, HOVER_LETTERS)) for label in self.full or self.labels]
        return {"tickvals": list(range(len(self))), "ticktext": texts}
