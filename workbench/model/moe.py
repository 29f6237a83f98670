"""Mixture of experts (Shazeer et al. 2017; Fedus et al. 2021): each token goes to a few feed-forwards of many.

    weights = router(x)                                 hook_router_logits, hook_expert_weights
    write   = sum over chosen experts of weight x expert(x)  (+ what shared experts add, hook_shared_out)

Dispatch follows hook_expert_weights where it is not 0, so an edit there sends tokens elsewhere; only those experts
compute, each on its own tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from math import ceil

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..sites import Place
from ..spec import Component, ComponentSpec
from .linear import Linear
from .mlp import FeedForwardSpec
from .pass_ import Pass
from .router import Router, RouterSpec

# With a few rows to an expert the time goes into reading weights, and a batched product over neighbouring experts reads
# them fastest; it takes this many times the mean of rows from each, and what is more goes one by one.
_FEW_ROWS = (2, 16)
_MORE_THAN_MEAN = 1.5


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
        """Token, expert and weighted output of every choice."""
        expert, token = weights.t().nonzero(as_tuple=True)
        counts = expert.bincount(minlength=weights.shape[1])
        if _FEW_ROWS[0] <= len(token) / len(counts) <= _FEW_ROWS[1]:
            order, outputs = self._together(x, token, expert, counts)
            token, expert = token[order], expert[order]
        else:
            outputs = self._one_by_one(x[token], counts)
        return token, expert, (outputs * weights[token, expert, None]).to(x.dtype)

    def _together(
        self, x: Float[Tensor, "token d_model"], token: Tensor, expert: Tensor, counts: Int[Tensor, " expert"]
    ) -> tuple[Int[Tensor, " chosen"], Float[Tensor, "chosen d_model"]]:
        """In which order choices come out, and what is written: first those that find room in the batch."""
        size = ceil(_MORE_THAN_MEAN * len(token) / len(counts))
        place = torch.arange(len(token), device=x.device) - (counts.cumsum(0) - counts)[expert]
        within = place < size
        inside, outside = within.nonzero()[:, 0], (~within).nonzero()[:, 0]
        slots = expert[inside], place[inside]
        packed = x.new_zeros(len(counts), size, x.shape[1]).index_put(slots, x[token[inside]])
        # Experts that nobody chose are left out, by runs of those chosen: a selection of weights would be a copy.
        runs = [slice(run[0], run[-1] + 1) for run in _runs(counts.tolist())]
        batch = torch.cat([self.experts.written(packed[run], run) for run in runs])
        rank = (counts > 0).cumsum(0) - 1
        rest = self._one_by_one(x[token[outside]], (counts - size).clamp(min=0))
        return torch.cat([inside, outside]), torch.cat([batch[rank[slots[0]], slots[1]], rest])

    def _one_by_one(
        self, rows: Float[Tensor, "chosen d_model"], counts: Int[Tensor, " expert"]
    ) -> Float[Tensor, "chosen d_model"]:
        groups = enumerate(rows.split(counts.tolist()))
        return torch.cat([rows[:0], *(self.experts.written(group, index) for index, group in groups if len(group))])

    def expert_outputs(
        self, x: Float[Tensor, "*rows d_model"], weights: Float[Tensor, "*rows expert"]
    ) -> Float[Tensor, "*rows expert d_model"]:
        """What each expert adds, 0 where it was not chosen."""
        rows = x.reshape(-1, x.shape[-1])
        token, expert, written = self.each(rows, weights.reshape(len(rows), -1))
        outputs = x.new_zeros(len(rows), weights.shape[-1], x.shape[-1]).index_put((token, expert), written)
        return outputs.view(*weights.shape, x.shape[-1])


def _runs(counts: list[int]) -> list[list[int]]:
    """Neighbours that are chosen: [2, 1, 0, 3] gives [[0, 1], [3]]."""
    return [list(run) for chosen, run in groupby(range(len(counts)), lambda e: counts[e] > 0) if chosen]


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

    @property
    def label(self) -> str:
        return f"MoE {self.router.top_k} of {self.router.n_experts}" + (" + shared" if self.shared else "")

    def n_idle_params(self, d_model: int) -> int:
        with torch.device("meta"):
            size = sum(parameter.numel() for parameter in self.expert.build(d_model, Place()).parameters())
        return (self.router.n_experts - self.router.top_k) * size

    def build(self, d_model: int, place: Place) -> MixtureOfExperts:
        return MixtureOfExperts(self, d_model, place)
