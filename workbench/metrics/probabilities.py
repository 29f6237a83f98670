"""Metrics that need the whole vocabulary: probabilities, ranks, and how far two predictions are apart.

A list of lists is a set of answers for each example, any of which will do: their probabilities add up, and the best
of their ranks counts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..errors import KindError, MetricError, count
from ..keywords import checked_keywords
from ..tokenizer import Tokenizer
from ._answers import NO_ANSWER, TokenLike, as_ids, ids_of_each
from ._base import Metric, OfOnePosition, PosLike

Vocabulary = Float[Tensor, "row vocab"]


@dataclass(frozen=True)
class OfAnswers(OfOnePosition):
    """What a prediction says of some answers."""

    token: TokenLike

    @property
    def tokens(self) -> None:
        return None

    def ids(self, batch: int, n_vocab: int) -> None:
        ids_of_each(self.token, batch, n_vocab)  # says what does not fit

    def resolved(self, tokenizer: Tokenizer | None) -> Metric:
        return replace(self, token=as_ids(self.token, tokenizer))

    def answers(self, picked: Vocabulary, example: Int[Tensor, " row"]) -> tuple[Tensor, Bool[Tensor, "row answer"]]:
        """The values of each row's answers, and which of them there are."""
        ids = as_ids(self.token, None).to(picked.device)
        ids = ids.expand(len(picked)) if ids.ndim == 0 else ids[example]
        ids = ids.reshape(len(picked), -1)
        there = ids != NO_ANSWER
        return picked.gather(1, ids.where(there, 0)), there


@dataclass(frozen=True)
class LogProb(OfAnswers):
    def score(
        self, picked: Vocabulary, example: Int[Tensor, " row"], read: Int[Tensor, " row"]
    ) -> Float[Tensor, " row"]:
        each, there = self.answers(picked.log_softmax(-1), example)
        return each.masked_fill(~there, float("-inf")).logsumexp(1)


@dataclass(frozen=True)
class Prob(LogProb):
    def score(
        self, picked: Vocabulary, example: Int[Tensor, " row"], read: Int[Tensor, " row"]
    ) -> Float[Tensor, " row"]:
        return super().score(picked, example, read).exp()


@dataclass(frozen=True)
class ProbDiff(OfOnePosition):
    correct: TokenLike
    incorrect: TokenLike

    @property
    def tokens(self) -> None:
        return None

    @property
    def _sides(self) -> tuple[Prob, Prob]:
        return Prob(self.pos, self.correct), Prob(self.pos, self.incorrect)

    def ids(self, batch: int, n_vocab: int) -> None:
        for side in self._sides:
            side.ids(batch, n_vocab)

    def resolved(self, tokenizer: Tokenizer | None) -> Metric:
        return replace(self, correct=as_ids(self.correct, tokenizer), incorrect=as_ids(self.incorrect, tokenizer))

    def score(
        self, picked: Vocabulary, example: Int[Tensor, " row"], read: Int[Tensor, " row"]
    ) -> Float[Tensor, " row"]:
        correct, incorrect = (side.score(picked, example, read) for side in self._sides)
        return correct - incorrect


@dataclass(frozen=True)
class Rank(OfAnswers):
    def score(
        self, picked: Vocabulary, example: Int[Tensor, " row"], read: Int[Tensor, " row"]
    ) -> Float[Tensor, " row"]:
        each, there = self.answers(picked, example)
        best = each.masked_fill(~there, float("-inf")).amax(1, keepdim=True)
        return (picked > best).sum(1).float()


@dataclass(frozen=True, eq=False)
class KLFrom(OfOnePosition):
    reference: Float[Tensor, "batch pos vocab"]

    @property
    def tokens(self) -> None:
        return None

    def ids(self, batch: int, n_vocab: int) -> None:
        n_examples, _, n_there = self.reference.shape
        if (n_examples, n_there) != (batch, n_vocab):
            raise MetricError(
                f"the reference has {n_examples} examples and {n_there} tokens, and the logits {batch} and {n_vocab}"
            )

    def positions(self, batch: int, n_pos: int) -> Int[Tensor, " example"]:
        if self.reference.shape[1] != n_pos:
            raise MetricError(
                f"the reference's logits have {count(self.reference.shape[1], 'position')} and the run's {n_pos}; "
                "those of texts of the same length are wanted"
            )
        return super().positions(batch, n_pos)

    def resolved(self, tokenizer: Tokenizer | None) -> Metric:
        return self

    def score(
        self, picked: Vocabulary, example: Int[Tensor, " row"], read: Int[Tensor, " row"]
    ) -> Float[Tensor, " row"]:
        pos = self.positions(*self.reference.shape[:2]).to(example.device)
        expected = self.reference.to(picked.device)[example, pos[example]].float().log_softmax(-1)
        return (expected.exp() * (expected - picked.log_softmax(-1))).sum(-1)


@checked_keywords
def logprob(token: TokenLike, pos: PosLike = -1) -> Metric:
    """log p(token), in nats; of a set, of any of them."""
    return LogProb(pos, token)


@checked_keywords
def prob(token: TokenLike, pos: PosLike = -1) -> Metric:
    """p(token); of a set, of any of them."""
    return Prob(pos, token)


@checked_keywords
def prob_diff(correct: TokenLike, incorrect: TokenLike, pos: PosLike = -1) -> Metric:
    """p(correct) - p(incorrect), each as in `prob` (for years, Hanna et al. 2023, section 2)."""
    return ProbDiff(pos, correct, incorrect)


@checked_keywords
def rank(token: TokenLike, pos: PosLike = -1) -> Metric:
    """How many tokens have a larger logit: 0 for the most probable; of a set, of the best."""
    return Rank(pos, token)


@checked_keywords
def kl_from(reference_logits: Float[Tensor, "batch pos vocab"], pos: PosLike = -1) -> Metric:
    """KL(reference || run) at a position, in nats: how far the run's prediction is from that of other logits
    [batch, pos, vocab], such as the clean run's."""
    if not isinstance(reference_logits, Tensor) or reference_logits.ndim != 3:
        came = list(reference_logits.shape) if isinstance(reference_logits, Tensor) else type(reference_logits).__name__
        raise KindError(f"reference logits are [batch, pos, vocab]; {came} came")
    return KLFrom(pos, reference_logits.detach())
