"""Mixture of experts (Shazeer et al. 2017; Fedus et al. 2021): each token goes to a few feed-forwards of many.

    weights = router(x)                                 hook_router_logits, hook_expert_weights
    write   = sum over chosen experts of weight x expert(x)  (+ what shared experts add, hook_shared_out)

Dispatch follows hook_expert_weights where it is not 0, so an edit there sends tokens elsewhere; only those experts
compute, each on its own tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..sites import Place
from ..spec import Component, ComponentSpec
from .linear import Linear
from .mlp import FeedForwardSpec
from .pass_ import Pass
from .router import Router, RouterSpec

# Experts are computed together, as one batched product, while that does not multiply more than this many times the
# rows that there are; with few tokens or one favourite expert, one by one. The first reads weights much faster.
_MOST_WASTE = 4


class MixtureOfExperts(Component):
    """experts: one feed-forward with weights for each, `blocks[3].mlp.experts.W_in` [expert d_model d_mlp]."""

    def __init__(self, spec: MixtureOfExpertsSpec, d_model: int, place: Place):
        super().__init__()
        self.spec = spec
        self.router = Router(spec.router, d_model, place)
        self.experts = spec.expert.build_experts(spec.router.n_experts, d_model)
        self.shared = spec.shared.build(d_model, place) if spec.shared else NoSharedExperts()
        self.sites = (*self.router.sites, *self.shared.sites)

    def forward(self, x: Float[Tensor, "batch pos d_model"], at: Pass) -> Float[Tensor, "batch pos d_model"]:
        routed = self.routed(x.flatten(0, 1), self.router(x, at).flatten(0, 1))
        return self.shared(x, routed.view(x.shape), at)

    def routed(
        self, x: Float[Tensor, "token d_model"], weights: Float[Tensor, "token expert"]
    ) -> Float[Tensor, "token d_model"]:
        """The weighted sum of what the chosen experts write."""
        token, _, written = self.each(x, weights)
        return x.new_zeros(x.shape).index_add(0, token, written)

    def each(
        self, x: Float[Tensor, "token d_model"], weights: Float[Tensor, "token expert"]
    ) -> tuple[Tensor, Tensor, Float[Tensor, "chosen d_model"]]:
        """Token, expert and weighted output of every choice, in order of experts."""
        expert, token = weights.t().nonzero(as_tuple=True)
        counts = expert.bincount(minlength=weights.shape[1])
        most = int(counts.max())
        together = len(counts) * most <= _MOST_WASTE * len(expert)
        write = self._together if together else self._one_by_one
        outputs = write(x[token], expert, counts, most)
        return token, expert, (outputs * weights[token, expert, None]).to(x.dtype)

    def _together(
        self, rows: Float[Tensor, "chosen d_model"], expert: Int[Tensor, " chosen"], counts: Tensor, most: int
    ) -> Float[Tensor, "chosen d_model"]:
        """Every expert's rows side by side, filled up to the most that one has."""
        place = torch.arange(len(rows), device=rows.device) - (counts.cumsum(0) - counts)[expert]
        packed = rows.new_zeros(len(counts), most, rows.shape[1]).index_put((expert, place), rows)
        return self.experts.written(packed)[expert, place]

    def _one_by_one(
        self, rows: Float[Tensor, "chosen d_model"], expert: Int[Tensor, " chosen"], counts: Tensor, most: int
    ) -> Float[Tensor, "chosen d_model"]:
        groups = enumerate(rows.split(counts.tolist()))
        written = [self.experts.written(group, index) for index, group in groups if len(group)]
        return torch.cat([rows[:0], *written])

    def expert_outputs(
        self, x: Float[Tensor, "*rows d_model"], weights: Float[Tensor, "*rows expert"]
    ) -> Float[Tensor, "*rows expert d_model"]:
        """What each expert adds, 0 where it was not chosen."""
        rows = x.reshape(-1, x.shape[-1])
        token, expert, written = self.each(rows, weights.reshape(len(rows), -1))
        outputs = x.new_zeros(len(rows), weights.shape[-1], x.shape[-1]).index_put((token, expert), written)
        return outputs.view(*weights.shape, x.shape[-1])


class NoSharedExperts(Component):
    """Every expert has to be chosen."""

    def forward(self, x: Tensor, routed: Tensor, at: Pass) -> Float[Tensor, "batch pos d_model"]:
        return routed


class SharedExperts(Component):
    """A feed-forward that every token passes through, beside those chosen for it (Dai et al. 2024, DeepSeekMoE)."""

    def __init__(self, spec: SharedExpertsSpec, d_model: int, place: Place):
        super().__init__()
        self.mlp = spec.mlp.build(d_model, Place())
        self.hook_shared_out = place.site("hook_shared_out", "batch pos d_model", d_model=d_model)
        self.sites = (self.hook_shared_out,)

    def forward(
        self, x: Float[Tensor, "batch pos d_model"], routed: Float[Tensor, "batch pos d_model"], at: Pass
    ) -> Float[Tensor, "batch pos d_model"]:
        return routed + at(self.hook_shared_out, self.added(x))

    def added(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch pos d_model"]:
        return self.mlp.written(x)


class GatedSharedExperts(SharedExperts):
    """Shared experts whose output a learned gate scales for each token: sigmoid(w . x) (Qwen1.5-MoE, 2024)."""

    def __init__(self, spec: GatedSharedExpertsSpec, d_model: int, place: Place):
        super().__init__(spec, d_model, place)
        self.gate = Linear(d_model, 1, bias=False)

    def added(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch pos d_model"]:
        return self.gate(x).sigmoid() * self.mlp.written(x)


@dataclass(frozen=True)
class SharedExpertsSpec(ComponentSpec):
    """mlp: the shared experts as one feed-forward; several side by side are one with all their neurons."""

    mlp: FeedForwardSpec

    def build(self, d_model: int, place: Place) -> SharedExperts:
        return SharedExperts(self, d_model, place)


@dataclass(frozen=True)
class GatedSharedExpertsSpec(SharedExpertsSpec):
    def build(self, d_model: int, place: Place) -> GatedSharedExperts:
        return GatedSharedExperts(self, d_model, place)


@dataclass(frozen=True)
class MixtureOfExpertsSpec(ComponentSpec):
    """router: who goes where;  expert: what each expert is;  shared: what every token passes through besides."""

    router: RouterSpec
    expert: FeedForwardSpec
    shared: SharedExpertsSpec | None = None

    @property
    def d_mlp(self) -> int:
        """Of each expert."""
        return self.expert.d_mlp

    def n_idle_params(self, d_model: int) -> int:
        with torch.device("meta"):
            size = sum(parameter.numel() for parameter in self.expert.build(d_model, Place()).parameters())
        return (self.router.n_experts - self.router.top_k) * size

    def build(self, d_model: int, place: Place) -> MixtureOfExperts:
        return MixtureOfExperts(self, d_model, place)
