"""Multi-head attention, with as many key-value heads as the spec says (MHA, GQA, MQA).

q, k, v = split(W x + b)          hook_q, hook_k, hook_v
q, k    = norm(q, k)              hook_q_normed, hook_k_normed, where there is a QK-norm
q, k    = rotate(q, k)            hook_rot_q, hook_rot_k, where there is a rotation
z       = attend(q, k, v)         see `dot_product`
write   = W_O z + b_O
"""

from __future__ import annotations

from dataclasses import dataclass

from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from ..sites import Place, Site
from ..spec import ComponentSpec
from .dot_product import DotProduct, Keys, Queries, Values
from .linear import Linear, WriteLinear
from .memory import Kept
from .pass_ import Pass
from .qk_norm import NoQKNorm, QKNormSpec
from .rotary import NoRotary, RotarySpec


class Attention(DotProduct):
    """Queries, keys and values, each a projection of what is read."""

    looked_at = ("k",)

    def __init__(self, spec: AttentionSpec, d_model: int, place: Place):
        heads, kv_heads, d_head = spec.n_heads, spec.n_kv_heads, spec.d_head
        super().__init__(
            place,
            n_heads=heads,
            n_kv_heads=kv_heads,
            d_value=d_head,
            n_looked_at=(heads + kv_heads) * d_head,
            scale=d_head**-0.5 if spec.scale is None else spec.scale,
            softcap=spec.softcap,
            sink=spec.sink,
        )
        self.spec, self.window = spec, spec.window
        self.q = Linear(d_model, heads * d_head, bias=spec.bias)
        self.k = Linear(d_model, kv_heads * d_head, bias=spec.bias)
        self.v = Linear(d_model, kv_heads * d_head, bias=spec.bias)
        self.o = WriteLinear(heads * d_head, d_model, bias=spec.bias_out)
        self.qk_norm = spec.qk_norm.build_for(heads, kv_heads, d_head, place) if spec.qk_norm else NoQKNorm()
        self.rotary = spec.rotary.build_for(heads, kv_heads, d_head, place) if spec.rotary else NoRotary()

        self.hook_q = place.site("hook_q", "batch pos head d_head", head=heads, d_head=d_head)
        self.hook_k = place.site("hook_k", "batch pos kv_head d_head", kv_head=kv_heads, d_head=d_head)
        self.hook_v = place.site("hook_v", "batch pos kv_head d_head", kv_head=kv_heads, d_head=d_head)
        projected = (self.hook_q, self.hook_k, self.hook_v, *self.qk_norm.sites, *self.rotary.sites)
        self.sites = (*projected, *self.pattern_sites, self.hook_z)

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

    def forward(self, x: Float[Tensor, "batch pos d_model"], at: Pass) -> Float[Tensor, "onward pos d_model"]:
        return self.o(rearrange(self.mixed(x, at), "batch pos head d_head -> batch pos (head d_head)"))

    def project(self, x: Float[Tensor, "batch pos d_model"], at: Pass) -> tuple[Queries, Kept]:
        """Queries, and keys as they are attended to, and values."""
        q = at(self.hook_q, self._split(self.q(x)))
        k = at(self.hook_k, self._split(self.k(x)))
        v = at(self.hook_v, self._split(self.v(x)))
        q, k = self.qk_norm(q, k, at)
        q, k = self.rotary(q, k, at)
        return q, {"k": k, "v": v}

    @property
    def value_site(self) -> Site:
        """Where what the values are made of can be read."""
        return self.hook_v

    def values(self, read: Float[Tensor, "*batch pos kv_head d_head"]) -> Float[Tensor, "*batch pos kv_head d_head"]:
        """The values, of what was read there."""
        return read

    def keys(self, kept: Kept) -> Keys:
        return kept["k"]

    def keys_and_values(self, kept: Kept) -> tuple[Keys, Values]:
        return kept["k"], kept["v"]

    def _split(self, x: Float[Tensor, "batch pos width"]) -> Float[Tensor, "batch pos heads d_head"]:
        return rearrange(x, "batch pos (head d_head) -> batch pos head d_head", d_head=self.spec.d_head)


@dataclass(frozen=True)
class AttentionSpec(ComponentSpec):
    """Multi-head attention.

    n_kv_heads: key-value heads; n_heads of them is MHA, 1 is MQA, between is GQA.
    rotary:     the rotation of queries and keys; None for none.
    bias:       whether q, k and v have one;  bias_out: whether the output projection has one.
    window:     how many positions back a query sees, itself included; None for all.
    scale:      what scores are multiplied by; None for 1/sqrt(d_head).
    qk_norm:    the norm of queries and keys before they are rotated; None for none.
    softcap:    scores are squeezed into (-softcap, softcap); None for no cap.
    sink:       whether each head has a learned sink, which takes a share of every query.
    """

    n_heads: int
    n_kv_heads: int
    d_head: int
    rotary: RotarySpec | None = None
    bias: bool = False
    bias_out: bool = False
    window: int | None = None
    scale: float | None = None
    qk_norm: QKNormSpec | None = None
    softcap: float | None = None
    sink: bool = False

    def check(self) -> None:
        for field in ("n_heads", "n_kv_heads", "d_head"):
            self.require(getattr(self, field) > 0, field, "it must be positive")
        self.require(self.n_heads % self.n_kv_heads == 0, "n_kv_heads", f"it must divide n_heads, {self.n_heads}")
        self.require(self.window is None or self.window > 0, "window", "it must be positive")
        self.require(self.softcap is None or self.softcap > 0, "softcap", "it must be positive")
        if self.rotary is not None:
            self.rotary.check_width(self.d_head)

    @property
    def n_kept(self) -> int:
        """A key and a value for each key-value head."""
        return 2 * self.n_kv_heads * self.d_head

    @property
    def n_mixed(self) -> int:
        return self.n_heads * 2 * self.d_head

    @property
    def reach(self) -> int | None:
        return self.window

    @property
    def label(self) -> str:
        kind = "MHA" if self.n_kv_heads == self.n_heads else "MQA" if self.n_kv_heads == 1 else "GQA"
        return kind if self.window is None else f"{kind}, window {self.window}"

    def build(self, d_model: int, place: Place) -> Attention:
        return Attention(self, d_model, place)
