"""Position as rotations of queries and keys, so that their product depends on the distance only (Su et al. 2021).

RotarySpec             pairs (x_i, x_{i + d/2}), as GPT-NeoX and Llama files have them
NeighbourRotarySpec    pairs (x_2i, x_2i+1), as the paper, GPT-J and DeepSeek have them
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..errors import SpecError
from ..sites import Place
from ..spec import Component, Spec
from .pass_ import Pass
from .rotary_scaling import RotaryScalingSpec

Table: TypeAlias = tuple[Float[Tensor, "batch pos 1 half"], Float[Tensor, "batch pos 1 half"]]
Turn: TypeAlias = Callable[[Tensor, Tensor, Tensor], Tensor]


def frequencies(spec: RotarySpec, d_rotary: int, lengths: Int[Tensor, " batch"]) -> Float[Tensor, "*batch half"]:
    """How far each pair turns at one step: base^(-2i/d) (Su et al. 2021, equation 15), perhaps scaled; float32."""
    pair = torch.arange(0, d_rotary, 2, device=lengths.device, dtype=torch.float32)
    plain = 1.0 / spec.base ** (pair / d_rotary)
    return plain if spec.scaling is None else spec.scaling.scaled(plain, spec.base, lengths)


def rotary_table(
    spec: RotarySpec, d_rotary: int, positions: Int[Tensor, "batch pos"], lengths: Int[Tensor, " batch"]
) -> Table:
    """cos and sin of position x frequency, in float32. Where there is no token (-1) nothing turns."""
    each = frequencies(spec, d_rotary, lengths)
    angle = positions.clamp(min=0).float()[:, :, None, None] * each.reshape(-1, 1, 1, each.shape[-1])
    cos, sin = angle.cos(), angle.sin()
    factor = 1.0 if spec.scaling is None else spec.scaling.factor_of_attention
    return (cos, sin) if factor == 1.0 else (cos * factor, sin * factor)


def rotate_halves(
    x: Float[Tensor, "batch pos head d"],
    cos: Float[Tensor, "#batch pos 1 half"],
    sin: Float[Tensor, "#batch pos 1 half"],
) -> Float[Tensor, "batch pos head d"]:
    """Rotate the pairs (x_i, x_{i + d/2})."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1).to(x.dtype)


def rotate_neighbours(
    x: Float[Tensor, "batch pos head d"],
    cos: Float[Tensor, "#batch pos 1 half"],
    sin: Float[Tensor, "#batch pos 1 half"],
) -> Float[Tensor, "batch pos head d"]:
    """Rotate the pairs (x_2i, x_2i+1)."""
    first, second = x[..., 0::2], x[..., 1::2]
    turned = torch.stack([first * cos - second * sin, second * cos + first * sin], dim=-1)
    return turned.flatten(-2).to(x.dtype)


def rotate_first(
    x: Float[Tensor, "batch pos head d_head"], cos: Tensor, sin: Tensor, rotate: Turn, d_rotary: int
) -> Float[Tensor, "batch pos head d_head"]:
    """Rotate the first d_rotary numbers of each head and leave the others."""
    return torch.cat([rotate(x[..., :d_rotary], cos, sin), x[..., d_rotary:]], dim=-1)


class Rotation:
    """Turns vectors of one width according to a spec; sites belong to whoever uses it."""

    def __init__(self, spec: RotarySpec, d_head: int):
        self.spec, self.d_rotary = spec, spec.d_rotary or d_head
        whole = self.d_rotary == d_head
        self.turn: Turn = spec.rotate if whole else partial(rotate_first, rotate=spec.rotate, d_rotary=self.d_rotary)

    def table(self, at: Pass) -> Table:
        """Made by the first layer that asks, shared by those of the same spec."""
        key = ("rotary", self.spec, self.d_rotary)
        return at.once(key, lambda: rotary_table(self.spec, self.d_rotary, at.positions, at.lengths))


class Rotary(Component):
    """Rotated queries and keys of an attention's heads."""

    def __init__(self, spec: RotarySpec, n_heads: int, n_kv_heads: int, d_head: int, place: Place):
        super().__init__()
        self.rotation = Rotation(spec, d_head)
        self.hook_rot_q = place.site("hook_rot_q", "batch pos head d_head", head=n_heads, d_head=d_head)
        self.hook_rot_k = place.site("hook_rot_k", "batch pos kv_head d_head", kv_head=n_kv_heads, d_head=d_head)
        self.sites = (self.hook_rot_q, self.hook_rot_k)

    def forward(self, q: Tensor, k: Tensor, at: Pass) -> tuple[Tensor, Tensor]:
        cos, sin = self.rotation.table(at)
        turn = self.rotation.turn
        return at(self.hook_rot_q, turn(q, cos, sin)), at(self.hook_rot_k, turn(k, cos, sin))


class NoRotary(Component):
    """Queries and keys as they are."""

    def forward(self, q: Tensor, k: Tensor, at: Pass) -> tuple[Tensor, Tensor]:
        return q, k


@dataclass(frozen=True)
class RotarySpec(Spec):
    """d_rotary: how many numbers of each head turn, the first ones; None for all."""

    base: float = 10_000.0
    d_rotary: int | None = None
    scaling: RotaryScalingSpec | None = None

    rotate: ClassVar[Turn] = staticmethod(rotate_halves)

    def check(self) -> None:
        self.require(self.base > 0, "base", "it must be positive")
        even = self.d_rotary is None or (self.d_rotary > 0 and self.d_rotary % 2 == 0)
        self.require(even, "d_rotary", "rotary embedding turns pairs, so it must be even and positive")
        self.require(self.scaling is None or self.base > 1, "base", "with a scaling it must be above 1")

    def check_width(self, d_head: int) -> None:
        """SpecError where a head of this width cannot be turned."""
        d_rotary = self.d_rotary or d_head
        self.require(d_rotary <= d_head, "d_rotary", f"a head has {d_head} numbers")
        if d_rotary % 2:
            raise SpecError(f"d_head is {d_head}; rotary embedding turns pairs, so it must be even")
        if self.scaling is not None:
            self.scaling.check_pairs(d_rotary // 2)

    def build_for(self, n_heads: int, n_kv_heads: int, d_head: int, place: Place) -> Rotary:
        return Rotary(self, n_heads, n_kv_heads, d_head, place)


@dataclass(frozen=True)
class NeighbourRotarySpec(RotarySpec):
    rotate: ClassVar[Turn] = staticmethod(rotate_neighbours)
