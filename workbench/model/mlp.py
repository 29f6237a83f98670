"""Feed-forward layers: the plain one of GPT-2 and the gated one of Llama.

    plain   W_out f(W_in x + b_in) + b_out                       hook_pre, hook_post
    gated   W_out (f(W_gate x) * (W_in x))                       hook_pre, hook_pre_linear, hook_post

hook_pre is what goes into the nonlinearity (the gate branch, or the only one). The experts of a mixture are one of
these too, with a weight for each expert; they have no sites, since every token has its own few, and are called by
`written`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from ..errors import nearest
from ..sites import Place
from ..spec import Component, ComponentSpec
from .linear import ExpertLinear, ExpertWriteLinear, Linear, WriteLinear
from .pass_ import Pass

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "relu": F.relu,
    "relu_squared": lambda x: F.relu(x).square(),  # Primer, So et al. 2021
    "silu": F.silu,
}


class Kind(NamedTuple):
    """Which projections a feed-forward is made of: plain ones, or one for each expert of a mixture."""

    linear: Callable[..., Linear | ExpertLinear]
    write: Callable[..., Linear | ExpertLinear]


PLAIN = Kind(Linear, WriteLinear)


class FeedForward(Component):
    """What plain and gated feed-forward share: their weights in the field's layout, as views."""

    in_: Linear | ExpertLinear
    out: Linear | ExpertLinear

    @abstractmethod
    def written(self, x: Float[Tensor, "*rows d_model"], *expert: int | slice) -> Float[Tensor, "*rows d_model"]:
        """What is written, in one go and past the sites; of experts, by one or by neighbours, each of its own rows."""

    @property
    def W_in(self) -> Float[Tensor, "*expert d_model d_mlp"]:
        return self.in_.matrix

    @property
    def W_out(self) -> Float[Tensor, "*expert d_mlp d_model"]:
        return self.out.matrix

    @property
    def b_in(self) -> Float[Tensor, "*expert d_mlp"]:
        return self.in_.bias_or_zeros()

    @property
    def b_out(self) -> Float[Tensor, "*expert d_model"]:
        return self.out.bias_or_zeros()


class MLP(FeedForward):
    """W_out f(W_in x + b_in) + b_out."""

    def __init__(self, spec: MLPSpec, d_model: int, place: Place, kind: Kind = PLAIN):
        super().__init__()
        self.activation = ACTIVATIONS[spec.activation]
        self.in_ = kind.linear(d_model, spec.d_mlp, bias=spec.bias)
        self.out = kind.write(spec.d_mlp, d_model, bias=spec.bias)
        self.hook_pre = place.site("hook_pre", "batch pos d_mlp", d_mlp=spec.d_mlp)
        self.hook_post = place.site("hook_post", "batch pos d_mlp", d_mlp=spec.d_mlp)
        self.sites = (self.hook_pre, self.hook_post)

    def forward(self, x: Float[Tensor, "batch pos d_model"], at: Pass) -> Float[Tensor, "batch pos d_model"]:
        pre = at(self.hook_pre, self.in_(x))
        post = at(self.hook_post, self.activation(pre))
        return self.out(post)

    def written(self, x: Float[Tensor, "*rows d_model"], *expert: int | slice) -> Float[Tensor, "*rows d_model"]:
        return self.out(self.activation(self.in_(x, *expert)), *expert)


class GatedMLP(FeedForward):
    """W_out (f(W_gate x) * (W_in x)) (Shazeer 2020, equation 6)."""

    def __init__(self, spec: GatedMLPSpec, d_model: int, place: Place, kind: Kind = PLAIN):
        super().__init__()
        self.activation = ACTIVATIONS[spec.activation]
        self.gate = kind.linear(d_model, spec.d_mlp, bias=spec.bias)
        self.in_ = kind.linear(d_model, spec.d_mlp, bias=spec.bias)
        self.out = kind.write(spec.d_mlp, d_model, bias=spec.bias)
        self.hook_pre = place.site("hook_pre", "batch pos d_mlp", d_mlp=spec.d_mlp)
        self.hook_pre_linear = place.site("hook_pre_linear", "batch pos d_mlp", d_mlp=spec.d_mlp)
        self.hook_post = place.site("hook_post", "batch pos d_mlp", d_mlp=spec.d_mlp)
        self.sites = (self.hook_pre, self.hook_pre_linear, self.hook_post)

    def forward(self, x: Float[Tensor, "batch pos d_model"], at: Pass) -> Float[Tensor, "batch pos d_model"]:
        pre = at(self.hook_pre, self.gate(x))
        linear = at(self.hook_pre_linear, self.in_(x))
        post = at(self.hook_post, self.gated(pre, linear))
        return self.out(post)

    def written(self, x: Float[Tensor, "*rows d_model"], *expert: int | slice) -> Float[Tensor, "*rows d_model"]:
        return self.out(self.gated(self.gate(x, *expert), self.in_(x, *expert)), *expert)

    def gated(self, pre: Float[Tensor, "*rows d_mlp"], linear: Float[Tensor, "*rows d_mlp"]) -> Tensor:
        return self.activation(pre) * linear

    @property
    def W_gate(self) -> Float[Tensor, "*expert d_model d_mlp"]:
        return self.gate.matrix

    @property
    def b_gate(self) -> Float[Tensor, "*expert d_mlp"]:
        return self.gate.bias_or_zeros()


class ClampedGatedMLP(GatedMLP):
    """gate' sigmoid(alpha gate') (1 + linear'), where both branches are clamped (OpenAI 2025, gpt-oss)."""

    def __init__(self, spec: ClampedGatedMLPSpec, d_model: int, place: Place, kind: Kind = PLAIN):
        super().__init__(spec, d_model, place, kind)
        self.alpha, self.limit = spec.alpha, spec.limit

    def gated(self, pre: Float[Tensor, "*rows d_mlp"], linear: Float[Tensor, "*rows d_mlp"]) -> Tensor:
        gate = pre.clamp(max=self.limit)
        return gate * (gate * self.alpha).sigmoid() * (1 + linear.clamp(-self.limit, self.limit))


@dataclass(frozen=True)
class FeedForwardSpec(ComponentSpec):
    """d_mlp: neurons;  activation: a name in ACTIVATIONS."""

    d_mlp: int
    activation: str

    module: ClassVar[type[FeedForward]]
    labels: ClassVar[Mapping[str, str]]  # by activation

    @property
    def label(self) -> str:
        return self.labels.get(self.activation, self.activation)

    def build(self, d_model: int, place: Place) -> FeedForward:
        return self.module(self, d_model, place)

    def build_experts(self, n_experts: int, d_model: int) -> FeedForward:
        """This many of it as one module, each weight with an axis of experts in front; no sites."""
        experts = Kind(partial(ExpertLinear, n_experts), partial(ExpertWriteLinear, n_experts))
        return self.module(self, d_model, Place(), experts)

    def check(self) -> None:
        self.require(self.d_mlp > 0, "d_mlp", "it must be positive")
        self.require(self.activation in ACTIVATIONS, "activation", nearest(self.activation, ACTIVATIONS))


@dataclass(frozen=True)
class MLPSpec(FeedForwardSpec):
    activation: str = "gelu_tanh"
    bias: bool = True

    module = MLP
    labels: ClassVar[Mapping[str, str]] = {"gelu": "GELU", "gelu_tanh": "GELU", "relu": "ReLU", "silu": "SiLU"}


@dataclass(frozen=True)
class GatedMLPSpec(FeedForwardSpec):
    activation: str = "silu"
    bias: bool = False

    module = GatedMLP
    labels: ClassVar[Mapping[str, str]] = {"gelu": "GEGLU", "gelu_tanh": "GEGLU", "relu": "ReGLU", "silu": "SwiGLU"}


@dataclass(frozen=True)
class ClampedGatedMLPSpec(GatedMLPSpec):
    """alpha: steepness of the gate's sigmoid;  limit: what the branches are clamped to. The activation is silu's."""

    alpha: float = 1.702
    limit: float = 7.0

    def check(self) -> None:
        super().check()
        self.require(self.activation == "silu", "activation", "the clamped gate is silu's, with its own steepness")
        self.require(self.limit > 0, "limit", "it must be positive")

    module = ClampedGatedMLP
