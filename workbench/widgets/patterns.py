"""What a dashboard looks at: the tokens of one text and, one head at a time, its attention patterns.

Nothing is computed before it is asked for: `Patterns.layer` and `Patterns.head` index one layer. The layer last
looked at is kept, so that walking through its heads computes it once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ..errors import InputError, KindError, count
from ..figures.arrays import Array, array
from ..figures.tokens import token_list


@dataclass(frozen=True)
class Patterns:
    """`layers[l]` is [batch, head, query, key] or [head, query, key]; of a batch, row `example` is shown."""

    tokens: list[str]
    layers: Sequence[Any]
    n_heads: int
    example: int = 0
    _kept: dict[int, Array] = field(default_factory=dict, init=False, repr=False, compare=False)  # at most one layer

    @property
    def n_layers(self) -> int:
        return len(self.layers)

    def layer(self, layer: int) -> Array:
        """[head, query, key] in float32; InputError where the layer does not exist or does not fit."""
        self.check("layer", layer, self.n_layers)
        if layer not in self._kept:
            self._kept.clear()  # before the next is computed: two at once would be twice the memory
            self._kept[layer] = self._computed(layer)
        return self._kept[layer]

    def _computed(self, layer: int) -> Array:
        with torch.no_grad():
            heads = one_example(self.layers[layer], self.example)
        self._check_shape(layer, heads)
        return array(heads, "weights")

    def head(self, layer: int, head: int) -> Array:
        """[query, key] in float32; InputError where layer or head do not exist or the layer does not fit."""
        self.check("head", head, self.n_heads)
        return self.layer(layer)[head]

    @staticmethod
    def check(what: str, index: int, n: int) -> None:
        """Raises InputError unless 0 <= index < n."""
        if not 0 <= index < n:
            raise InputError(f"there is no {what} {index}: there {'is' if n == 1 else 'are'} {count(n, what)}")

    def _check_shape(self, layer: int, heads: Any) -> None:
        n = len(self.tokens)
        if tuple(heads.shape) == (self.n_heads, n, n):
            return
        if heads.shape[-2:] != (n, n):
            queries, keys = heads.shape[-2:]
            tokens = count(n, "token")
            raise InputError(f"layer {layer} is over {queries} queries and {keys} keys, and {tokens} came")
        raise InputError(f"layer {layer} has {count(heads.shape[0], 'head')} where {self.n_heads} were expected")

    def check_all(self) -> None:
        """Raises InputError for the first layer of another shape; looks at every layer."""
        for layer, weights in enumerate(self.layers):
            self._check_shape(layer, one_example(weights, self.example))


def one_example(weights: Any, example: int) -> Any:
    """[head, query, key] of [batch, head, query, key], or `weights` itself where it has three axes."""
    rank = getattr(weights, "ndim", None)
    if rank not in (3, 4):
        what = type(weights).__name__ if rank is None else f"one of rank {rank}"
        raise InputError(f"a layer's weights must be a tensor [head, query, key] or [1, head, query, key], not {what}")
    if rank == 3:
        return weights
    Patterns.check("example", example, weights.shape[0])
    return weights[example]


def of_weights(tokens: Iterable[str], weights: Any, example: int) -> Patterns:
    """From tensors at hand, all of them checked; a sequence that computes its layers is checked as it is seen."""
    try:
        n_layers = len(weights)
    except TypeError:
        kind = type(weights).__name__
        raise KindError(f"weights must be a sequence of tensors, one per layer, not {kind}") from None
    if not n_layers:
        raise InputError("weights has no layer")
    first = one_example(weights[0], example)
    patterns = Patterns(token_list(tokens, first.shape[-1], "the pattern"), weights, first.shape[0], example)
    if isinstance(weights, list | tuple) or hasattr(weights, "ndim"):
        patterns.check_all()
    return patterns


def of_model(model: Any, tokens: Any, example: int) -> Patterns:
    """From one run of `model` on text, a list of texts, or an int tensor [pos] or [batch, pos]."""
    with torch.no_grad():
        _, attention = model(tokens)
    ids = tokens if isinstance(tokens, torch.Tensor) else model.to_tokens(tokens)
    rows = ids.reshape(1, -1) if ids.ndim == 1 else ids
    Patterns.check("example", example, rows.shape[0])
    text = list(model.to_str_tokens(rows[example]))
    if not len(attention):
        raise InputError("the model has no attention to show")
    return Patterns(text, attention, model.spec.n_heads, example)
