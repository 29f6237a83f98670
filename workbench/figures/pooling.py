"""Patterns of more cells than pixels: a cell drawn for several, the strongest of them.

A browser that has less than a pixel for a cell leaves some out, and with them a stripe or a single bright cell.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int


def strongest(
    panels: Float[np.ndarray, "panel row column"], block: int
) -> tuple[Float[np.ndarray, "panel down across"], Int[np.ndarray, "panel down across 2"]]:
    """Of each block x block cells the value largest in size, and the (row, column) where it stands. NaN where all are;
    what is short of a block at the end is one too."""
    short = [(0, -n % block) for n in panels.shape[1:]]
    cells = np.pad(panels, ((0, 0), *short), constant_values=np.nan)
    n, down, across = len(cells), cells.shape[1] // block, cells.shape[2] // block
    blocks = cells.reshape(n, down, block, across, block).swapaxes(2, 3).reshape(n, down, across, block * block)
    at = np.nan_to_num(np.abs(blocks), nan=-1.0).argmax(-1)
    row = at // block + block * np.arange(down)[:, None]
    column = at % block + block * np.arange(across)
    return np.take_along_axis(blocks, at[..., None], -1)[..., 0], np.stack([row, column], -1).astype(np.int32)
