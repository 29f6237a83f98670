"""Which experts a token goes to, and with what weight.

    logits  = W x (+ b)                                  hook_router_logits
    scores  = softmax(logits) or sigmoid(logits)
    chosen  = the top_k of scores (+ choice bias), perhaps within the best groups of experts only
    weights = scores of the chosen, perhaps over their sum, x scale; 0 elsewhere       hook_expert_weights

All of it in float32: a rounded logit sends a token to another expert.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from ..errors import nearest
from ..sites import Place
from ..spec import Component, Spec
from .linear import Multiplies
from .pass_ import Pass
from .precision import at_least_float32

Scores = Float[Tensor, "batch pos expert"]

SCORES: dict[str, Callable[[Scores], Scores]] = {
    "softmax": lambda logits: logits.softmax(-1),
    "sigmoid": torch.sigmoid,
}
# How good a group of experts is: its best expert (DeepSeek-V2), or its best two together (DeepSeek-V3).
GROUP_SCORES: dict[str, Callable[[Tensor], Tensor]] = {
    "best": lambda grouped: grouped.amax(-1),
    "best_two": lambda grouped: grouped.topk(2, dim=-1).values.sum(-1),
}


class ChoiceBias(nn.Module):
    """Added to scores for choosing only, so that experts are used evenly (DeepSeek-AI 2024, DeepSeek-V3, eq. 16)."""

    starts_at: ClassVar[Mapping[str, float]] = {"weight": 0.0}

    def __init__(self, n_experts: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_experts))

    def forward(self, scores: Scores) -> Scores:
        return scores + self.weight.to(scores.dtype)


class BestGroups(nn.Module):
    """-inf for every expert outside the best groups (DeepSeek-AI 2024, DeepSeek-V2, section 2.2.2)."""

    def __init__(self, n_groups: int, top_groups: int, group_score: str):
        super().__init__()
        self.n_groups, self.top_groups, self.score = n_groups, top_groups, GROUP_SCORES[group_score]

    def forward(self, scores: Scores) -> Scores:
        grouped = rearrange(scores, "batch pos (group expert) -> batch pos group expert", group=self.n_groups)
        best = self.score(grouped).topk(self.top_groups, dim=-1).indices
        outside = torch.ones_like(grouped[..., 0], dtype=torch.bool).scatter(-1, best, False)
        return grouped.masked_fill(outside[..., None], float("-inf")).flatten(-2)


def over_their_sum(chosen: Float[Tensor, "batch pos k"]) -> Float[Tensor, "batch pos k"]:
    return chosen / chosen.sum(-1, keepdim=True)


def as_they_are(chosen: Float[Tensor, "batch pos k"]) -> Float[Tensor, "batch pos k"]:
    return chosen


class Router(Component, Multiplies):
    """Weights of experts for each token, 0 where an expert is not chosen."""

    bias: Tensor | None

    def __init__(self, spec: RouterSpec, d_model: int, place: Place):
        super().__init__()
        self.spec = spec
        self.weight = nn.Parameter(torch.empty(spec.n_experts, d_model))
        self.register_parameter("bias", nn.Parameter(torch.empty(spec.n_experts)) if spec.bias else None)
        self.score = SCORES[spec.score]
        self.choice_bias = ChoiceBias(spec.n_experts) if spec.choice_bias else nn.Identity()
        limited = spec.top_groups < spec.n_groups
        self.groups = BestGroups(spec.n_groups, spec.top_groups, spec.group_score) if limited else nn.Identity()
        self.normalized = over_their_sum if spec.normalized else as_they_are
        axes, size = "batch pos expert", spec.n_experts
        self.hook_router_logits = place.site("hook_router_logits", axes, exact=True, expert=size)
        self.hook_expert_weights = place.site("hook_expert_weights", axes, exact=True, expert=size)
        self.sites = (self.hook_router_logits, self.hook_expert_weights)

    def forward(self, x: Float[Tensor, "batch pos d_model"], at: Pass) -> Scores:
        logits = at(self.hook_router_logits, self.logits(x))
        return at(self.hook_expert_weights, self.weights(self.score(logits)))

    def logits(self, x: Float[Tensor, "batch pos d_model"]) -> Scores:
        dtype = at_least_float32(x)
        return F.linear(x.to(dtype), self.weight.to(dtype), None if self.bias is None else self.bias.to(dtype))

    def chosen(self, scores: Scores) -> Int[Tensor, "batch pos k"]:
        return self.groups(self.choice_bias(scores)).topk(self.spec.top_k, dim=-1).indices

    def weights(self, scores: Scores) -> Scores:
        chosen = self.chosen(scores)
        kept = self.normalized(scores.gather(-1, chosen)) * self.spec.scale
        return torch.zeros_like(scores).scatter(-1, chosen, kept)


@dataclass(frozen=True)
class RouterSpec(Spec):
    """n_experts, top_k: how many there are, and how many of them each token goes to.
    score:       "softmax" or "sigmoid" of the logits.
    normalized:  whether the weights of the chosen are divided by their sum.
    scale:       what weights are multiplied by.
    bias:        whether the logits have one.
    choice_bias: whether there is a bias on scores that is for choosing only.
    n_groups, top_groups: experts stand in groups of equal size, and are chosen from the best groups only.
    group_score: a group is as good as its "best" expert, or its "best_two" together.
    """

    n_experts: int
    top_k: int
    score: str = "softmax"
    normalized: bool = True
    scale: float = 1.0
    bias: bool = False
    choice_bias: bool = False
    n_groups: int = 1
    top_groups: int = 1
    group_score: str = "best"

    def check(self) -> None:
        for field in ("n_experts", "top_k", "n_groups", "top_groups"):
            self.require(getattr(self, field) > 0, field, "it must be positive")
        self.require(self.top_k <= self.n_experts, "top_k", f"there are {self.n_experts} experts")
        self.require(self.score in SCORES, "score", nearest(self.score, SCORES))
        self.require(self.group_score in GROUP_SCORES, "group_score", nearest(self.group_score, GROUP_SCORES))
        self.require(self.n_experts % self.n_groups == 0, "n_groups", f"it must divide n_experts, {self.n_experts}")
        self.require(self.top_groups <= self.n_groups, "top_groups", f"there are {self.n_groups} groups")
        allowed = self.n_experts // self.n_groups * self.top_groups
        self.require(self.top_k <= allowed, "top_k", f"the best {self.top_groups} groups have {allowed} experts")
        two = self.group_score != "best_two" or self.top_groups == self.n_groups or self.n_experts > self.n_groups
        self.require(two, "group_score", "groups of one expert have no best two")
