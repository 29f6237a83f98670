"""Projections. Weights lie [out, in] as files have them, possibly as strided views into a larger tensor."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn


class Multiplies:
    """Marks a module whose `weight` multiplies every row that it is given: two FLOPs for each number in it."""

    weight: Tensor


class Linear(nn.Linear, Multiplies):
    """y = W x + b."""

    @property
    def matrix(self) -> Float[Tensor, "in out"]:
        """W transposed, as the field writes it."""
        return self.weight.T

    def bias_or_zeros(self) -> Float[Tensor, " out"]:
        return self.weight.new_zeros(self.out_features) if self.bias is None else self.bias


class ExpertLinear(nn.Module, Multiplies):
    """y = x W_e + b_e: a projection for each of several experts.

    Weights lie [expert, in, out], the way in which a batched product reads them fastest where each has few rows.
    """

    bias: Tensor | None

    def __init__(self, n_experts: int, in_features: int, out_features: int, bias: bool):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_experts, in_features, out_features))
        self.register_parameter("bias", nn.Parameter(torch.empty(n_experts, out_features)) if bias else None)

    def forward(self, x: Float[Tensor, "*rows in"], expert: int | slice) -> Float[Tensor, "*rows out"]:
        """One expert's rows [row in], or those of several neighbours [expert row in]."""
        product = x @ self.weight[expert]
        return product if self.bias is None else product + self.bias[expert].unsqueeze(-2)

    @property
    def matrix(self) -> Float[Tensor, "expert in out"]:
        return self.weight

    def bias_or_zeros(self) -> Float[Tensor, "expert out"]:
        return self.weight.new_zeros(self.weight.shape[::2]) if self.bias is None else self.bias


class Writes:
    """Marks a projection whose output is added to the stream.

    There are 2 n_layers of them, and each starts smaller by 1/sqrt(2 n_layers), so that the variance of the
    stream does not grow with depth (GPT-2, Radford et al. 2019, section 2.3).
    """


class WriteLinear(Linear, Writes):
    pass


class ExpertWriteLinear(ExpertLinear, Writes):
    pass
