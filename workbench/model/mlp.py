"""Feed-forward layers: the plain one of GPT-2 and the gated one of Llama.

    plain   W_out f(W_in x + b_in) + b_out                       hook_pre, hook_post
    gated   W_out (f(W_gate x) * (W_in x))                       hook_pre, hook_pre_linear, hook_post

hook_pre is what goes into the nonlinearity (the gate branch, or the only one). An expert of a mixture is one of these
too; it has no sites, since every token has its own few, and is called by `written`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from ..errors import nearest
from ..sites import Place
from ..spec import Component, ComponentSpec
from .linear import Linear, WriteLinear
from .pass_ import Pass

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "relu": F.relu,
    "relu_squared": lambda x: F.relu(x).square(),  # Primer, So et al. 2021
    "silu": F.silu,
}


class FeedForward(Component):
    """What plain and gated feed-forward share: their weights in the field's layout, as views."""

    in_: Linear
    out: WriteLinear

    @abstractmethod
    def written(self, x: Float[Tensor, "*rows d_model"]) -> Float[Tensor, "*rows d_model"]:
        """What is written, in one go and past the sites."""

    @property
    def W_in(self) -> Float[Tensor, "d_model d_mlp"]:
        return self.in_.weight.T

    @property
    def W_out(self) -> Float[Tensor, "d_mlp d_model"]:
        return self.out.weight.T

    @property
    def b_in(self) -> Float[Tensor, " d_mlp"]:
        return self.in_.bias_or_zeros()

    @property
    def b_out(self) -> Float[Tensor, " d_model"]:
        return self.out.bias_or_zeros()


class MLP(FeedForward):
    """W_out f(W_in x + b_in) + b_out."""

    def __init__(self, spec: MLPSpec, d_model: int, place: Place):
        super().__init__()
        self.activation = ACTIVATIONS[spec.activation]
        self.in_ = Linear(d_model, spec.d_mlp, bias=spec.bias)
        self.out = WriteLinear(spec.d_mlp, d_model, bias=spec.bias)
        self.hook_pre = place.site("hook_pre", "batch pos d_mlp", d_mlp=spec.d_mlp)
        self.hook_post = place.site("hook_post", "batch pos d_mlp", d_mlp=spec.d_mlp)
        self.sites = (self.hook_pre, self.hook_post)

    def forward(self, x: Float[Tensor, "batch pos d_model"], at: Pass) -> Float[Tensor, "batch pos d_model"]:
        pre = at(self.hook_pre, self.in_(x))
        post = at(self.hook_post, self.activation(pre))
        return self.out(post)

    def written(self, x: Float[Tensor, "*rows d_model"]) -> Float[Tensor, "*rows d_model"]:
        return self.out(self.activation(self.in_(x)))


class GatedMLP(FeedForward):
    """W_out (f(W_gate x) * (W_in x)) (Shazeer 2020, equation 6)."""

    def __init__(self, spec: GatedMLPSpec, d_model: int, place: Place):
        super().__init__()
        self.activation = ACTIVATIONS[spec.activation]
        self.gate = Linear(d_model, spec.d_mlp, bias=spec.bias)
        self.in_ = Linear(d_model, spec.d_mlp, bias=spec.bias)
        self.out = WriteLinear(spec.d_mlp, d_model, bias=spec.bias)
        self.hook_pre = place.site("hook_pre", "batch pos d_mlp", d_mlp=spec.d_mlp)
        self.hook_pre_linear = place.site("hook_pre_linear", "batch pos d_mlp", d_mlp=spec.d_mlp)
        self.hook_post = place.site("hook_post", "batch pos d_mlp", d_mlp=spec.d_mlp)
        self.sites = (self.hook_pre, self.hook_pre_linear, self.hook_post)

    def forward(self, x: Float[Tensor, "batch pos d_model"], at: Pass) -> Float[Tensor, "batch pos d_model"]:
        pre = at(self.hook_pre, self.gate(x))
        linear = at(self.hook_pre_linear, self.in_(x))
        post = at(self.hook_post, self.gated(pre, linear))
        return self.out(post)

    def written(self, x: Float[Tensor, "*rows d_model"]) -> Float[Tensor, "*rows d_model"]:
        return self.out(self.gated(self.gate(x), self.in_(x)))

    def gated(self, pre: Float[Tensor, "*rows d_mlp"], linear: Float[Tensor, "*rows d_mlp"]) -> Tensor:
        return self.activation(pre) * linear

    @property
    def W_gate(self) -> Float[Tensor, "d_model d_mlp"]:
        return self.gate.weight.T

    @property
    def b_gate(self) -> Float[Tensor, " d_mlp"]:
        return self.gate.bias_or_zeros()


class ClampedGatedMLP(GatedMLP):
    """gate' sigmoid(alpha gate') (1 + linear'), where both branches are clamped (OpenAI 2025, gpt-oss)."""

    def __init__(self, spec: ClampedGatedMLPSpec, d_model: int, place: Place):
        super().__init__(spec, d_model, place)
        self.alpha, self.limit = spec.alpha, spec.limit

    def gated(self, pre: Float[Tensor, "*rows d_mlp"], linear: Float[Tensor, "*rows d_mlp"]) -> Tensor:
        gate = pre.clamp(max=self.limit)
        return gate * (gate * self.alpha).sigmoid() * (1 + linear.clamp(-self.limit, self.limit))


@dataclass(frozen=True)
class FeedForwardSpec(ComponentSpec):
    """d_mlp: neurons;  activation: a name in ACTIVATIONS."""

    d_mlp: int
    activation: str

    @abstractmethod
    def build(self, d_model: int, place: Place) -> FeedForward: ...

    def check(self) -> None:
        self.require(self.d_mlp > 0, "d_mlp", "it must be positive")
        self.require(self.activation in ACTIVATIONS, "activation", nearest(self.activation, ACTIVATIONS))


@dataclass(frozen=True)
class MLPSpec(FeedForwardSpec):
    activation: str = "gelu_tanh"
    bias: bool = True

    def build(self, d_model: int, place: Place) -> MLP:
        return MLP(self, d_model, place)


@dataclass(frozen=True)
class GatedMLPSpec(FeedForwardSpec):
    activation: str = "silu"
    bias: bool = False

    def build(self, d_model: int, place: Place) -> GatedMLP:
        return GatedMLP(self, d_model, place)


@dataclass(frozen=True)
class ClampedGatedMLPSpec(GatedMLPSpec):
    """alpha: steepness of the gate's sigmoid;  limit: what the branches are clamped to. The activation is silu's."""

    alpha: float = 1.702
    limit: float = 7.0

    def check(self) -> None:
        super().check()
        self.require(self.activation == "silu", "activation", "the clamped gate is silu's, with its own steepness")
        self.require(self.limit > 0, "limit", "it must be positive")

    def build(self, d_model: int, place: Place) -> ClampedGatedMLP:
        return ClampedGatedMLP(self, d_model, place)
