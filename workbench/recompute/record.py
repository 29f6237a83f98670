"""One run, with everything that a change later in it leaves as it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..cache import ActivationCache
from ..inputs import Text
from ..model.dot_product import DotProduct, Keys, Values
from ..model.memory import Kept, Nothing
from ..model.pass_ import Pass
from ..model.transformer import Transformer
from ..recorder import CacheRecorder
from ..sites import Site


class Keeping(Nothing):
    """A whole text at once, as in any run, and what each layer kept of it."""

    def __init__(self):
        self.kept: dict[int, Kept] = {}

    def extend(
        self, layer: int, positions: Int[Tensor, "batch pos"], new: Kept, window: int | None = None
    ) -> tuple[Int[Tensor, "batch key"], Kept]:
        self.kept[layer] = new
        return super().extend(layer, positions, new, window)


@dataclass(frozen=True)
class Recorded:
    """A run of examples [example, column].

    streams: what enters each layer, and then the last stream.
    kept:    what each layer's attention kept of it.
    cache:   the values at the sites that were asked for.
    """

    text: Text
    streams: tuple[Float[Tensor, "example column d_model"], ...]
    kept: dict[int, Kept]
    cache: ActivationCache
    _expanded: dict[int, tuple[Keys, Values]] = field(default_factory=dict, repr=False)

    @property
    def positions(self) -> Int[Tensor, "example column"]:
        return self.text.positions

    @property
    def real(self) -> Bool[Tensor, "example column"]:
        return self.text.positions >= 0

    @property
    def n_examples(self) -> int:
        return len(self.text.positions)

    @property
    def n_columns(self) -> int:
        return self.text.positions.shape[1]

    def keys_and_values(self, mixer: DotProduct) -> tuple[Keys, Values]:
        """Of one layer; expanded from latents once, where there are such."""
        if mixer.layer not in self._expanded:
            self._expanded[mixer.layer] = mixer.keys_and_values(self.kept[mixer.layer])
        return self._expanded[mixer.layer]


@torch.no_grad()
def record(model: Transformer, text: Text, sites: Sequence[Site] = ()) -> Recorded:
    """Run a text and keep it."""
    memory, recorder = Keeping(), CacheRecorder(sites, text, None, None, grad=False)
    at = Pass(text.positions, padded=text.padded, memory=memory, recorder=recorder)
    streams = [model.embed(text.tokens, at)]
    for block in model.blocks:
        streams.append(block(streams[-1], at))
    return Recorded(text, tuple(streams), memory.kept, recorder.cache(model, at.attended))
