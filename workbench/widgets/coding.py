"""One attention pattern as bytes for the browser.

Up to 256 tokens: float32, the exact weights. Beyond: 16 bits of the square root, which keeps a uniform head
of 1024 tokens apart from 0 and errs by less than 2e-5 anywhere. Of a causal pattern only the half that can
be non-zero is sent, row by row. 1024 tokens make 1.05 MB.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from ..figures.arrays import Array

EXACT = 256  # tokens up to which weights travel as float32


@dataclass(frozen=True)
class Coding:
    """How to read the bytes: `dtype` is "float32" or "uint16", `half` says that keys end at the query."""

    dtype: str
    half: bool

    def to_json(self) -> dict[str, str | bool]:
        return asdict(self)


def encode(pattern: Array) -> tuple[Coding, bytes]:
    """The bytes of `pattern` [query, key], little-endian, and how to read them."""
    n = len(pattern)
    half = not np.triu(pattern, k=1).any()
    values = pattern[np.tril_indices(n)] if half else pattern.ravel()
    # A pattern that someone edited may leave [0, 1], where a root in 16 bits cannot follow.
    if n <= EXACT or not ((values >= 0) & (values <= 1)).all():
        return Coding("float32", half), values.astype("<f4").tobytes()
    return Coding("uint16", half), np.rint(np.sqrt(values) * 65535).astype("<u2").tobytes()
