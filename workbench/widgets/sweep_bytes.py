"""The numbers of a sweep as a page gets them: float32, little-endian, a cell's place by (sheet, down, across).

At once go the means of every cell, and all pairs' values where they are small; otherwise a pair's own are sent when it
is chosen. Intervals and p-values of every cell go along where that takes less than a second, and otherwise the interval
of the cell that is locked is made then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from ..errors import TooLargeError
from ..sweep_result import SweepResult, difference
from .sweep_axes import Axes

MOST_CELLS = 150_000  # 3 MB of means
AT_ONCE = 2_000_000  # bytes of pairs' values that go along from the start
CELLS_WITH_INTERVALS = 2_000  # a cell takes 0.3 ms of resampling

MEANS = ("effect", "value", "base", "other", "unchanged")
CHANCE = ("low", "high", "p")


def check_size(result: SweepResult) -> None:
    """TooLargeError where a page would take long to open."""
    cells = result.mean.numel()
    if cells > MOST_CELLS:
        raise TooLargeError(
            f"a sweep of {cells:,} cells is more than a page shows, which is {MOST_CELLS:,}: sweep over fewer layers=, "
            "heads=, positions= or neurons=, or look at result.top()"
        )


def all_fit(result: SweepResult, bytes_of_texts: int) -> bool:
    """Whether every pair's own values and texts can go along."""
    return len(result.values) * (4 * result.mean.numel() + bytes_of_texts) <= AT_ONCE


def has_intervals(result: SweepResult) -> bool:
    """Whether intervals and p-values go along."""
    return len(result.values) > 1 and result.mean.numel() <= CELLS_WITH_INTERVALS


def means(result: SweepResult, axes: Axes) -> bytes:
    """MEANS of every cell, and CHANCE where `has_intervals`, one after the other."""
    _, base, other = (part.nanmean(0).reshape(result.mean.shape) for part in result._parts)
    parts = [result.effect, result.mean, base, other, result.unchanged.float()]
    if has_intervals(result):
        parts += [*result.interval(), result.p_values()]
    return b"".join(_packed(part, axes) for part in parts)


def values_of(result: SweepResult, axes: Axes, pairs: Sequence[int]) -> bytes:
    """The metric of these pairs, [pair, cell]."""
    return b"".join(_packed(result.values[pair], axes) for pair in pairs)


def runs(result: SweepResult) -> bytes:
    """Of every pair: the metric of the base run, of the other, and what a change is divided by, NaN for none."""
    base, other = result._base_and_other
    if result.direction == "ablate":
        return b"".join(map(_bytes, (base, torch.full_like(base, torch.nan), torch.ones_like(base))))
    return b"".join(map(_bytes, (base, other, difference(base, other))))


def interval_at(result: SweepResult, index: tuple[int, ...]) -> list[float]:
    """The 95 % interval of one cell, as `result.interval()` has it; [] where it has none."""
    one = replace(
        result,
        values=result.values[(slice(None), *index)],
        axes=(),
        labels={},
        places={},
        unchanged=torch.tensor(False),
    )
    low, high = one.interval().tolist()
    return [low, high] if np.isfinite([low, high]).all() else []


def _packed(cells: Tensor, axes: Axes) -> bytes:
    return _bytes(cells.permute(axes.order))


def _bytes(values: Tensor) -> bytes:
    return values.detach().cpu().contiguous().numpy().astype("<f4").tobytes()
