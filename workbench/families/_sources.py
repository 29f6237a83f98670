"""Where a parameter lies in a published file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor


def as_it_is(tensor: Tensor) -> Tensor:
    return tensor


@dataclass(frozen=True)
class Source:
    """A tensor of the file and the part of it that is the parameter, [out, in] for a projection.

    view must return a view: parameters are the file's own memory, not copies.
    """

    name: str
    view: Callable[[Tensor], Tensor] = as_it_is
    equal_parts: int = 1
    of_head: bool = False  # beside the backbone, so never under its prefix

    def split_unevenly(self, shape: tuple[int, ...]) -> bool:
        """Whether the file's last axis cannot be cut into the equal parts that this source expects."""
        return bool(shape) and shape[-1] % self.equal_parts != 0


def transposed(name: str) -> Source:
    """A projection that the file keeps [in, out]."""
    return Source(name, lambda tensor: tensor.t())


def part(name: str, index: int, of: int) -> Source:
    """One of several equal parts that the file keeps side by side along the last axis, e.g. k of a fused q, k, v."""
    return Source(name, lambda tensor: tensor.chunk(of, dim=-1)[index].t(), of)
