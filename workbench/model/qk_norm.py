"""Norms of queries and keys, between their projection and their rotation (Henry et al. 2020; Dehghani et al. 2023).

    QKNormSpec            every head normed over its d_head, the gain shared by all heads (Qwen 3, Gemma 3)
    QKNormEachHeadSpec    the same with a gain for each head (StableLM 2)
    QKNormAllHeadsSpec    all heads normed together, over n_heads x d_head (OLMo 2); this couples the heads

Whatever the norm, its output is seen at hook_q_normed and hook_k_normed, and it has no other sites.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..sites import Place
from ..spec import Component, Spec
from .norms import Norm, NormSpec
from .pass_ import Pass

Heads = Float[Tensor, "batch pos heads d_head"]


class SharedHeadNorm(nn.Module):
    """One gain, applied to every head."""

    def __init__(self, norm: NormSpec, n_heads: int, d_head: int):
        super().__init__()
        self.norm = cast(Norm, norm.build(d_head, Place()))

    def forward(self, x: Heads) -> Heads:
        return self.norm.normed(x)


class EachHeadNorm(nn.Module):
    """A gain for each head, kept apart as files have them."""

    def __init__(self, norm: NormSpec, n_heads: int, d_head: int):
        super().__init__()
        self.heads = cast(Sequence[Norm], nn.ModuleList(norm.build(d_head, Place()) for _ in range(n_heads)))

    def forward(self, x: Heads) -> Heads:
        return torch.stack([norm.normed(head) for norm, head in zip(self.heads, x.unbind(2), strict=True)], dim=2)


class AllHeadsNorm(nn.Module):
    """One norm over all heads together."""

    def __init__(self, norm: NormSpec, n_heads: int, d_head: int):
        super().__init__()
        self.norm = cast(Norm, norm.build(n_heads * d_head, Place()))

    def forward(self, x: Heads) -> Heads:
        return self.norm.normed(x.flatten(-2)).unflatten(-1, x.shape[-2:])


class QKNorm(Component):
    """Normed queries and keys, each with parameters of its own."""

    def __init__(self, q: nn.Module, k: nn.Module, n_heads: int, n_kv_heads: int, d_head: int, place: Place):
        super().__init__()
        self.q, self.k = q, k
        self.hook_q_normed = place.site("hook_q_normed", "batch pos head d_head", head=n_heads, d_head=d_head)
        self.hook_k_normed = place.site("hook_k_normed", "batch pos kv_head d_head", kv_head=n_kv_heads, d_head=d_head)
        self.sites = (self.hook_q_normed, self.hook_k_normed)

    def forward(self, q: Tensor, k: Tensor, at: Pass) -> tuple[Tensor, Tensor]:
        return at(self.hook_q_normed, self.q(q)), at(self.hook_k_normed, self.k(k))


class NoQKNorm(Component):
    """Queries and keys as they are."""

    def forward(self, q: Tensor, k: Tensor, at: Pass) -> tuple[Tensor, Tensor]:
        return q, k


@dataclass(frozen=True)
class QKNormSpec(Spec):
    """norm: what is applied, e.g. RMSNormSpec(1e-6)."""

    norm: NormSpec

    def build_for(self, n_heads: int, n_kv_heads: int, d_head: int, place: Place) -> QKNorm:
        q, k = self._of(n_heads, d_head), self._of(n_kv_heads, d_head)
        return QKNorm(q, k, n_heads, n_kv_heads, d_head, place)

    def _of(self, n_heads: int, d_head: int) -> nn.Module:
        return SharedHeadNorm(self.norm, n_heads, d_head)


@dataclass(frozen=True)
class QKNormEachHeadSpec(QKNormSpec):
    def _of(self, n_heads: int, d_head: int) -> nn.Module:
        return EachHeadNorm(self.norm, n_heads, d_head)


@dataclass(frozen=True)
class QKNormAllHeadsSpec(QKNormSpec):
    def _of(self, n_heads: int, d_head: int) -> nn.Module:
        return AllHeadsNorm(self.norm, n_heads, d_head)
