"""What every metric shares: which position and tokens it reads, and how a callable stands in for one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from ..errors import KindError, MetricError, count
from ..tokenizer import Tokenizer

TokenLike: TypeAlias = int | str | Sequence[int | str] | Sequence[Sequence[int | str]] | Tensor
PosLike: TypeAlias = int | Sequence[int] | Tensor


@dataclass(frozen=True)
class Metric(ABC):
    """One number per example, read from the logits at one position.

    pos: a position, counted from the end when negative, or one per example.
    """

    pos: PosLike

    def __call__(self, logits: Float[Tensor, "batch pos vocab"]) -> Float[Tensor, " batch"]:
        """In float32. Raises MetricError where tokens are still text or do not fit the logits."""
        if not isinstance(logits, Tensor) or logits.ndim != 3:
            came = list(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
            raise MetricError(f"a metric reads logits [batch, pos, vocab]; {came} came")
        batch, n_pos, n_vocab = logits.shape
        example = torch.arange(batch, device=logits.device)
        picked = logits[example, self.positions(batch, n_pos).to(logits.device)].float()
        ids = self.ids(batch, n_vocab)
        return self.score(picked if ids is None else picked.gather(1, ids.to(logits.device)), example)

    @property
    @abstractmethod
    def tokens(self) -> Sequence[TokenLike] | None:
        """The answers whose logits it reads, each a token or a set of them, for all or per example; None for the whole
        vocabulary."""

    @abstractmethod
    def score(self, picked: Float[Tensor, "row picked"], example: Int[Tensor, " row"]) -> Float[Tensor, " row"]:
        """The metric of the logits of its tokens, in float32, of these examples."""

    @abstractmethod
    def resolved(self, tokenizer: Tokenizer | None) -> Metric:
        """The same metric with its tokens as ids."""

    def positions(self, batch: int, n_pos: int) -> Int[Tensor, " example"]:
        """Which position of each example it reads, of texts of n_pos positions."""
        pos = torch.as_tensor(self.pos).expand(batch) if _fits(self.pos, batch) else None
        if pos is None or int(pos.min()) < -n_pos or int(pos.max()) >= n_pos:
            raise MetricError(
                f"the metric reads position {self.pos!r}; the logits have {count(n_pos, 'position')} "
                f"of {count(batch, 'example')}"
            )
        return torch.where(pos < 0, pos + n_pos, pos).cpu()

    def of_texts(self, real: Bool[Tensor, "example column"]) -> Metric:
        """The same metric of texts that stand in a padded batch, its position as the column of each: positions count
        real tokens, from the end of each text when negative."""
        lengths, given = real.sum(1).cpu(), real.cpu()
        pos = torch.as_tensor(self.pos).expand(len(lengths)) if _fits(self.pos, len(lengths)) else None
        if pos is None or bool((pos < -lengths).any()) or bool((pos >= lengths).any()):
            raise MetricError(
                f"the metric reads position {self.pos!r}; the texts have {', '.join(map(str, lengths.tolist()))} tokens"
            )
        pos = torch.where(pos < 0, pos + lengths, pos)
        column = (given & (given.cumsum(1) - 1 == pos[:, None])).int().argmax(1)
        return replace(self, pos=column)

    def ids(self, batch: int, n_vocab: int) -> Int[Tensor, "example picked"] | None:
        """The ids of its tokens for each example; None for the whole vocabulary."""
        if self.tokens is None:
            return None
        return torch.cat([ids_of_each(token, batch, n_vocab)[0] for token in self.tokens], 1)


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


def ids_of_each(
    token: TokenLike, batch: int, n_vocab: int
) -> tuple[Int[Tensor, "example answer"], Bool[Tensor, "example answer"]]:
    """The answers of each example, and which of them there are: sets may differ in size."""
    ids = as_ids(token, None).cpu()
    if ids.ndim and len(ids) != batch:
        raise MetricError(f"the metric names {count(len(ids), 'token')} for {count(batch, 'example')}")
    ids = ids.reshape(len(ids) if ids.ndim else 1, -1)
    there = ids != NO_ANSWER
    if int(ids[there].min()) < 0 or int(ids.max()) >= n_vocab:
        named = ids[there].tolist()
        named = named if len(named) > 1 else named[0]
        raise MetricError(f"the metric names token {named}; the vocabulary is 0 to {n_vocab - 1}")
    return ids.where(there, 0).expand(batch, -1), there.expand(batch, -1)


NO_ANSWER = -(2**31)  # where a set of answers has fewer than the largest


def as_ids(token: TokenLike, tokenizer: Tokenizer | None) -> Int[Tensor, "*example"]:
    """Ids, 0-d for one token, [example] for a list, [example answer] for a list of lists."""
    if isinstance(token, Tensor):
        ids = token
    elif isinstance(token, (int, str)):
        ids = torch.tensor(_id(token, tokenizer))
    elif isinstance(token, Sequence) and token and all(_is_set(one) for one in token):
        sets = [torch.tensor([_id(one, tokenizer) for one in answers]) for answers in token]  # type: ignore[union-attr]
        ids = pad_sequence(sets, batch_first=True, padding_value=NO_ANSWER)
    elif isinstance(token, Sequence) and token:
        ids = torch.tensor([_id(one, tokenizer) for one in token])
    else:
        raise KindError(f"a token is an id, a text, a list with one per example or a list of sets, not {token!r}")
    if ids.is_floating_point() or ids.dtype == torch.bool or ids.ndim > 2:
        raise KindError(f"token ids are whole numbers, one or [example]; {ids.dtype} of shape {list(ids.shape)} came")
    return ids.long()


def _is_set(answers: object) -> bool:
    """Several answers of one example, any of which will do."""
    if isinstance(answers, str) or not isinstance(answers, Sequence):
        return False
    if not answers:
        raise MetricError("a set of answers is empty; at least one token is wanted")
    return True


def _id(token: object, tokenizer: Tokenizer | None) -> int:
    if isinstance(token, int) and not isinstance(token, bool):
        return token
    if not isinstance(token, str):
        raise KindError(f"a token is an id or a text, not {type(token).__name__} {token!r}")
    if tokenizer is None:
        raise MetricError(
            f"the metric's token is the text {token!r} and no tokenizer is at hand; give its id, "
            f"model.to_single_token({token!r})"
        )
    return tokenizer.single(token)
