"""Position as rotations of queries and keys, so that their product depends on the distance only (Su et al. 2021)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..sites import Place
from ..spec import Component, Spec
from .pass_ import Pass


def rotary_table(
    positions: Int[Tensor, "batch pos"], d_rotary: int, base: float
) -> tuple[Float[Tensor, "batch pos 1 half"], Float[Tensor, "batch pos 1 half"]]:
    """cos and sin of position x base^(-2i/d) (Su et al. 2021, equation 15), in float32."""
    pair = torch.arange(0, d_rotary, 2, device=positions.device, dtype=torch.float32)
    frequency = 1.0 / base ** (pair / d_rotary)
    angle = positions.clamp(min=0).float()[:, :, None, None] * frequency
    return angle.cos(), angle.sin()


def rotate_halves(
    x: Float[Tensor, "batch pos head d_head"],
    cos: Float[Tensor, "#batch pos 1 half"],
    sin: Float[Tensor, "#batch pos 1 half"],
) -> Float[Tensor, "batch pos head d_head"]:
    """Rotate the pairs (x_i, x_{i + d/2}), the pairing of GPT-NeoX and Llama files."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1).to(x.dtype)


class Rotary(Component):
    """Rotates queries and keys, so that their product depends on the distance only (Su et al. 2021)."""

    def __init__(self, spec: RotarySpec, n_heads: int, n_kv_heads: int, d_head: int, place: Place):
        super().__init__()
        self.spec, self.d_head = spec, d_head
        self.hook_rot_q = place.site("hook_rot_q", "batch pos head d_head", head=n_heads, d_head=d_head)
        self.hook_rot_k = place.site("hook_rot_k", "batch pos kv_head d_head", kv_head=n_kv_heads, d_head=d_head)
        self.sites = (self.hook_rot_q, self.hook_rot_k)

    def forward(self, q: Tensor, k: Tensor, at: Pass) -> tuple[Tensor, Tensor]:
        cos, sin = at.once(
            ("rotary", self.spec, self.d_head),
            lambda: rotary_table(at.positions, self.d_head, self.spec.base),
        )
        return (
            at(self.hook_rot_q, rotate_halves(q, cos, sin)),
            at(self.hook_rot_k, rotate_halves(k, cos, sin)),
        )


class NoRotary(Component):
    """Queries and keys as they are."""

    def forward(self, q: Tensor, k: Tensor, at: Pass) -> tuple[Tensor, Tensor]:
        return q, k


@dataclass(frozen=True)
class RotarySpec(Spec):
    base: float = 10_000.0

    def check(self) -> None:
        self.require(self.base > 0, "base", "it must be positive")

    def build_for(self, n_heads: int, n_kv_heads: int, d_head: int, place: Place) -> Rotary:
        return Rotary(self, n_heads, n_kv_heads, d_head, place)
