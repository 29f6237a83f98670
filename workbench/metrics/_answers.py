"""Answers: which tokens a metric is about, as a person gives them and as ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from ..errors import KindError, MetricError, count
from ..tokenizer import Tokenizer

TokenLike: TypeAlias = int | str | Sequence[int | str] | Sequence[Sequence[int | str]] | Tensor

NO_ANSWER = -(2**31)  # where a set of answers has fewer than the largest


def ids_of_each(
    token: TokenLike, batch: int, n_vocab: int
) -> tuple[Int[Tensor, "example answer"], Bool[Tensor, "example answer"]]:
    """The answers of each example, and which of them there are: sets may differ in size."""
    ids = as_ids(token, None).cpu()
    if ids.ndim and len(ids) != batch:
        raise MetricError(f"the metric names {count(len(ids), 'token')} for {count(batch, 'example')}")
    ids = ids.reshape(len(ids) if ids.ndim else 1, -1)
    there = ids != NO_ANSWER
    for answers in ids:
        values, times = answers[answers != NO_ANSWER].unique(return_counts=True)
        if bool((times > 1).any()):
            raise MetricError(
                f"the metric names token {int(values[times > 1][0])} twice among the answers of an example"
            )
    if int(ids[there].min()) < 0 or int(ids.max()) >= n_vocab:
        named = ids[there].tolist()
        named = named if len(named) > 1 else named[0]
        raise MetricError(f"the metric names token {named}; the vocabulary is 0 to {n_vocab - 1}")
    return ids.where(there, 0).expand(batch, -1), there.expand(batch, -1)


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
    if ids.is_floating_point() or ids.dtype == torch.bool or ids.ndim > 2 or not ids.numel():
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
        if not 0 <= token < 2**31:
            raise MetricError(f"the metric names token {token}; ids are counted from 0")
        return token
    if not isinstance(token, str):
        raise KindError(f"a token is an id or a text, not {type(token).__name__} {token!r}")
    if tokenizer is None:
        raise MetricError(
            f"the metric's token is the text {token!r} and no tokenizer is at hand; give its id, "
            f"model.to_single_token({token!r})"
        )
    return tokenizer.single(token)
