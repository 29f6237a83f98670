"""Norms. Statistics, division and gain are computed in float32 whatever the model's dtype, and rounded once.

scale       the divisor                        hook_scale       [batch pos 1], float32
normalized  the (centred) input over scale     hook_normalized  [batch pos d_model], float32
out         after gain and bias                hook_out         [batch pos d_model], the model's dtype
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..sites import Place
from ..spec import Component, ComponentSpec
from .pass_ import Pass
from .precision import at_least_float32


class Norm(Component):
    """What every norm does; a subclass says how to centre and what to divide by."""

    starts_at: ClassVar[Mapping[str, float]] = {"weight": 1.0, "bias": 0.0}
    weight: Tensor

    def __init__(self, d_model: int, eps: float, place: Place):
        super().__init__()
        self.d_model, self.eps = d_model, eps
        self.weight = nn.Parameter(torch.empty(d_model))
        self.hook_scale = place.site("hook_scale", "batch pos 1", width=1, exact=True)
        self.hook_normalized = place.site("hook_normalized", "batch pos d_model", exact=True, d_model=d_model)
        self.hook_out = place.site("hook_out", "batch pos d_model", d_model=d_model)
        self.sites = (self.hook_scale, self.hook_normalized, self.hook_out)

    @abstractmethod
    def center(self, x: Float[Tensor, "*rows d_model"]) -> Float[Tensor, "*rows d_model"]:
        """The input less its mean, or as it is."""

    def scale(self, centered: Float[Tensor, "*rows d_model"]) -> Float[Tensor, "*rows 1"]:
        """sqrt(mean(x^2) + eps), the mean taken from the norm: one pass over x, and nothing of its size is made."""
        norm = torch.linalg.vector_norm(centered, dim=-1, keepdim=True)
        return (norm.square() / centered.shape[-1] + self.eps).sqrt()

    def frozen(self, parts: Float[Tensor, "*rows d_model"], scale: Tensor) -> Float[Tensor, "*rows d_model"]:
        """What each part of an input contributes to the output, the input's scale given: linear, and so without the
        bias, which is nobody's part."""
        return self.gain(self.center(parts.to(at_least_float32(parts))) / scale)

    def gain(self, normalized: Float[Tensor, "*rows d_model"]) -> Float[Tensor, "*rows d_model"]:
        """The linear part of what follows the division; a bias is not part of it."""
        return normalized * self.weight

    def shift(self, gained: Float[Tensor, "*rows d_model"]) -> Float[Tensor, "*rows d_model"]:
        return gained

    def normed(self, x: Float[Tensor, "*rows d_model"]) -> Float[Tensor, "*rows d_model"]:
        """The norm of what has no sites of its own, such as the queries of a head."""
        centered = self.center(x.to(at_least_float32(x)))
        return self.shift(self.gain(centered / self.scale(centered))).to(x.dtype)

    def share(self, other: Norm) -> None:
        """Take over another norm's parameters: one norm, read by two components."""
        for name, parameter in other.named_parameters():
            setattr(self, name, parameter)

    def forward(self, x: Float[Tensor, "batch pos d_model"], at: Pass) -> Float[Tensor, "batch pos d_model"]:
        centered = self.center(x.to(at_least_float32(x)))
        scale = at(self.hook_scale, self.scale(centered))
        normalized = at(self.hook_normalized, centered / scale)
        return at(self.hook_out, self.shift(self.gain(normalized)).to(x.dtype))


class LayerNorm(Norm):
    """(x - mean) / sqrt(variance + eps) * weight + bias (Ba et al. 2016, equation 4)."""

    def __init__(self, d_model: int, eps: float, place: Place):
        super().__init__(d_model, eps, place)
        self.bias = nn.Parameter(torch.empty(d_model))

    def center(self, x: Float[Tensor, "*rows d_model"]) -> Float[Tensor, "*rows d_model"]:
        return x - x.mean(-1, keepdim=True)

    def shift(self, gained: Float[Tensor, "*rows d_model"]) -> Float[Tensor, "*rows d_model"]:
        return gained + self.bias


class BiaslessLayerNorm(LayerNorm):
    """LayerNorm with a gain and no bias."""

    def __init__(self, d_model: int, eps: float, place: Place):
        super().__init__(d_model, eps, place)
        del self.bias

    def shift(self, gained: Float[Tensor, "*rows d_model"]) -> Float[Tensor, "*rows d_model"]:
        return gained


class PlainLayerNorm(BiaslessLayerNorm):
    """LayerNorm without gain or bias (OLMo, Groeneveld et al. 2024)."""

    def __init__(self, d_model: int, eps: float, place: Place):
        super().__init__(d_model, eps, place)
        del self.weight

    def gain(self, normalized: Float[Tensor, "*rows d_model"]) -> Float[Tensor, "*rows d_model"]:
        return normalized


class RMSNorm(Norm):
    """x / sqrt(mean(x^2) + eps) * weight (Zhang and Sennrich 2019, equation 4)."""

    def center(self, x: Float[Tensor, "*rows d_model"]) -> Float[Tensor, "*rows d_model"]:
        return x


class OnePlusRMSNorm(RMSNorm):
    """x / sqrt(mean(x^2) + eps) * (1 + weight), as Gemma's files have it."""

    starts_at: ClassVar[Mapping[str, float]] = {"weight": 0.0}

    def gain(self, normalized: Float[Tensor, "*rows d_model"]) -> Float[Tensor, "*rows d_model"]:
        return normalized * (1.0 + self.weight.to(normalized.dtype))


class NoNorm(Component):
    """The stream as it is; no sites."""

    hook_scale = None

    def frozen(self, parts: Float[Tensor, "*rows d_model"], scale: Tensor | None) -> Float[Tensor, "*rows d_model"]:
        return parts

    def share(self, other: NoNorm) -> None:
        """There is nothing to share."""

    def forward(self, x: Float[Tensor, "batch pos d_model"], at: Pass) -> Float[Tensor, "batch pos d_model"]:
        return x


class OutputScale(NoNorm):
    """A fixed factor where an output norm may stand (Granite's residual multiplier)."""

    def __init__(self, factor: float):
        super().__init__()
        self.factor = factor

    def frozen(self, parts: Float[Tensor, "*rows d_model"], scale: Tensor | None) -> Float[Tensor, "*rows d_model"]:
        return parts * self.factor

    def forward(self, x: Float[Tensor, "batch pos d_model"], at: Pass) -> Float[Tensor, "batch pos d_model"]:
        return x * self.factor


def build_norm(spec: ComponentSpec | None, d_model: int, place: Place) -> Component:
    """The norm that a spec says, or none."""
    return NoNorm() if spec is None else spec.build(d_model, place)


@dataclass(frozen=True)
class NormSpec(ComponentSpec):
    eps: float = 1e-5

    def check(self) -> None:
        self.require(self.eps >= 0, "eps", "it must not be negative")


@dataclass(frozen=True)
class LayerNormSpec(NormSpec):
    def build(self, d_model: int, place: Place) -> LayerNorm:
        return LayerNorm(d_model, self.eps, place)


@dataclass(frozen=True)
class RMSNormSpec(NormSpec):
    def build(self, d_model: int, place: Place) -> RMSNorm:
        return RMSNorm(d_model, self.eps, place)


@dataclass(frozen=True)
class BiaslessLayerNormSpec(NormSpec):
    def build(self, d_model: int, place: Place) -> BiaslessLayerNorm:
        return BiaslessLayerNorm(d_model, self.eps, place)


@dataclass(frozen=True)
class PlainLayerNormSpec(NormSpec):
    def build(self, d_model: int, place: Place) -> PlainLayerNorm:
        return PlainLayerNorm(d_model, self.eps, place)


@dataclass(frozen=True)
class OnePlusRMSNormSpec(NormSpec):
    def build(self, d_model: int, place: Place) -> OnePlusRMSNorm:
        return OnePlusRMSNorm(d_model, self.eps, place)


@dataclass(frozen=True)
class OutputScaleSpec(ComponentSpec):
    factor: float

    def build(self, d_model: int, place: Place) -> OutputScale:
        return OutputScale(self.factor)
