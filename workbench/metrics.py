"""Metrics: from logits to one number per example.

A metric says which position and which tokens it reads, so that a sweep can compute no more than these. Any callable
from logits [batch, pos, vocab] to [batch] (or to a number) is a metric too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from .errors import KindError, MetricError, count
from .keywords import checked_keywords
from .tokenizer import Tokenizer

TokenLike: TypeAlias = int | str | Sequence[int] | Sequence[str] | Tensor
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
        """The tokens whose logits it reads, each one for all or one per example; None for the whole vocabulary."""

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

    def ids(self, batch: int, n_vocab: int) -> Int[Tensor, "example picked"] | None:
        """The ids of its tokens for each example; None for the whole vocabulary."""
        if self.tokens is None:
            return None
        return torch.stack([_ids_of_each(token, batch, n_vocab) for token in self.tokens], 1)


@dataclass(frozen=True)
class Logit(Metric):
    token: TokenLike

    @property
    def tokens(self) -> Sequence[TokenLike]:
        return (self.token,)

    def score(self, picked: Float[Tensor, "row 1"], example: Int[Tensor, " row"]) -> Float[Tensor, " row"]:
        return picked[:, 0]

    def resolved(self, tokenizer: Tokenizer | None) -> Metric:
        return replace(self, token=_ids(self.token, tokenizer))


@dataclass(frozen=True)
class LogitDiff(Metric):
    correct: TokenLike
    incorrect: TokenLike

    @property
    def tokens(self) -> Sequence[TokenLike]:
        return (self.correct, self.incorrect)

    def score(self, picked: Float[Tensor, "row 2"], example: Int[Tensor, " row"]) -> Float[Tensor, " row"]:
        return picked[:, 0] - picked[:, 1]

    def resolved(self, tokenizer: Tokenizer | None) -> Metric:
        return replace(self, correct=_ids(self.correct, tokenizer), incorrect=_ids(self.incorrect, tokenizer))


MetricLike: TypeAlias = Metric | Callable[[Tensor], Tensor]


@checked_keywords
def logit(token: TokenLike, pos: PosLike = -1) -> Metric:
    """The logit of a token: an id or a text that is one token, or a list with one per example."""
    return Logit(pos, token)


@checked_keywords
def logit_diff(correct: TokenLike, incorrect: TokenLike, pos: PosLike = -1) -> Metric:
    """logit(correct) - logit(incorrect), each an id or a text that is one token, or a list with one per example."""
    return LogitDiff(pos, correct, incorrect)


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


def lm_cross_entropy_loss(
    logits: Float[Tensor, "batch pos vocab"],
    tokens: Int[Tensor, "..."],
    attention_mask: Tensor | None = None,
    per_token: bool = False,
) -> Float[Tensor, "..."]:
    """How surprised a language model is by each token that follows another, -log p(token), in nats and float32.

    tokens:         [batch, pos].
    attention_mask: [batch, pos], 1 where there is a token; a token counts where it and the one before it are real.
    per_token:      [batch, pos - 1], NaN where it does not count; otherwise the mean over those that do.

    Raises MetricError where nothing follows anything.
    """
    if logits.ndim != 3 or tokens.shape != logits.shape[:2]:
        raise MetricError(f"logits {list(logits.shape)} and tokens {list(tokens.shape)} do not fit each other")
    real = torch.ones_like(tokens, dtype=torch.bool) if attention_mask is None else attention_mask.bool()
    if real.shape != tokens.shape:
        raise MetricError(f"attention_mask is {list(real.shape)}; the tokens' shape {list(tokens.shape)} is wanted")
    counts = (real[:, 1:] & real[:, :-1]).to(logits.device)
    if not bool(counts.any()):
        raise MetricError("no token follows another here; a text of at least two is wanted")
    following = tokens[:, 1:].to(logits.device)
    loss = F.cross_entropy(logits[:, :-1].float().transpose(1, 2), following, reduction="none")
    return loss.where(counts, torch.nan) if per_token else loss[counts].mean()


def _fits(given: PosLike, batch: int) -> bool:
    try:
        pos = torch.as_tensor(given)
    except (TypeError, ValueError, RuntimeError):
        return False
    return pos.dtype in (torch.int64, torch.int32) and (pos.ndim == 0 or pos.shape == (batch,))


def _ids_of_each(token: TokenLike, batch: int, n_vocab: int) -> Int[Tensor, " example"]:
    ids = _ids(token, None).cpu()
    if ids.ndim and len(ids) != batch:
        raise MetricError(f"the metric names {count(len(ids), 'token')} for {count(batch, 'example')}")
    if int(ids.min()) < 0 or int(ids.max()) >= n_vocab:
        raise MetricError(f"the metric names token {ids.tolist()}; the vocabulary is 0 to {n_vocab - 1}")
    return ids.expand(batch)


def _ids(token: TokenLike, tokenizer: Tokenizer | None) -> Int[Tensor, " *example"]:
    """Ids, 0-d for one token and [example] for a list."""
    if isinstance(token, Tensor):
        ids = token
    elif isinstance(token, (int, str)):
        ids = torch.tensor(_id(token, tokenizer))
    elif isinstance(token, Sequence) and token:
        ids = torch.tensor([_id(one, tokenizer) for one in token])
    else:
        raise KindError(f"a token is an id, a text or a list with one per example, not {token!r}")
    if ids.is_floating_point() or ids.dtype == torch.bool or ids.ndim > 1:
        raise KindError(f"token ids are whole numbers, one or [example]; {ids.dtype} of shape {list(ids.shape)} came")
    return ids.long()


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
