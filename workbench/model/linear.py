"""Projections. Weights lie [out, in] as files have them, possibly as strided views into a larger tensor."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn


class Linear(nn.Linear):
    """y = W x + b."""

    def bias_or_zeros(self) -> Float[Tensor, " out"]:
        return self.weight.new_zeros(self.out_features) if self.bias is None else self.bias


class WriteLinear(Linear):
    """A projection whose output is added to the stream.

    There are 2 n_layers of them, and each starts smaller by 1/sqrt(2 n_layers), so that the variance of the
    stream does not grow with depth (GPT-2, Radford et al. 2019, section 2.3).
    """
