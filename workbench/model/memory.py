"""What attention remembers of earlier positions.

Before attending, a layer hands over what it made for the positions of this pass (rotated keys and values, or
latents: a dict, the memory does not care), and gets back everything it may attend to. A plain forward remembers
nothing; generation grows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import TypeAlias

import torch
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


class Growing(Memory):
    """Generation: each pass adds its positions to those of the passes before.

    capacity: how many columns of text there will be at most; a layer's store is made once, for as many.
    whole:    layers that keep every key although they have a window, because somebody looks at their pattern.
    slack:    columns that padding may take up behind a row's first token, so that a window's worth of columns
              and as many more hold a window's worth of tokens.
    """

    def __init__(self, capacity: int, whole: Collection[int] = (), slack: int = 0):
        self._capacity, self._whole, self._slack = capacity, whole, slack
        self._held: dict[int, Kept] = {}  # by layer; positions are held like the rest
        self._filled: dict[int, int] = {}

    @property
    def is_empty(self) -> bool:
        return not self._held

    @property
    def n_bytes(self) -> int:
        """What the stores take, positions not counted."""
        stores = [store for held in self._held.values() for name, store in held.items() if name != _POSITIONS]
        return sum(store.numel() * store.element_size() for store in stores)

    def extend(
        self, layer: int, positions: Int[Tensor, "batch pos"], new: Kept, window: int | None = None
    ) -> tuple[Int[Tensor, "batch key"], Kept]:
        new = {_POSITIONS: positions, **new}
        width = None if window is None or layer in self._whole else window + self._slack
        seen = self._grown(layer, new) if width is None or width >= self._capacity else self._slid(layer, new, width)
        return seen.pop(_POSITIONS), seen

    def _grown(self, layer: int, new: Kept) -> Kept:
        """Written behind what is there, so that a step copies its own keys and no others."""
        if layer not in self._held:
            self._held[layer] = {name: _store_for(value, self._capacity) for name, value in new.items()}
        start = self._filled.get(layer, 0)
        end = self._filled[layer] = start + new[_POSITIONS].shape[1]
        seen: Kept = {}
        for name, store in self._held[layer].items():
            store[:, start:end] = new[name]
            seen[name] = store[:, :end]
        return seen

    def _slid(self, layer: int, new: Kept, width: int) -> Kept:
        """Behind the last of what is there: the first query of a pass sees width - 1 before it."""
        seen = new
        if held := self._held.get(layer):
            seen = {name: torch.cat([_last(held[name], width - 1), value], 1) for name, value in new.items()}
        if seen[_POSITIONS].shape[1] > width:  # copied, so as not to hold on to the text that it is part of
            self._held[layer] = {name: _last(value, width).clone() for name, value in seen.items()}
        else:
            self._held[layer] = dict(seen)
        return seen


_POSITIONS = "positions"


def _store_for(value: Tensor, capacity: int) -> Tensor:
    return value.new_empty(value.shape[0], capacity, *value.shape[2:])


def _last(value: Tensor, width: int) -> Tensor:
    return value[:, max(0, value.shape[1] - width) :]
