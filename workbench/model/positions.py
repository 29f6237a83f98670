"""Position as vectors that are added to the embedding, if any.

Positions count real tokens. Where there is none (-1) anything finite will do, since nobody attends there.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from ..sites import Place
from ..spec import Component, ComponentSpec
from .pass_ import Pass


class LearnedPositions(Component):
    """A vector for each position, added to the embedding (GPT-2)."""

    def __init__(self, n_ctx: int, d_model: int, place: Place):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_ctx, d_model))
        self.hook_pos_embed = place.site("hook_pos_embed", "batch pos d_model", d_model=d_model)
        self.sites = (self.hook_pos_embed,)

    def forward(self, x: Float[Tensor, "batch pos d_model"], at: Pass) -> Float[Tensor, "batch pos d_model"]:
        return x + at(self.hook_pos_embed, self.weight[at.positions.clamp(min=0)])


class SinusoidalPositions(Component):
    """Fixed waves, added to the embedding, sine and cosine in turn (Vaswani et al. 2017, section 3.5):

    PE(pos, 2i) = sin(pos / base^(2i/d)), PE(pos, 2i + 1) = cos(pos / base^(2i/d))
    """

    def __init__(self, base: float, d_model: int, place: Place):
        super().__init__()
        self.base, self.d_model = base, d_model
        self.hook_pos_embed = place.site("hook_pos_embed", "batch pos d_model", d_model=d_model)
        self.sites = (self.hook_pos_embed,)

    def waves(self, positions: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos d_model"]:
        pair = torch.arange(0, self.d_model, 2, device=positions.device, dtype=torch.float32)
        angle = positions.clamp(min=0).float()[:, :, None] / self.base ** (pair / self.d_model)
        return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)[..., : self.d_model]

    def forward(self, x: Float[Tensor, "batch pos d_model"], at: Pass) -> Float[Tensor, "batch pos d_model"]:
        return x + at(self.hook_pos_embed, self.waves(at.positions).to(x.dtype))


class NoPositions(Component):
    """Nothing is added: position enters elsewhere, or not at all."""

    def forward(self, x: Float[Tensor, "batch pos d_model"], at: Pass) -> Float[Tensor, "batch pos d_model"]:
        return x


@dataclass(frozen=True)
class LearnedPositionsSpec(ComponentSpec):
    n_ctx: int

    def check(self) -> None:
        self.require(self.n_ctx > 0, "n_ctx", "it must be positive")

    def build(self, d_model: int, place: Place) -> LearnedPositions:
        return LearnedPositions(self.n_ctx, d_model, place)


@dataclass(frozen=True)
class SinusoidalPositionsSpec(ComponentSpec):
    base: float = 10_000.0

    def check(self) -> None:
        self.require(self.base > 0, "base", "it must be positive")

    def build(self, d_model: int, place: Place) -> SinusoidalPositions:
        return SinusoidalPositions(self.base, d_model, place)
