"""Timing two ways of doing the same thing, in turn, so that a noisy machine slows both alike."""

from __future__ import annotations

import gc
import json
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch


@dataclass
class Row:
    """ours and theirs: median seconds; ratio: the median of the pairwise ratios ours / theirs."""

    work: str
    peer: str
    ours: float
    theirs: float
    ratio: float
    target: float

    @property
    def holds(self) -> bool:
        return self.ratio <= self.target


def compare(
    work: str, peer: str, ours: Callable[[], object], theirs: Callable[[], object], target: float, rounds: int = 7
) -> Row:
    """Both once to warm up, then in turn; which goes first alternates."""
    ours(), theirs()
    pairs = []
    for number in range(rounds):
        sides = {"ours": ours, "theirs": theirs}
        times = {name: seconds(sides[name]) for name in (sorted(sides) if number % 2 else sorted(sides)[::-1])}
        pairs.append((times["ours"], times["theirs"]))
    return Row(
        work,
        peer,
        statistics.median(a for a, _ in pairs),
        statistics.median(b for _, b in pairs),
        statistics.median(a / b for a, b in pairs),
        target,
    )


def seconds(run: Callable[[], object]) -> float:
    gc.collect()
    _settle()
    start = time.perf_counter()
    result = run()
    _settle()
    taken = time.perf_counter() - start
    del result
    return taken


def _settle() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def machine() -> dict[str, str | int]:
    return {"python": platform.python_version(), "torch": torch.__version__, "threads": torch.get_num_threads()}


def report(rows: list[Row], path: Path | None) -> None:
    """Print a table, and write the same as JSON."""
    print(f"{'work':<44} {'peer':<34} {'ours':>9} {'theirs':>9} {'ratio':>6} {'wanted':>7}")
    for row in rows:
        mark = "" if row.holds else "  <- over"
        print(
            f"{row.work:<44} {row.peer:<34} {row.ours * 1e3:7.1f}ms {row.theirs * 1e3:7.1f}ms "
            f"{row.ratio:6.2f} {row.target:7.2f}{mark}"
        )
    if path is not None:
        path.write_text(json.dumps({"machine": machine(), "rows": [asdict(row) for row in rows]}, indent=1))
