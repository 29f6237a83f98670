"""Multi-head attention, with as many key-value heads as the spec says (MHA, GQA, MQA).

    q, k, v = split(W x + b)                    hook_q, hook_k, hook_v
    q, k    = rotate(q, k)                      hook_rot_q, hook_rot_k
    scores  = q . k / sqrt(d_head), -inf where masked       hook_attn_scores
    pattern = softmax(scores)                   hook_pattern
    z       = pattern v                         hook_z
    write   = W_O z + b_O

Scores and pattern are only made where a hook asks for them. Otherwise a fused kernel gives z, and whoever looks
at the weights later has them computed from the same queries and keys.
"""

from __future__ import annotations

from dataclasses import dataclass

from einops import rearrange
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from ..sites import Place
from ..spec import Component, ComponentSpec
from .linear import Linear, WriteLinear
from .masks import Visibility
from .memory import Kept
from .pass_ import Pass
from .precision import at_least_float32
from .rotary import NoRotary, RotarySpec


class Attention(Component):
    """Query head h reads key-value head h // (n_heads / n_kv_heads) (Ainslie et al. 2023)."""

    looked_at: tuple[str, ...] = ("k",)
    window: int | None

    def __init__(self, spec: AttentionSpec, d_model: int, place: Place):
        super().__init__()
        heads, kv_heads, d_head = spec.n_heads, spec.n_kv_heads, spec.d_head
        self.spec = spec
        self.layer = place.layer or 0
        self.window = spec.window
        self.scale = spec.d_head**-0.5 if spec.scale is None else spec.scale
        self.q = Linear(d_model, heads * d_head, bias=spec.bias)
        self.k = Linear(d_model, kv_heads * d_head, bias=spec.bias)
        self.v = Linear(d_model, kv_heads * d_head, bias=spec.bias)
        self.o = WriteLinear(heads * d_head, d_model, bias=spec.bias_out)
        self.rotary = spec.rotary.build_for(heads, kv_heads, d_head, place) if spec.rotary else NoRotary()

        self.hook_q = place.site("hook_q", "batch pos head d_head", head=heads, d_head=d_head)
        self.hook_k = place.site("hook_k", "batch pos kv_head d_head", kv_head=kv_heads, d_head=d_head)
        self.hook_v = place.site("hook_v", "batch pos kv_head d_head", kv_head=kv_heads, d_head=d_head)
        q_and_k = (heads + kv_heads) * d_head
        self.hook_attn_scores = place.site("hook_attn_scores", "batch head query key", width=q_and_k, head=heads)
        self.hook_pattern = place.site("hook_pattern", "batch head query key", width=q_and_k, head=heads)
        self.hook_z = place.site("hook_z", "batch pos head d_head", head=heads, d_head=d_head)
        projected = (self.hook_q, self.hook_k, self.hook_v, *self.rotary.sites)
        self.sites = (*projected, self.hook_attn_scores, self.hook_pattern, self.hook_z)

    # Weights per head, as views of the parameters.

    def _per_head(self, projection: Linear) -> Float[Tensor, "heads d_model d_head"]:
        return rearrange(projection.weight, "(head d_head) d_model -> head d_model d_head", d_head=self.spec.d_head)

    def _bias_per_head(self, projection: Linear) -> Float[Tensor, "heads d_head"]:
        return rearrange(projection.bias_or_zeros(), "(head d_head) -> head d_head", d_head=self.spec.d_head)

    @property
    def W_Q(self) -> Float[Tensor, "head d_model d_head"]:
        return self._per_head(self.q)

    @property
    def W_K(self) -> Float[Tensor, "kv_head d_model d_head"]:
        return self._per_head(self.k)

    @property
    def W_V(self) -> Float[Tensor, "kv_head d_model d_head"]:
        return self._per_head(self.v)

    @property
    def W_O(self) -> Float[Tensor, "head d_head d_model"]:
        return rearrange(self.o.weight, "d_model (head d_head) -> head d_head d_model", d_head=self.spec.d_head)

    @property
    def b_Q(self) -> Float[Tensor, "head d_head"]:
        return self._bias_per_head(self.q)

    @property
    def b_K(self) -> Float[Tensor, "kv_head d_head"]:
        return self._bias_per_head(self.k)

    @property
    def b_V(self) -> Float[Tensor, "kv_head d_head"]:
        return self._bias_per_head(self.v)

    @property
    def b_O(self) -> Float[Tensor, " d_model"]:
        return self.o.bias_or_zeros()

    def forward(self, x: Float[Tensor, "batch pos d_model"], at: Pass) -> Float[Tensor, "batch pos d_model"]:
        q, new = self.project(x, at)
        z = at(self.hook_z, at.attend(self, q, new))
        return self.o(rearrange(z, "batch pos head d_head -> batch pos (head d_head)"))

    def project(self, x: Float[Tensor, "batch pos d_model"], at: Pass) -> tuple[Tensor, Kept]:
        """Queries, and what a memory keeps of these positions: keys as they are attended to, and values."""
        q = at(self.hook_q, self._split(self.q(x)))
        k = at(self.hook_k, self._split(self.k(x)))
        v = at(self.hook_v, self._split(self.v(x)))
        q, k = self.rotary(q, k, at)
        return q, {"k": k, "v": v}

    def attend(
        self, q: Float[Tensor, "batch query head d_head"], kept: Kept, visible: Visibility, at: Pass
    ) -> tuple[Float[Tensor, "batch query head d_head"], Float[Tensor, "batch head query key"] | None]:
        """z, and the pattern where a hook made it explicit."""
        if not at.wants(self.hook_attn_scores, self.hook_pattern):
            return self._fused(q, kept, visible), None
        scores = at(self.hook_attn_scores, self.scores(q, kept, visible), settle=visible.hide_)
        pattern = at(self.hook_pattern, self._softmax(scores, visible))
        return self._mix(pattern, kept["v"]), pattern

    def scores(
        self, q: Float[Tensor, "batch query head d_head"], kept: Kept, visible: Visibility
    ) -> Float[Tensor, "batch head query key"]:
        """q . k / sqrt(d_head), -inf where masked. The query heads of a group share one product with its keys."""
        queries = rearrange(
            q * self.scale, "batch query (kv group) d -> batch kv (group query) d", kv=self.spec.n_kv_heads
        )
        keys = rearrange(kept["k"], "batch key kv d -> batch kv d key")
        scores = rearrange(queries @ keys, "batch kv (group query) key -> batch (kv group) query key", query=q.shape[1])
        return visible.hide_(scores)

    def weights(
        self, q: Float[Tensor, "batch query head d_head"], kept: Kept, visible: Visibility
    ) -> Float[Tensor, "batch head query key"]:
        """The pattern of queries and keys that nobody edited."""
        return self._softmax(self.scores(q, kept, visible), visible)

    def _split(self, x: Float[Tensor, "batch pos width"]) -> Float[Tensor, "batch pos heads d_head"]:
        return rearrange(x, "batch pos (head d_head) -> batch pos head d_head", d_head=self.spec.d_head)

    def _softmax(self, scores: Tensor, visible: Visibility) -> Float[Tensor, "batch head query key"]:
        """In float32, as every published implementation does."""
        return visible.zero(scores.softmax(-1, dtype=at_least_float32(scores)).to(scores.dtype))

    def _mix(
        self, pattern: Float[Tensor, "batch head query key"], v: Float[Tensor, "batch key kv_head d_head"]
    ) -> Float[Tensor, "batch query head d_head"]:
        grouped = rearrange(
            pattern, "batch (kv group) query key -> batch kv (group query) key", kv=self.spec.n_kv_heads
        )
        z = grouped @ rearrange(v, "batch key kv d -> batch kv key d")
        return rearrange(z, "batch kv (group query) d -> batch query (kv group) d", query=pattern.shape[2]).contiguous()

    def _fused(self, q: Tensor, kept: Kept, visible: Visibility) -> Float[Tensor, "batch query head d_head"]:
        z = F.scaled_dot_product_attention(
            q.transpose(1, 2),
            kept["k"].transpose(1, 2),
            kept["v"].transpose(1, 2),
            attn_mask=None if visible.causal else visible.mask[:, None],
            is_causal=visible.causal,
            scale=self.scale,
            enable_gqa=self.spec.n_kv_heads != self.spec.n_heads,
        )
        return z.transpose(1, 2)


@dataclass(frozen=True)
class AttentionSpec(ComponentSpec):
    """Multi-head attention.

    n_kv_heads: key-value heads; n_heads of them is MHA, 1 is MQA, between is GQA.
    bias:       whether q, k and v have one;  bias_out: whether the output projection has one.
    window:     how many positions back a query sees, itself included; None for all.
    scale:      what scores are multiplied by; None for 1/sqrt(d_head).
    """

    n_heads: int
    n_kv_heads: int
    d_head: int
    rotary: RotarySpec | None = None
    bias: bool = False
    bias_out: bool = False
    window: int | None = None
    scale: float | None = None

    def check(self) -> None:
        for field in ("n_heads", "n_kv_heads", "d_head"):
            self.require(getattr(self, field) > 0, field, "it must be positive")
        self.require(self.n_heads % self.n_kv_heads == 0, "n_kv_heads", f"it must divide n_heads, {self.n_heads}")
        self.require(self.rotary is None or self.d_head % 2 == 0, "d_head", "rotary embedding turns pairs")
        self.require(self.window is None or self.window > 0, "window", "it must be positive")

    def build(self, d_model: int, place: Place) -> Attention:
        return Attention(self, d_model, place)
