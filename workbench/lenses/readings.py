"""What is read off logits: the tokens they say, how sure they are, how far from the model's own output.

One matrix [row, vocab] at a time, a row being a token of a text: what is kept of it has no vocabulary axis.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from einops import einsum
from jaxtyping import Float, Int
from torch import Tensor


class Reading(NamedTuple):
    """Of one row of logits or of many; natural logarithms, float32.

    tokens, logprobs: [*row k] the most probable tokens, best first.
    entropy:          [*row] in nats.
    kl:               [*row] KL(reference || row), in nats.
    followed_logprobs, followed_ranks: [*row followed] of tokens that one wants to follow, NaN and -1 where there is
                      none; a rank counts the tokens with a larger logit, as `wb.rank` does.
    """

    tokens: Int[Tensor, "*row k"]
    logprobs: Float[Tensor, "*row k"]
    entropy: Float[Tensor, "*row"]
    kl: Float[Tensor, "*row"]
    followed_logprobs: Float[Tensor, "*row followed"]
    followed_ranks: Int[Tensor, "*row followed"]


def read(
    logits: Float[Tensor, "row vocab"],
    reference: Float[Tensor, "row vocab"],
    followed: Int[Tensor, "row followed"],
    top_k: int,
) -> Reading:
    """reference: log-probabilities; followed: ids, -1 where there is none."""
    logits = logits.float()
    logprobs = logits.log_softmax(-1)
    best = logprobs.topk(top_k, dim=-1)
    kl = _expected(reference, reference - logprobs).clamp(min=0)  # below 0 is rounding
    ids, none = followed.clamp(min=0), followed < 0
    larger = [(logits > logits.gather(1, each[:, None])).sum(1) for each in ids.unbind(1)]
    return Reading(
        tokens=best.indices,
        logprobs=best.values,
        entropy=-_expected(logprobs, logprobs),
        kl=kl,
        followed_logprobs=logprobs.gather(1, ids).masked_fill(none, torch.nan),
        followed_ranks=torch.stack(larger, 1).masked_fill(none, -1),
    )


def _expected(logprobs: Float[Tensor, "row vocab"], values: Float[Tensor, "row vocab"]) -> Float[Tensor, " row"]:
    """The mean of values under a distribution."""
    probs = logprobs.softmax(-1)  # exp, by a kernel that is twice as fast
    return einsum(probs, values, "row vocab, row vocab -> row")
