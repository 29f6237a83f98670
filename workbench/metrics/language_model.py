"""Teacher-forced: how well a model foresees what a text goes on with, token by token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from ..errors import KindError, MetricError, count
from ..keywords import checked_keywords
from ..tokenizer import Tokenizer
from ._answers import NO_ANSWER
from ._base import Labels, Metric, column_of

AnswerLike: TypeAlias = str | Sequence[int] | Sequence[str] | Sequence[Sequence[int]] | Tensor


@dataclass(frozen=True)
class OfEnding(Metric):
    """log p(token), of each token that a text ends with, given all before it.

    ending:  [example, token] ids, NO_ANSWER behind those of a shorter one; text while it is not resolved.
    at:      the columns whose logits foresee them; None where each text fills its columns.
    average: whether the mean of the tokens' surprise is taken, and not the sum of their log-probabilities.
    """

    ending: AnswerLike
    average: bool
    at: Tensor | None = None

    @property
    def tokens(self) -> None:
        return None

    def columns(self, batch: int, n_pos: int) -> Int[Tensor, "example read"]:
        if self.at is not None:
            return self.at
        ending = self._ids(batch)
        from_end = _from_end(ending)
        if int(from_end.min()) < -n_pos:
            raise MetricError(f"the answer has {-int(from_end.min()) - 1} tokens and the logits {n_pos} positions")
        return torch.where(ending == NO_ANSWER, -1, from_end + n_pos)

    def ids(self, batch: int, n_vocab: int) -> None:
        ending = self._ids(batch)
        there = ending[ending != NO_ANSWER]
        if len(outside := there[(there < 0) | (there >= n_vocab)]):
            raise MetricError(f"the metric names token {int(outside[0])}; the vocabulary is 0 to {n_vocab - 1}")

    def score(
        self, picked: Float[Tensor, "row vocab"], example: Int[Tensor, " row"], read: Int[Tensor, " row"]
    ) -> Float[Tensor, " row"]:
        ending = _ending(self.ending, None).to(picked.device)
        ending = ending.expand(1 + int(example.max()), -1) if ending.ndim == 1 else ending
        foreseen = -F.cross_entropy(picked, ending[example, read], reduction="none")
        return -foreseen / (ending[example] != NO_ANSWER).sum(1) if self.average else foreseen

    def resolved(self, tokenizer: Tokenizer | None) -> Metric:
        return replace(self, ending=_ending(self.ending, tokenizer))

    def of_texts(
        self, tokens: Int[Tensor, "example column"], real: Bool[Tensor, "example column"], labels: Labels
    ) -> Metric:
        ending = self._ids(len(tokens))
        from_end, tokens, lengths = _from_end(ending), tokens.cpu(), real.sum(1).cpu()
        there = ending != NO_ANSWER
        follows = tokens.gather(1, column_of((from_end + 1).clamp(max=-1), real))
        fits = (~there | ((follows == ending) & (from_end >= -lengths[:, None]))).all(1)
        if not fits.all():
            raise MetricError(
                f"text {int(fits.int().argmin())} does not end with the tokens that the metric is about; it is run "
                "with its answer at its end"
            )
        return replace(self, at=torch.where(there, column_of(from_end, real), -1))

    def _ids(self, batch: int) -> Int[Tensor, "example token"]:
        ending = _ending(self.ending, None).cpu()
        if ending.ndim == 1:
            return ending.expand(batch, -1)
        if len(ending) != batch:
            raise MetricError(f"the metric names {count(len(ending), 'answer')} for {count(batch, 'example')}")
        return ending


def _from_end(ending: Int[Tensor, "example token"]) -> Int[Tensor, "example token"]:
    """Where the logits stand that foresee each of them, from the end."""
    n_tokens = (ending != NO_ANSWER).sum(1, keepdim=True)
    return torch.arange(ending.shape[1]) - n_tokens - 1


def _ending(given: AnswerLike, tokenizer: Tokenizer | None) -> Int[Tensor, "*example token"]:
    """Ids: [token] of one answer for all, [example, token] of one for each."""
    if isinstance(given, Tensor):
        ids = given
    elif isinstance(given, str):
        ids = torch.tensor(_ids_of(given, tokenizer))
    elif isinstance(given, Sequence) and given and not isinstance(given, bytes) and all(map(_is_id, given)):
        ids = torch.tensor(given)
    elif isinstance(given, Sequence) and given and not isinstance(given, bytes):
        rows = [torch.tensor(_ids_of(one, tokenizer)) for one in given]
        ids = pad_sequence(rows, batch_first=True, padding_value=NO_ANSWER)
    else:  # bytes are no ids
        raise KindError(f"an answer is a text, ids, or a list with one for each example; {given!r} came")
    if ids.is_floating_point() or ids.dtype == torch.bool or ids.ndim not in (1, 2) or not ids.numel():
        raise KindError(
            f"an answer's ids are whole numbers, [token] or [example, token]; {ids.dtype} {list(ids.shape)}"
        )
    return ids.long()


def _is_id(one: object) -> bool:
    return isinstance(one, int) and not isinstance(one, bool) and 0 <= one < 2**31


def _ids_of(answer: object, tokenizer: Tokenizer | None) -> list[int]:
    if isinstance(answer, str) and tokenizer is None:
        raise MetricError(f"the metric's answer is the text {answer!r} and no tokenizer is at hand; give its ids")
    ids = tokenizer.continuation(answer) if isinstance(answer, str) and tokenizer is not None else answer
    if not isinstance(ids, Sequence) or not ids or not all(map(_is_id, ids)):
        raise MetricError(f"an answer is a text or a list of ids, of at least one token; {answer!r} came")
    return list(ids)


@checked_keywords
def answer_logprob(answer: AnswerLike) -> Metric:
    """log p of an answer of one or several tokens, in nats, teacher-forced: the sum of log p(token | all before it).

    The texts are run with the answer at their end:

        activation_patching(model, clean + answer, corrupted + answer, wb.answer_logprob(answer))

    answer: a text (as it continues another, with its leading space) or ids, or a list with one for each example.
    """
    return OfEnding(answer, average=False)


@checked_keywords
def loss(tokens: Int[Tensor, "*batch pos"], attention_mask: Tensor | None = None) -> Metric:
    """The cross-entropy of a run, in nats: the mean of -log p(token | all before it) over all tokens but the first.

    tokens: those that are run, [pos] or [batch, pos], with an attention_mask where they are padded: as
    model.to_tokens(text) gives them.
    """
    if not isinstance(tokens, Tensor):
        raise KindError(
            f"a loss is of the tokens that are run, a tensor [pos] or [batch, pos]; {type(tokens).__name__} came"
        )
    if tokens.ndim not in (1, 2) or tokens.shape[-1] < 2:
        raise MetricError(f"a loss is of at least two tokens, [pos] or [batch, pos]; {list(tokens.shape)} came")
    if attention_mask is None:
        return OfEnding(tokens[..., 1:], average=True)
    if not isinstance(attention_mask, Tensor) or attention_mask.shape != tokens.shape or tokens.ndim != 2:
        came = list(attention_mask.shape) if isinstance(attention_mask, Tensor) else type(attention_mask).__name__
        raise MetricError(f"attention_mask is {came}; the tokens' {list(tokens.shape)} is wanted")
    rows = [row[mask.bool()][1:].tolist() for row, mask in zip(tokens, attention_mask, strict=True)]
    if [] in rows:
        raise MetricError(f"a loss is of at least two tokens, and row {rows.index([])} has fewer")
    return OfEnding(rows, average=True)


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
