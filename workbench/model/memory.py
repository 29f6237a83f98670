"""What attention remembers of earlier positions.

Before attending, a layer hands over what it made for the positions of this pass (rotated keys and values, or
latents: a dict, the memory does not care), and gets back everything it may attend to. A plain forward remembers
nothing; generation grows; the engine reads the first positions of a recorded run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeAlias

from jaxtyping import Int
from torch import Tensor

Kept: TypeAlias = dict[str, Tensor]


class Memory(ABC):
    @abstractmethod
    def extend(
        self, layer: int, positions: Int[Tensor, "batch pos"], new: Kept, window: int | None = None
    ) -> tuple[Int[Tensor, "batch key"], Kept]:
        """Positions and contents of every key that this layer's queries can attend to."""

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """Whether the pass sees only its own positions."""


class Nothing(Memory):
    """A whole text at once: the keys are this pass's own."""

    def extend(
        self, layer: int, positions: Int[Tensor, "batch pos"], new: Kept, window: int | None = None
    ) -> tuple[Int[Tensor, "batch key"], Kept]:
        return positions, new

    @property
    def is_empty(self) -> bool:
        return True
