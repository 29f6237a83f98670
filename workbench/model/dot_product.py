"""Scaled dot-product attention: what every attention of the workbench does with its queries, keys and values.

    scores  = cap(q . k x scale), -inf where masked         hook_attn_scores
    pattern = softmax(scores), perhaps beside a sink        hook_sink, hook_pattern
    z       = pattern v                                     hook_z

Scores and pattern are only made where a hook asks for them, or where no fused kernel knows them: with a softcap or a
sink. Otherwise a fused kernel gives z, and whoever looks at the weights later has them computed from the same
queries and keys.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Protocol

from einops import rearrange
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from ..sites import Place, Site
from ..spec import Component
from .masks import Visibility
from .memory import Kept
from .pass_ import Pass
from .softcap import softcap_of
from .softmax import Softmax, SoftmaxWithSink

Queries = Float[Tensor, "batch query head d_head"]
Keys = Float[Tensor, "batch key kv_head d_head"]
Values = Float[Tensor, "batch key kv_head d_value"]
Z = Float[Tensor, "batch query head d_value"]


class Kernel(Protocol):
    """z of one layer, without showing scores and pattern to anyone."""

    def __call__(self, attention: DotProduct, q: Queries, k: Keys, v: Values, visible: Visibility, at: Pass) -> Z: ...


class DotProduct(Component):
    """A subclass makes queries and what is to be kept, and says which keys and values that is.

    Query head h reads key-value head h // (n_heads / n_kv_heads) (Ainslie et al. 2023).
    """

    looked_at: tuple[str, ...]  # what of the kept tensors the weights are made of
    window: int | None = None

    def __init__(
        self,
        place: Place,
        *,
        n_heads: int,
        n_kv_heads: int,
        d_value: int,
        n_looked_at: int,
        scale: float,
        softcap: float | None = None,
        sink: bool = False,
    ):
        """n_looked_at: how many numbers of queries and keys a token's weights are made of."""
        super().__init__()
        self.layer = place.layer or 0
        self.n_kv_heads, self.grouped = n_kv_heads, n_kv_heads != n_heads
        self.scale, self.cap = scale, softcap_of(softcap)
        self.sink = SoftmaxWithSink(n_heads, place) if sink else Softmax()
        self.kernel: Kernel = fused if softcap is None and not sink else unfused
        self.hook_attn_scores = place.site("hook_attn_scores", "batch head query key", width=n_looked_at, head=n_heads)
        self.hook_pattern = place.site("hook_pattern", "batch head query key", width=n_looked_at, head=n_heads)
        self.hook_z = place.site("hook_z", "batch pos head d_head", head=n_heads, d_head=d_value)
        self.pattern_sites = (self.hook_attn_scores, *self.sink.sites, self.hook_pattern)

    @abstractmethod
    def project(self, x: Float[Tensor, "batch pos d_model"], at: Pass) -> tuple[Queries, Kept]:
        """Queries, and what a memory keeps of these positions."""

    @abstractmethod
    def keys(self, kept: Kept) -> Keys: ...

    @property
    @abstractmethod
    def value_site(self) -> Site:
        """Where what the values are made of can be read."""

    @abstractmethod
    def values(self, read: Tensor) -> Float[Tensor, "*batch pos kv_head d_value"]:
        """The values, of what was read there."""

    @abstractmethod
    def keys_and_values(self, kept: Kept) -> tuple[Keys, Values]: ...

    def mixed(self, x: Float[Tensor, "batch pos d_model"], at: Pass) -> Float[Tensor, "onward query head d_value"]:
        """What each head gathers from the positions that it sees."""
        q, new = self.project(x, at)
        return at(self.hook_z, at.attend(self, q, new))

    def attend(
        self, q: Queries, kept: Kept, visible: Visibility, at: Pass
    ) -> tuple[Z, Float[Tensor, "batch head query key"] | None]:
        """z, and the pattern where a hook made it explicit."""
        return self.attend_to(q, *self.keys_and_values(kept), visible, at)

    def attend_to(
        self, q: Queries, k: Keys, v: Values, visible: Visibility, at: Pass
    ) -> tuple[Z, Float[Tensor, "batch head query key"] | None]:
        """The same, with keys and values made."""
        if not at.wants(*self.pattern_sites):
            return self.kernel(self, q, k, v, visible, at), None
        scores = at(self.hook_attn_scores, self.scores_with(q, k, visible), settle=visible.hide_)
        pattern = at(self.hook_pattern, self.sink(scores, visible, at))
        return self.mix(pattern, v), pattern

    def scores(self, q: Queries, kept: Kept, visible: Visibility) -> Float[Tensor, "batch head query key"]:
        return self.scores_with(q, self.keys(kept), visible)

    def weights(self, q: Queries, kept: Kept, visible: Visibility) -> Float[Tensor, "batch head query key"]:
        """The pattern of queries and keys that nobody edited."""
        return self.sink.plain(self.scores(q, kept, visible), visible)

    def scores_with(self, q: Queries, k: Keys, visible: Visibility) -> Float[Tensor, "batch head query key"]:
        """The query heads of a group share one product with its keys."""
        queries = rearrange(q * self.scale, "batch query (kv group) d -> batch kv (group query) d", kv=self.n_kv_heads)
        keys = rearrange(k, "batch key kv d -> batch kv d key")
        scores = rearrange(queries @ keys, "batch kv (group query) key -> batch (kv group) query key", query=q.shape[1])
        return visible.hide_(self.cap(scores))

    def mix(self, pattern: Float[Tensor, "batch head query key"], v: Values) -> Z:
        grouped = rearrange(pattern, "batch (kv group) query key -> batch kv (group query) key", kv=self.n_kv_heads)
        z = grouped @ rearrange(v, "batch key kv d -> batch kv key d")
        return rearrange(z, "batch kv (group query) d -> batch query (kv group) d", query=pattern.shape[2]).contiguous()


def fused(attention: DotProduct, q: Queries, k: Keys, v: Values, visible: Visibility, at: Pass) -> Z:
    """torch's kernel, which makes nothing of size query x key."""
    z = F.scaled_dot_product_attention(
        q.transpose(1, 2),
        k.transpose(1, 2),
        v.transpose(1, 2),
        attn_mask=None if visible.causal else visible.mask[:, None],
        is_causal=visible.causal,
        scale=attention.scale,
        enable_gqa=attention.grouped,
    )
    return z.transpose(1, 2)


def unfused(attention: DotProduct, q: Queries, k: Keys, v: Values, visible: Visibility, at: Pass) -> Z:
    """For scores that torch's kernel cannot make: capped, or beside a sink."""
    return attention.mix(attention.sink(attention.scores_with(q, k, visible), visible, at), v)
