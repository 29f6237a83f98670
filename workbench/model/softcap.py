"""Softcaps: values squeezed smoothly into (-cap, cap), as Gemma 2 does with scores and logits."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from torch import Tensor


def softcap(x: Tensor, cap: float) -> Tensor:
    """cap tanh(x / cap) (Gemma Team 2024, section 2)."""
    return (x / cap).tanh() * cap


def as_it_is(x: Tensor) -> Tensor:
    return x


def softcap_of(cap: float | None) -> Callable[[Tensor], Tensor]:
    """What caps at `cap`; None leaves values as they are."""
    return as_it_is if cap is None else partial(softcap, cap=cap)
