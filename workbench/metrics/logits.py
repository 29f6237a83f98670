"""Metrics that are linear in named logits: a sweep computes only these, and they can be taken apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from jaxtyping import Float, Int
from torch import Tensor

from ..keywords import checked_keywords
from ..tokenizer import Tokenizer
from ._answers import NO_ANSWER, TokenLike, as_ids
from ._base import Metric, OfOnePosition, PosLike


@dataclass(frozen=True)
class Logit(OfOnePosition):
    token: TokenLike

    @property
    def tokens(self) -> Sequence[TokenLike]:
        return (self.token,)

    def score(
        self, picked: Float[Tensor, "row picked"], example: Int[Tensor, " row"], read: Int[Tensor, " row"]
    ) -> Float[Tensor, " row"]:
        return _mean(picked, self.token, example)

    def resolved(self, tokenizer: Tokenizer | None) -> Metric:
        return replace(self, token=as_ids(self.token, tokenizer))


@dataclass(frozen=True)
class LogitDiff(OfOnePosition):
    correct: TokenLike
    incorrect: TokenLike

    @property
    def tokens(self) -> Sequence[TokenLike]:
        return (self.correct, self.incorrect)

    def score(
        self, picked: Float[Tensor, "row picked"], example: Int[Tensor, " row"], read: Int[Tensor, " row"]
    ) -> Float[Tensor, " row"]:
        n_correct = _n_answers(self.correct)
        correct, incorrect = picked[:, :n_correct], picked[:, n_correct:]
        return _mean(correct, self.correct, example) - _mean(incorrect, self.incorrect, example)

    def resolved(self, tokenizer: Tokenizer | None) -> Metric:
        return replace(self, correct=as_ids(self.correct, tokenizer), incorrect=as_ids(self.incorrect, tokenizer))


@checked_keywords
def logit(token: TokenLike, pos: PosLike = -1) -> Metric:
    """The logit of a token: an id or a text that is one token, or a list with one per example; a list of lists is a set
    of answers for each, whose logits are averaged."""
    return Logit(pos, token)


@checked_keywords
def logit_diff(correct: TokenLike, incorrect: TokenLike, pos: PosLike = -1) -> Metric:
    """logit(correct) - logit(incorrect), each as in `logit`."""
    return LogitDiff(pos, correct, incorrect)


def _n_answers(token: TokenLike) -> int:
    ids = as_ids(token, None)
    return ids.shape[1] if ids.ndim == 2 else 1


def _mean(picked: Float[Tensor, "row answer"], token: TokenLike, example: Int[Tensor, " row"]) -> Float[Tensor, " row"]:
    """Over the answers that there are."""
    ids = as_ids(token, None)
    if ids.ndim < 2:
        return picked[:, 0]
    there = (ids != NO_ANSWER).to(picked.device)[example]
    return (picked * there).sum(1) / there.sum(1)
