"""The precision of what must not be rounded on the way: statistics, softmax, angles."""

from __future__ import annotations

import torch
from torch import Tensor


def at_least_float32(x: Tensor) -> torch.dtype:
    """The dtype for sums over x: float32, or float64 where the model is."""
    return torch.promote_types(x.dtype, torch.float32)
