"""What the colour of a lens' cells can stand for, each quantity on a scale of its own sense.

Strong colour is a likely top token, a low rank, a high entropy, a large divergence. Ranks and divergences run over
orders of magnitude, so these are drawn by logarithm and their scale is labelled with what they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InputError, KindError, count, nearest
from .arrays import Array, array
from .tokens import escaped, shortened, visible


@dataclass(frozen=True)
class Shade:
    """Numbers to colour by.

    z:        [row, pos], between the ends of span.
    quantity: its name, escaped.
    ticks:    places on the scale and their texts, where z is not the quantity itself.
    """

    z: Array
    span: tuple[float, float]
    quantity: str
    percent: bool = False
    ticks: tuple[Sequence[float], Sequence[str]] | None = None


def shade_of(lens: Any, example: int, show: str, target: int) -> Shade:
    """Raises InputError for what there is not to show, KindError for a target that is no number."""
    if not isinstance(show, str) or show not in SHOWS:
        raise InputError(f"there is nothing to show named {show!r}, {nearest(str(show), SHOWS)}")
    if not isinstance(target, int) or isinstance(target, bool):
        raise KindError(f"target is {target!r}; a number is wanted, 0 for the first of the lens' targets")
    return SHOWS[show](lens, example, target)


def _prob(lens: Any, example: int, target: int) -> Shade:
    return Shade(np.exp(of_example(lens, "logprobs", example)[..., 0]), (0, 1), "top token", percent=True)


def _rank(lens: Any, example: int, target: int) -> Shade:
    return _ranks(ranks_of(lens, "next_ranks", example), "rank of next")


def _target(lens: Any, example: int, target: int) -> Shade:
    texts = needed(lens, "target_texts")
    if not 0 <= target < len(texts):
        raise InputError(f"there is no target {target}: the lens follows {count(len(texts), 'target')}")
    name = escaped(shortened(visible(texts[target]), 10))
    return _ranks(ranks_of(lens, "target_ranks", example)[..., target], f"rank of {name}")


def _entropy(lens: Any, example: int, target: int) -> Shade:
    entropy = of_example(lens, "entropy", example)
    return Shade(entropy, (0, _largest(entropy)), "entropy, nats")


def _kl(lens: Any, example: int, target: int) -> Shade:
    kl = of_example(lens, "kl", example)
    end = _largest(kl)
    ticks = _ticks(end)
    return Shade(np.log1p(kl), (0, np.log1p(end)), "KL, nats", ticks=(np.log1p(ticks).tolist(), _texts(ticks)))


def _ranks(ranks: Array, quantity: str) -> Shade:
    """-log(1 + rank), so that the top token's colour is the strongest."""
    end = _largest(ranks, least=9)
    ticks = _ticks(end)
    return Shade(-np.log1p(ranks), (-np.log1p(end), 0), quantity, ticks=((-np.log1p(ticks)).tolist(), _texts(ticks)))


SHOWS: dict[str, Callable[[Any, int, int], Shade]] = {
    "prob": _prob,
    "rank": _rank,
    "entropy": _entropy,
    "kl": _kl,
    "target": _target,
}


def has(lens: Any, *names: str) -> bool:
    return all(getattr(lens, name, None) is not None for name in names)


def needed(lens: Any, name: str) -> Any:
    """A part of the lens that not every lens has."""
    if not has(lens, name):
        raise InputError(f"this lens has no {name} to show; wb.logit_lens gives one that has")
    return getattr(lens, name)


def of_example(lens: Any, name: str, example: int) -> Array:
    """[row, pos, ...] of one example, once it fits the lens' log-probabilities [example, row, pos, k]."""
    values, wanted = array(needed(lens, name), name), array(lens.logprobs, "logprobs").shape[:3]
    if values.shape[:3] != wanted:
        raise InputError(f"{name} is {list(values.shape)}; [example, row, pos] are {list(wanted)} in this lens")
    return values[example]


def ranks_of(lens: Any, name: str, example: int) -> Array:
    """[row, pos, ...], NaN for -1, which is where there is no such token."""
    ranks = of_example(lens, name, example)
    return np.where(ranks < 0, np.float32(np.nan), ranks)


def _largest(values: Array, least: float = 1.0) -> float:
    """Where the scale ends: at least somewhere, if all values are 0 or missing."""
    finite = values[np.isfinite(values)]
    return max(least, float(finite.max())) if finite.size else least


def _ticks(end: float) -> Array:
    """0 and the powers of ten up to `end`; threes between them where there is room."""
    powers = [10**power for power in range(9)]
    steps = [step for power in powers for step in (power, 3 * power)] if end < 1000 else powers
    return np.array([0, *(step for step in steps if step <= end)], dtype=np.float32)


def _texts(ticks: Array) -> list[str]:
    return [f"{int(tick):,}" for tick in ticks]
