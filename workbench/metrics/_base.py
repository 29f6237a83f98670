"""What every metric shares: which columns and tokens it reads, and how a callable stands in for one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..errors import KindError, MetricError, count, nearest
from ..tokenizer import Tokenizer
from ._answers import TokenLike, ids_of_each

PosLike: TypeAlias = int | str | Sequence[int] | Tensor
Labels: TypeAlias = Mapping[str, Int[Tensor, " example"]]


@dataclass(frozen=True)
class Metric(ABC):
    """One number per example: a sum over the columns of the logits that it reads."""

    def __call__(self, logits: Float[Tensor, "batch pos vocab"]) -> Float[Tensor, " batch"]:
        """In float32. Raises MetricError where tokens are still text or do not fit the logits."""
        if not isinstance(logits, Tensor) or logits.ndim != 3:
            came = list(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
            raise MetricError(f"a metric reads logits [batch, pos, vocab]; {came} came")
        batch, n_pos, n_vocab = logits.shape
        columns, ids = self.columns(batch, n_pos).to(logits.device), self.ids(batch, n_vocab)
        example, read = (columns >= 0).nonzero(as_tuple=True)
        picked = logits[example, columns[example, read]].float()
        if ids is not None:
            picked = picked.gather(1, ids.to(logits.device)[example])
        return picked.new_zeros(batch).index_add(0, example, self.score(picked, example, read))

    @abstractmethod
    def columns(self, batch: int, n_pos: int) -> Int[Tensor, "example read"]:
        """Which columns of each example it reads, in texts of n_pos; -1 where one has fewer than others."""

    @property
    @abstractmethod
    def tokens(self) -> Sequence[TokenLike] | None:
        """The answers whose logits it reads, each a token or a set of them, for all or per example; None for the whole
        vocabulary."""

    @abstractmethod
    def score(
        self, picked: Float[Tensor, "row picked"], example: Int[Tensor, " row"], read: Int[Tensor, " row"]
    ) -> Float[Tensor, " row"]:
        """What the logits of its tokens, in float32, add to its value: of these examples, at these of their reads."""

    @abstractmethod
    def resolved(self, tokenizer: Tokenizer | None) -> Metric:
        """The same metric with its tokens as ids."""

    @abstractmethod
    def of_texts(
        self, tokens: Int[Tensor, "example column"], real: Bool[Tensor, "example column"], labels: Labels
    ) -> Metric:
        """The same metric of texts that stand in a padded batch. What it says of positions counts real tokens, from
        the end of each text when negative.

        labels: positions that have a name, in real tokens."""

    def ids(self, batch: int, n_vocab: int) -> Int[Tensor, "example picked"] | None:
        """The ids of its tokens for each example; None for the whole vocabulary."""
        if self.tokens is None:
            return None
        return torch.cat([ids_of_each(token, batch, n_vocab)[0] for token in self.tokens], 1)


@dataclass(frozen=True)
class OfOnePosition(Metric):
    """Read at one position.

    pos: a position, counted from the end when negative, or one per example; or a label that the sweep knows.
    """

    pos: PosLike

    def columns(self, batch: int, n_pos: int) -> Int[Tensor, "example 1"]:
        return self.positions(batch, n_pos)[:, None]

    def positions(self, batch: int, n_pos: int) -> Int[Tensor, " example"]:
        """Which position of each example it reads, of texts of n_pos positions."""
        if isinstance(self.pos, str):
            raise MetricError(
                f"the metric reads the label {self.pos!r}, which a sweep knows with positions={{label: ...}}"
            )
        pos = torch.as_tensor(self.pos).expand(batch) if _fits(self.pos, batch) else None
        if pos is None or int(pos.min()) < -n_pos or int(pos.max()) >= n_pos:
            raise MetricError(
                f"the metric reads position {self.pos!r}; the logits have {count(n_pos, 'position')} "
                f"of {count(batch, 'example')}"
            )
        return torch.where(pos < 0, pos + n_pos, pos).cpu()

    def of_texts(
        self, tokens: Int[Tensor, "example column"], real: Bool[Tensor, "example column"], labels: Labels
    ) -> Metric:
        lengths, given = real.sum(1).cpu(), self.pos
        if isinstance(given, str):
            if given not in labels:
                raise MetricError(
                    f"the metric reads the position {given!r}, which is no label; {nearest(given, labels)}"
                )
            given = labels[given]
        pos = torch.as_tensor(given).expand(len(lengths)) if _fits(given, len(lengths)) else None
        if pos is None or bool((pos < -lengths).any()) or bool((pos >= lengths).any()):
            raise MetricError(
                f"the metric reads position {self.pos!r}; the texts have {', '.join(map(str, lengths.tolist()))} tokens"
            )
        return replace(self, pos=column_of(pos[:, None], real)[:, 0])


def column_of(
    positions: Int[Tensor, "example several"], real: Bool[Tensor, "example column"]
) -> Int[Tensor, "example several"]:
    """In which columns of a padded batch these positions of real tokens stand, from the end when negative."""
    real = real.cpu()
    positions = torch.where(positions < 0, positions + real.sum(1, keepdim=True), positions)
    return (real[:, None] & ((real.cumsum(1) - 1)[:, None] == positions[..., None])).int().argmax(-1)


MetricLike: TypeAlias = Metric | Callable[[Tensor], Tensor]


def resolve(metric: MetricLike, tokenizer: Tokenizer | None) -> MetricLike:
    """A metric with its tokens as ids; another callable is returned as it is."""
    if isinstance(metric, Metric):
        return metric.resolved(tokenizer)
    if not callable(metric):
        raise KindError(f"a metric is a workbench metric or a callable over logits, not {type(metric).__name__}")
    return metric


def measure(metric: MetricLike, logits: Float[Tensor, "batch pos vocab"]) -> Float[Tensor, " batch"]:
    """One float32 number per example, on the CPU. A callable that returns a single number, a mean over the examples,
    stands for each of them."""
    returned = metric(logits)
    try:
        value = torch.as_tensor(returned).detach().float().cpu()
    except (TypeError, ValueError, RuntimeError):
        raise MetricError(
            f"the metric returned {type(returned).__name__}; one number per example, [{len(logits)}], is wanted"
        ) from None
    if value.ndim == 0:
        value = value.expand(len(logits))
    if value.shape != logits.shape[:1]:
        raise MetricError(
            f"the metric returned shape {list(value.shape)}; one number per example, [{len(logits)}], is wanted"
        )
    return value


def _fits(given: PosLike, batch: int) -> bool:
    try:
        pos = torch.as_tensor(given)
    except (TypeError, ValueError, RuntimeError):
        return False
    return pos.dtype in (torch.int64, torch.int32) and (pos.ndim == 0 or pos.shape == (batch,))
