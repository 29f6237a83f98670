"""What is read off logits: the tokens they say, how sure they are, how far from the model's own output.

A few rows at a time, a row being a token of a text: what is kept of them has no vocabulary axis.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor


class Reading(NamedTuple):
    """Of places in the stream: [layer, row], or [batch, layer, pos]. Natural logarithms, float32.

    tokens, logprobs: [*place, k] the most probable tokens, best first.
    entropy:          [*place] in nats.
    kl:               [*place] KL(reference || place), in nats.
    followed_logprobs, followed_ranks: [*place, followed] of tokens that one wants to follow, NaN and -1 where there is
                      none; a rank counts the tokens with a larger logit, as `wb.rank` does.
    """

    tokens: Int[Tensor, "*place k"]
    logprobs: Float[Tensor, "*place k"]
    entropy: Float[Tensor, "*place"]
    kl: Float[Tensor, "*place"]
    followed_logprobs: Float[Tensor, "*place followed"]
    followed_ranks: Int[Tensor, "*place followed"]


def read(
    logits: Float[Tensor, "layer row vocab"],
    reference: Float[Tensor, "row vocab"],
    followed: Int[Tensor, "row followed"],
    top_k: int,
) -> Reading:
    """reference: log-probabilities; followed: ids, -1 where there is none."""
    logits = logits.float()
    logprobs = logits.log_softmax(-1)
    best = logprobs.topk(top_k, dim=-1)
    kl = _expected(reference, reference - logprobs)
    ids, none = followed.clamp(min=0).expand(len(logits), -1, -1), followed < 0
    larger = [(logits > logits.gather(2, each[..., None])).sum(2) for each in ids.unbind(2)]
    return Reading(
        tokens=best.indices,
        logprobs=best.values,
        entropy=0.0 - _expected(logprobs, logprobs),  # no -0
        kl=kl.clamp(min=0),  # below 0 is rounding
        followed_logprobs=logprobs.gather(2, ids).masked_fill(none, torch.nan),
        followed_ranks=torch.stack(larger, 2).masked_fill(none, -1),
    )


def joined(readings: Iterable[Reading], axis: int) -> Reading:
    """Readings of several layers (axis 0) or rows (1) as one."""
    return Reading(*(torch.cat(parts, axis) for parts in zip(*readings, strict=True)))


def _expected(
    logprobs: Float[Tensor, "*layer row vocab"], values: Float[Tensor, "layer row vocab"]
) -> Float[Tensor, "layer row"]:
    """The mean of values under distributions."""
    probs = logprobs.softmax(-1)  # exp, by a kernel that is twice as fast
    return (probs * values).sum(-1)  # einsum adds one by one, and loses three digits over a vocabulary
