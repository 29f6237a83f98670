"""Multi-head latent attention (DeepSeek-AI 2024, DeepSeek-V2, section 2.1): keys and values of all heads are expanded
from one small latent, which is all that a memory keeps, beside one rotated key that the heads share.

    c_q        = norm(W_DQ x)                           hook_q_latent, where queries have a latent
    q          = W_UQ c_q, or W_Q x                     hook_q            [head, d_nope + d_rope]
    q          = its last d_rope numbers rotated        hook_rot_q
    c_kv       = norm(W_DKV x)                          hook_kv_latent    (equations 1, 39)
    k_rope     = W_KR x                                 hook_k_rope       (equation 43), before its rotation
    k          = [W_UK c_kv, rotate(k_rope)]            (equations 42, 44)
    v          = W_UV c_kv                              (equation 45)
    z          = attend(q, k, v)                        see `dot_product`
    write      = W_O z

Keys and values are linear in the latent, so they are no sites of their own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import torch
from einops import einsum, rearrange
from jaxtyping import Float
from torch import Tensor

from ..errors import SpecError
from ..sites import Place, Site
from ..spec import Component, ComponentSpec
from .dot_product import DotProduct, Keys, Queries, Values
from .linear import Linear, WriteLinear
from .memory import Kept
from .norms import Norm, NormSpec, RMSNormSpec
from .pass_ import Pass
from .rotary import RotarySpec, Rotation


class DirectQuery(Component):
    """W_Q x"""

    def __init__(self, spec: LatentAttentionSpec, d_model: int, place: Place):
        super().__init__()
        self.up = Linear(d_model, spec.n_heads * spec.d_head, bias=False)

    def forward(self, x: Float[Tensor, "batch pos d_model"], at: Pass) -> Float[Tensor, "batch pos width"]:
        return self.up(x)


class LatentQuery(Component):
    """W_UQ norm(W_DQ x)"""

    def __init__(self, spec: LatentAttentionSpec, d_latent: int, d_model: int, place: Place):
        super().__init__()
        self.down = Linear(d_model, d_latent, bias=spec.bias)
        self.norm = cast(Norm, spec.norm.build(d_latent, Place()))
        self.up = Linear(d_latent, spec.n_heads * spec.d_head, bias=False)
        self.hook_q_latent = place.site("hook_q_latent", "batch pos d_latent", d_latent=d_latent)
        self.sites = (self.hook_q_latent,)

    def forward(self, x: Float[Tensor, "batch pos d_model"], at: Pass) -> Float[Tensor, "batch pos width"]:
        return self.up(at(self.hook_q_latent, self.norm.normed(self.down(x))))


class LatentAttention(DotProduct):
    """Every head has keys and values of its own, expanded from the latent where they are needed."""

    looked_at = ("latent", "k_rope")

    def __init__(self, spec: LatentAttentionSpec, d_model: int, place: Place):
        heads, d_head, d_latent = spec.n_heads, spec.d_head, spec.d_latent
        super().__init__(
            place,
            n_heads=heads,
            n_kv_heads=heads,
            d_value=spec.d_value,
            n_looked_at=heads * d_head + d_latent + spec.d_rope,
            scale=d_head**-0.5 if spec.scale is None else spec.scale,
        )
        self.spec = spec
        if spec.d_latent_q is None:
            self.q = DirectQuery(spec, d_model, place)
        else:
            self.q = LatentQuery(spec, spec.d_latent_q, d_model, place)
        self.kv_down = Linear(d_model, d_latent + spec.d_rope, bias=spec.bias)
        self.kv_norm = cast(Norm, spec.norm.build(d_latent, Place()))
        self.kv_up = Linear(d_latent, heads * (spec.d_nope + spec.d_value), bias=False)
        self.o = WriteLinear(heads * spec.d_value, d_model, bias=spec.bias)
        self.rotation = Rotation(spec.rotary, spec.d_rope)

        self.hook_q = place.site("hook_q", "batch pos head d_head", head=heads, d_head=d_head)
        self.hook_kv_latent = place.site("hook_kv_latent", "batch pos d_latent", d_latent=d_latent)
        self.hook_k_rope = place.site("hook_k_rope", "batch pos d_latent", d_latent=spec.d_rope)
        self.hook_rot_q = place.site("hook_rot_q", "batch pos head d_head", head=heads, d_head=d_head)
        projected = (*self.q.sites, self.hook_q, self.hook_kv_latent, self.hook_k_rope, self.hook_rot_q)
        self.sites = (*projected, *self.pattern_sites, self.hook_z)

    # Weights, as views of the parameters. There are no matrices from the stream to the keys and values of a head.

    @property
    def W_DKV(self) -> Float[Tensor, "d_model d_latent"]:
        return self.kv_down.weight[: self.spec.d_latent].T

    @property
    def W_KR(self) -> Float[Tensor, "d_model d_rope"]:
        return self.kv_down.weight[self.spec.d_latent :].T

    @property
    def W_UK(self) -> Float[Tensor, "head d_latent d_nope"]:
        return self._up_per_head()[..., : self.spec.d_nope]

    @property
    def W_UV(self) -> Float[Tensor, "head d_latent d_value"]:
        return self._up_per_head()[..., self.spec.d_nope :]

    def _up_per_head(self) -> Float[Tensor, "head d_latent both"]:
        return rearrange(self.kv_up.weight, "(head both) d_latent -> head d_latent both", head=self.spec.n_heads)

    @property
    def W_Q(self) -> Float[Tensor, "head d_model d_head"]:
        if self.spec.d_latent_q is not None:
            raise SpecError("the queries here have a latent: W_DQ and W_UQ stand in place of W_Q")
        return rearrange(self.q.up.weight, "(head d) d_model -> head d_model d", head=self.spec.n_heads)

    @property
    def W_DQ(self) -> Float[Tensor, "d_model d_latent"]:
        if self.spec.d_latent_q is None:
            raise SpecError("the queries here have no latent: there is W_Q, and no W_DQ or W_UQ")
        return self.q.down.weight.T

    @property
    def W_UQ(self) -> Float[Tensor, "head d_latent d_head"]:
        if self.spec.d_latent_q is None:
            raise SpecError("the queries here have no latent: there is W_Q, and no W_DQ or W_UQ")
        return rearrange(self.q.up.weight, "(head d) d_latent -> head d_latent d", head=self.spec.n_heads)

    @property
    def W_K(self) -> Tensor:
        raise SpecError("keys here are expanded from a latent: W_DKV and W_UK, and W_KR, stand in place of W_K")

    @property
    def W_V(self) -> Tensor:
        raise SpecError("values here are expanded from a latent: W_DKV and W_UV stand in place of W_V")

    @property
    def W_O(self) -> Float[Tensor, "head d_value d_model"]:
        return rearrange(self.o.weight, "d_model (head d) -> head d d_model", head=self.spec.n_heads)

    @property
    def b_O(self) -> Float[Tensor, " d_model"]:
        return self.o.bias_or_zeros()

    def forward(self, x: Float[Tensor, "batch pos d_model"], at: Pass) -> Float[Tensor, "onward pos d_model"]:
        return self.o(rearrange(self.mixed(x, at), "batch pos head d -> batch pos (head d)"))

    def project(self, x: Float[Tensor, "batch pos d_model"], at: Pass) -> tuple[Queries, Kept]:
        """Queries, and the latent and the shared key that all heads' keys and values are made of."""
        spec = self.spec
        q = at(self.hook_q, rearrange(self.q(x, at), "batch pos (head d) -> batch pos head d", head=spec.n_heads))
        down, rope = self.kv_down(x).split([spec.d_latent, spec.d_rope], dim=-1)
        latent = at(self.hook_kv_latent, self.kv_norm.normed(down))
        rope = at(self.hook_k_rope, rope.contiguous())
        cos, sin = self.rotation.table(at)
        q_nope, q_rope = q.split([spec.d_nope, spec.d_rope], dim=-1)
        q = at(self.hook_rot_q, torch.cat([q_nope, self.rotation.turn(q_rope, cos, sin)], dim=-1))
        return q, {"latent": latent, "k_rope": self.rotation.turn(rope[:, :, None], cos, sin)}

    @property
    def value_site(self) -> Site:
        """Where what the values are made of can be read."""
        return self.hook_kv_latent

    def values(self, read: Float[Tensor, "*batch pos d_latent"]) -> Float[Tensor, "*batch pos head d_value"]:
        """The values, of what was read there."""
        return einsum(read, self.W_UV, "... d_latent, head d_latent d_value -> ... head d_value")

    def keys(self, kept: Kept) -> Keys:
        return self.keys_and_values(kept)[0]

    def keys_and_values(self, kept: Kept) -> tuple[Keys, Values]:
        spec = self.spec
        up = rearrange(self.kv_up(kept["latent"]), "batch key (head both) -> batch key head both", head=spec.n_heads)
        k_nope, v = up.split([spec.d_nope, spec.d_value], dim=-1)
        return torch.cat([k_nope, kept["k_rope"].expand(-1, -1, spec.n_heads, -1)], dim=-1), v


@dataclass(frozen=True)
class LatentAttentionSpec(ComponentSpec):
    """Multi-head latent attention.

    d_latent:   width of the latent of keys and values.
    d_latent_q: width of the queries' latent; None where they are projected directly.
    d_nope:     numbers of a query and a key that are not rotated;  d_rope: those that are, the key's shared by heads.
    d_value:    numbers of a value.
    norm:       of the latents.
    bias:       whether the projections from and to the stream have one.
    """

    n_heads: int
    d_latent: int
    d_nope: int
    d_rope: int
    d_value: int
    rotary: RotarySpec
    d_latent_q: int | None = None
    norm: NormSpec = field(default_factory=lambda: RMSNormSpec(1e-6))
    bias: bool = False
    scale: float | None = None

    @property
    def n_kv_heads(self) -> int:
        """Every head has keys and values of its own, once they are expanded."""
        return self.n_heads

    @property
    def d_head(self) -> int:
        """Of queries and keys."""
        return self.d_nope + self.d_rope

    @property
    def n_kept(self) -> int:
        """The latent and the shared key, of which every head's keys and values are made."""
        return self.d_latent + self.d_rope

    @property
    def n_mixed(self) -> int:
        return self.n_heads * (self.d_head + self.d_value)

    @property
    def label(self) -> str:
        return "MLA"

    def check(self) -> None:
        for size in ("n_heads", "d_latent", "d_nope", "d_rope", "d_value"):
            self.require(getattr(self, size) > 0, size, "it must be positive")
        self.require(self.d_latent_q is None or self.d_latent_q > 0, "d_latent_q", "it must be positive")
        self.rotary.check_width(self.d_rope)

    def build(self, d_model: int, place: Place) -> LatentAttention:
        return LatentAttention(self, d_model, place)
