"""What an attention view looks at: the tokens of one text, and its patterns, a few rows or a layer at a time.

Nothing of size query x key is made before it is asked for, and of a causal pattern only the keys that rows can see.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..cache import ActivationCache
from ..errors import InputError, KindError, count
from ..figures.arrays import Array, array

AT_ONCE = 2**21  # weights that are made at a time: more would not stay in a processor's caches
WHOLE = 256  # tokens up to which a layer is made in one piece all the same


class Patterns(ABC):
    """Patterns of one text.

    tokens:    the texts of those positions that are shown.
    positions: [pos] where they stand in the text;  example: which text of the batch it is.
    n_heads, n_kv_heads: of each layer; as many kv heads as heads where nothing says that heads share them.
    """

    tokens: list[str]
    positions: list[int]
    example: int
    n_heads: tuple[int, ...]
    n_kv_heads: tuple[int, ...]

    @property
    def n_layers(self) -> int:
        return len(self.n_heads)

    @abstractmethod
    def causal(self, layer: int) -> bool:
        """Whether it is known that no row looks ahead."""

    @abstractmethod
    def rows(self, layer: int, start: int, stop: int) -> Float[Tensor, "head row key"]:
        """Rows `start` to `stop` over the keys up to `stop`, or over all keys where a row may look ahead."""

    def blocks(self, layer: int, multiple: int = 1) -> Iterable[tuple[int, Float[Tensor, "head row key"]]]:
        """All rows, some at a time, each time with the first one's index; `multiple` divides how many but the last."""
        n = len(self.tokens)
        step = n if n <= WHOLE else max(1, AT_ONCE // (self.n_heads[layer] * n * multiple)) * multiple
        for start in range(0, n, step):
            yield start, self.rows(layer, start, min(start + step, n))

    def head(self, layer: int, head: int) -> Array:
        """[query, key] in float32; InputError where there is no such head."""
        check_index("layer", layer, self.n_layers)
        check_index("head", head, self.n_heads[layer])
        return self._made(layer, head)

    @abstractmethod
    def _made(self, layer: int, head: int) -> Array: ...


class OfCache(Patterns):
    """Of one example of a run, whose cache has recorded `pattern`."""

    def __init__(self, cache: ActivationCache, tokens: list[str], example: int, positions: Sequence[int]) -> None:
        self.cache, self.tokens, self.positions, self.example = cache, tokens, list(positions), example
        attention = [block.attn for block in cache.model.blocks]
        self.n_heads = tuple(each.hook_z.sizes[2] for each in attention)
        self.n_kv_heads = tuple(each.n_kv_heads for each in attention)
        where = cache.positions[example]
        self.columns = torch.stack([(where == position).nonzero()[0, 0] for position in self.positions])

    def causal(self, layer: int) -> bool:
        return not self.cache.pattern_edited(layer)

    def _made(self, layer: int, head: int) -> Array:
        """Of a long text a layer takes longer to write down than to compute."""
        n = len(self.tokens)
        made = torch.zeros(n, n)
        for start, rows in self.blocks(layer):
            made[start : start + rows.shape[1], : rows.shape[2]] = rows[head]
        return made.numpy()

    @torch.no_grad()
    def rows(self, layer: int, start: int, stop: int) -> Float[Tensor, "head row key"]:
        edited = self.cache.pattern_edited(layer)
        keys = self.columns if edited else self._seen(stop)
        rows = self.cache.pattern_part(layer, self.example, _run(self.columns[start:stop]), _run(keys)).float().cpu()
        if edited or self._complete:
            return rows
        return rows[:, :, torch.tensor(self.positions[:stop])]  # columns of what is seen stand in order of positions

    @property
    def _complete(self) -> bool:
        """Whether the text is shown from its start without a gap, so that rows see nothing that is not shown."""
        return self.positions == list(range(len(self.positions)))

    def _seen(self, stop: int) -> Int[Tensor, " key"]:
        """The columns that rows before `stop` may see, shown or not."""
        if self._complete:
            return self.columns[:stop]
        where = self.cache.positions[self.example]
        return ((where >= 0) & (where <= self.positions[stop - 1])).nonzero()[:, 0]


def _run(columns: Int[Tensor, " pos"]) -> Int[Tensor, " pos"] | slice:
    """Columns as a slice where they follow each other, so that nothing is copied for them."""
    start, stop = int(columns[0]), int(columns[-1]) + 1
    return slice(start, stop) if stop - start == len(columns) else columns


class OfWeights(Patterns):
    """Of tensors at hand: `layers[l]` is [batch, head, query, key] or [head, query, key]."""

    def __init__(self, tokens: list[str], layers: Sequence[Any], example: int, positions: Sequence[int]) -> None:
        self.layers, self.example, self.positions = layers, example, list(positions)
        self._kept: dict[int, Array] = {}  # at most one layer
        self.n_positions = len(tokens)
        self.tokens = [tokens[position] for position in self.positions]
        heads = [self._checked(layers[0]).shape[0]] * len(layers) if _lazy(layers) else self._all_heads()
        self.n_heads = self.n_kv_heads = tuple(heads)

    def _all_heads(self) -> list[int]:
        return [self._checked(weights, layer).shape[0] for layer, weights in enumerate(self.layers)]

    def _checked(self, weights: Any, layer: int = 0) -> Any:
        heads, n = one_example(weights, self.example), self.n_positions
        if heads.shape[-2:] != (n, n):
            queries, keys = heads.shape[-2:]
            raise InputError(f"layer {layer} is over {queries} queries and {keys} keys, and {count(n, 'token')} came")
        return heads

    def causal(self, layer: int) -> bool:
        return False

    def rows(self, layer: int, start: int, stop: int) -> Float[Tensor, "head row key"]:
        return torch.from_numpy(self.layer(layer)[:, start:stop])

    def _made(self, layer: int, head: int) -> Array:
        return self.layer(layer)[head]

    def layer(self, layer: int) -> Array:
        """[head, query, key]. The one last looked at is kept: weights may be computed when they are looked at."""
        if layer not in self._kept:
            self._kept.clear()  # before the next is computed: two at once would be twice the memory
            self._kept[layer] = self._of_layer(layer)
        return self._kept[layer]

    def _of_layer(self, layer: int) -> Array:
        with torch.no_grad():
            heads = self._checked(self.layers[layer], layer)
        if heads.shape[0] != self.n_heads[layer]:
            raise InputError(
                f"layer {layer} has {count(heads.shape[0], 'head')} where {self.n_heads[layer]} were expected"
            )
        made = array(heads, "weights")
        if len(self.positions) == self.n_positions:
            return made
        where = torch.tensor(self.positions).numpy()
        return made[:, where[:, None], where]


def _lazy(layers: Any) -> bool:
    """A sequence that computes its layers when they are looked at; they are checked then."""
    return not (isinstance(layers, list | tuple) or hasattr(layers, "ndim"))


def one_example(weights: Any, example: int) -> Any:
    """[head, query, key] of [batch, head, query, key], or `weights` itself where it has three axes."""
    rank = getattr(weights, "ndim", None)
    if rank not in (3, 4):
        what = type(weights).__name__ if rank is None else f"one of rank {rank}"
        raise InputError(f"a layer's weights must be a tensor [head, query, key] or [1, head, query, key], not {what}")
    if rank == 3:
        return weights
    check_index("example", example, weights.shape[0])
    return weights[example]


def check_index(what: str, index: int, n: int) -> None:
    """Raises InputError unless 0 <= index < n, KindError for what is no whole number."""
    if isinstance(index, bool) or not hasattr(index, "__index__"):
        raise KindError(f"{what} is {index!r}; a whole number is wanted")
    if not 0 <= index < n:
        raise InputError(f"there is no {what} {index}: there {'is' if n == 1 else 'are'} {count(n, what)}")
