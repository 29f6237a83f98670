"""Tensors and arrays as the float32 numpy arrays that plotly packs as binary."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..errors import KindError, TooLargeError

Array = NDArray[np.float32]

CELL_LIMIT = 2**23  # float32 cells in one figure: 32 MiB, about what a browser still opens without a pause


def array(values: Any, name: str) -> Array:
    """`values` (tensor of any dtype and device, array, nested list) as float32 on the CPU; else KindError."""
    try:
        return torch.as_tensor(values).detach().to("cpu", torch.float32).numpy()
    except (TypeError, ValueError, RuntimeError) as error:
        raise KindError(f"{name} must be a tensor or an array of numbers, not {type(values).__name__}") from error


def check_size(cells: int, advice: str) -> None:
    """Raises TooLargeError for more cells than a browser can show; `advice` says what to pass instead."""
    if cells > CELL_LIMIT:
        raise TooLargeError(f"a figure of {cells:,} cells is more than a browser shows: {advice}")


def without_future(pattern: Array) -> Array:
    """[..., query, key] with what a causal mask leaves at 0 set to NaN, so that it is blank and not "0".

    A pattern with any weight above its diagonal comes back unchanged.
    """
    if pattern.shape[-1] != pattern.shape[-2]:
        return pattern
    future = np.triu(np.ones(pattern.shape[-2:], dtype=bool), k=1)
    if pattern[..., future].any():
        return pattern
    return np.where(future, np.float32(np.nan), pattern)
