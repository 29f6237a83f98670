"""From tokens to the stream, and from the stream to logits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from ..sites import Place
from ..spec import Component, ComponentSpec
from .linear import Linear, Multiplies
from .pass_ import Pass
from .softcap import as_it_is, softcap_of


class TokenEmbedding(Component):
    """A vector for each token; the first write to the stream."""

    def __init__(self, vocab_size: int, d_embed: int, d_model: int, place: Place):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocab_size, d_embed))
        self.hook_embed = place.site("hook_embed", "batch pos d_model", d_model=d_model)
        self.sites = (self.hook_embed,)

    def forward(self, tokens: Int[Tensor, "batch pos"], at: Pass) -> Float[Tensor, "batch pos d_model"]:
        return at(self.hook_embed, self.of(F.embedding(tokens, self.weight)))

    def of(self, rows: Float[Tensor, "*rows d_embed"]) -> Float[Tensor, "*rows d_model"]:
        """What rows of the matrix write."""
        return rows

    @property
    def W_E(self) -> Float[Tensor, "vocab d_model"]:
        """What each token writes."""
        return self.of(self.weight)


class ScaledTokenEmbedding(TokenEmbedding):
    """Vectors times a fixed factor, rounded to the model's dtype as Gemma's is."""

    def __init__(self, scale: float, vocab_size: int, d_model: int, place: Place):
        super().__init__(vocab_size, d_model, d_model, place)
        self.scale = scale

    def of(self, rows: Float[Tensor, "*rows d_model"]) -> Float[Tensor, "*rows d_model"]:
        return rows * rows.new_tensor(self.scale)


class ProjectedTokenEmbedding(TokenEmbedding):
    """Narrow vectors, projected to the width of the stream (OPT-350m)."""

    def __init__(self, d_embed: int, vocab_size: int, d_model: int, place: Place):
        super().__init__(vocab_size, d_embed, d_model, place)
        self.project = Linear(d_embed, d_model, bias=False)

    def of(self, rows: Float[Tensor, "*rows d_embed"]) -> Float[Tensor, "*rows d_model"]:
        return self.project(rows)


class Unembedding(Component, Multiplies):
    """logits = softcap(scale (W_U^T x + b_U)). A subclass says where the matrix is from."""

    weight: Tensor
    bias: Tensor | None

    def __init__(self, spec: LogitsSpec, n_biases: int):
        super().__init__()
        self.scale = scale_of(spec.scale)
        self.cap = softcap_of(spec.softcap)
        self.register_parameter("bias", nn.Parameter(torch.empty(n_biases)) if n_biases else None)

    def tie(self, embedding: TokenEmbedding) -> None:
        """Called once by the model that holds both."""

    def forward(self, x: Float[Tensor, "*rows d_model"]) -> Float[Tensor, "*rows vocab"]:
        return self.cap(self.uncapped(x))

    def uncapped(self, x: Float[Tensor, "*rows d_model"]) -> Float[Tensor, "*rows vocab"]:
        """Linear, as direct attribution needs it."""
        return self.scale(F.linear(x, self.weight, self.bias))

    def picked(self, x: Float[Tensor, "rows d_model"], ids: Int[Tensor, "rows picked"]) -> Float[Tensor, "rows picked"]:
        """These logits only, which need no product with the whole vocabulary."""
        logits = (self.weight[ids] @ x[:, :, None])[..., 0]
        return self.cap(self.scale(logits if self.bias is None else logits + self.bias[ids]))

    def directions(self, ids: Int[Tensor, "*ids"]) -> Float[Tensor, "*ids d_model"]:
        """What the stream is projected onto for the logits of these tokens, before any softcap."""
        return self.scale(self.weight[ids])

    @property
    def W_U(self) -> Float[Tensor, "d_model vocab"]:
        return self.scale(self.weight).T

    @property
    def b_U(self) -> Float[Tensor, " vocab"]:
        return self.weight.new_zeros(len(self.weight)) if self.bias is None else self.scale(self.bias)


class OwnUnembedding(Unembedding):
    """A matrix of its own."""

    def __init__(self, spec: UnembeddingSpec, d_model: int):
        super().__init__(spec, spec.vocab_size if spec.bias else 0)
        self.weight = nn.Parameter(torch.empty(spec.vocab_size, d_model))


class TiedUnembedding(Unembedding):
    """The embedding's matrix, read backwards."""

    def __init__(self, spec: TiedUnembeddingSpec):
        super().__init__(spec, spec.n_biases)

    def tie(self, embedding: TokenEmbedding) -> None:
        self.weight = embedding.weight


class ProjectedUnembedding(TiedUnembedding):
    """The stream projected to the width of a narrow embedding, and that read backwards (OPT-350m)."""

    def __init__(self, spec: ProjectedUnembeddingSpec, d_model: int):
        super().__init__(spec)
        self.project = Linear(d_model, spec.d_embed, bias=False)

    def uncapped(self, x: Float[Tensor, "*rows d_model"]) -> Float[Tensor, "*rows vocab"]:
        return super().uncapped(self.project(x))

    def picked(self, x: Float[Tensor, "rows d_model"], ids: Int[Tensor, "rows picked"]) -> Float[Tensor, "rows picked"]:
        return super().picked(self.project(x), ids)

    def directions(self, ids: Int[Tensor, "*ids"]) -> Float[Tensor, "*ids d_model"]:
        return super().directions(ids) @ self.project.weight

    @property
    def W_U(self) -> Float[Tensor, "d_model vocab"]:
        return self.project.weight.T @ super().W_U


def scale_of(factor: float | None) -> Callable[[Tensor], Tensor]:
    """What multiplies by a factor; None leaves values as they are."""
    return as_it_is if factor is None else lambda x: x * factor


@dataclass(frozen=True)
class TokenEmbeddingSpec(ComponentSpec):
    vocab_size: int

    def check(self) -> None:
        self.require(self.vocab_size > 0, "vocab_size", "it must be positive")

    def build(self, d_model: int, place: Place) -> TokenEmbedding:
        return TokenEmbedding(self.vocab_size, d_model, d_model, place)


@dataclass(frozen=True)
class ScaledTokenEmbeddingSpec(TokenEmbeddingSpec):
    """scale: what each vector is multiplied by before it is written."""

    scale: float

    def build(self, d_model: int, place: Place) -> ScaledTokenEmbedding:
        return ScaledTokenEmbedding(self.scale, self.vocab_size, d_model, place)


@dataclass(frozen=True)
class ProjectedTokenEmbeddingSpec(TokenEmbeddingSpec):
    """d_embed: width of the vectors before they are projected to the stream's."""

    d_embed: int

    def check(self) -> None:
        super().check()
        self.require(self.d_embed > 0, "d_embed", "it must be positive")

    def build(self, d_model: int, place: Place) -> ProjectedTokenEmbedding:
        return ProjectedTokenEmbedding(self.d_embed, self.vocab_size, d_model, place)


@dataclass(frozen=True)
class LogitsSpec(ComponentSpec):
    """scale:   what logits are multiplied by; None for nothing.
    softcap: logits are squeezed into (-softcap, softcap), after scaling; None for no cap.
    """

    scale: float | None = field(default=None, kw_only=True)
    softcap: float | None = field(default=None, kw_only=True)

    def check(self) -> None:
        self.require(self.softcap is None or self.softcap > 0, "softcap", "it must be positive")


@dataclass(frozen=True)
class UnembeddingSpec(LogitsSpec):
    """bias: whether logits have one."""

    vocab_size: int
    bias: bool = False

    def check(self) -> None:
        super().check()
        self.require(self.vocab_size > 0, "vocab_size", "it must be positive")

    def build(self, d_model: int, place: Place) -> OwnUnembedding:
        return OwnUnembedding(self, d_model)


@dataclass(frozen=True)
class TiedUnembeddingSpec(LogitsSpec):
    """n_biases: the vocabulary's size where logits have a bias, 0 where they have none."""

    n_biases: int = 0

    def check(self) -> None:
        super().check()
        self.require(self.n_biases >= 0, "n_biases", "it must not be negative")

    def build(self, d_model: int, place: Place) -> TiedUnembedding:
        return TiedUnembedding(self)


@dataclass(frozen=True)
class ProjectedUnembeddingSpec(TiedUnembeddingSpec):
    """d_embed: the width of the embedding's vectors."""

    d_embed: int = field(kw_only=True)

    def build(self, d_model: int, place: Place) -> ProjectedUnembedding:
        return ProjectedUnembedding(self, d_model)
