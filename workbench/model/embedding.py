"""From tokens to the stream, and from the stream to logits."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from ..sites import Place
from ..spec import Component, ComponentSpec
from .pass_ import Pass


class TokenEmbedding(Component):
    """A vector for each token; the first write to the stream."""

    def __init__(self, vocab_size: int, d_model: int, place: Place):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocab_size, d_model))
        self.hook_embed = place.site("hook_embed", "batch pos d_model", d_model=d_model)
        self.sites = (self.hook_embed,)

    def forward(self, tokens: Int[Tensor, "batch pos"], at: Pass) -> Float[Tensor, "batch pos d_model"]:
        return at(self.hook_embed, F.embedding(tokens, self.weight))


@dataclass(frozen=True)
class TokenEmbeddingSpec(ComponentSpec):
    vocab_size: int

    def check(self) -> None:
        self.require(self.vocab_size > 0, "vocab_size", "it must be positive")

    def build(self, d_model: int, place: Place) -> TokenEmbedding:
        return TokenEmbedding(self.vocab_size, d_model, place)


class Unembedding(Component):
    """logits = W_U^T x + b_U, with a matrix of its own."""

    bias: Tensor | None

    def __init__(self, vocab_size: int, d_model: int, bias: bool):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocab_size, d_model))
        self.register_parameter("bias", nn.Parameter(torch.empty(vocab_size)) if bias else None)

    def tie(self, embedding: TokenEmbedding) -> None:
        """Called once by the model that holds both; this one has its own matrix."""

    def forward(self, x: Float[Tensor, "*rows d_model"]) -> Float[Tensor, "*rows vocab"]:
        return F.linear(x, self.weight, self.bias)

    def directions(self, ids: Int[Tensor, "*ids"]) -> Float[Tensor, "*ids d_model"]:
        """What the stream is projected onto for the logits of these tokens."""
        return self.weight[ids]

    @property
    def b_U(self) -> Float[Tensor, " vocab"]:
        return self.weight.new_zeros(len(self.weight)) if self.bias is None else self.bias


class TiedUnembedding(Component):
    """logits = W_E x: the embedding read backwards."""

    weight: Tensor
    bias = None

    def tie(self, embedding: TokenEmbedding) -> None:
        self.weight = embedding.weight

    def forward(self, x: Float[Tensor, "*rows d_model"]) -> Float[Tensor, "*rows vocab"]:
        return F.linear(x, self.weight)

    def directions(self, ids: Int[Tensor, "*ids"]) -> Float[Tensor, "*ids d_model"]:
        """What the stream is projected onto for the logits of these tokens."""
        return self.weight[ids]

    @property
    def b_U(self) -> Float[Tensor, " vocab"]:
        return self.weight.new_zeros(len(self.weight))


@dataclass(frozen=True)
class UnembeddingSpec(ComponentSpec):
    vocab_size: int
    bias: bool = False

    def check(self) -> None:
        self.require(self.vocab_size > 0, "vocab_size", "it must be positive")

    def build(self, d_model: int, place: Place) -> Unembedding:
        return Unembedding(self.vocab_size, d_model, self.bias)


@dataclass(frozen=True)
class TiedUnembeddingSpec(ComponentSpec):
    def build(self, d_model: int, place: Place) -> TiedUnembedding:
        return TiedUnembedding()
