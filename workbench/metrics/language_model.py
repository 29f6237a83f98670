"""The loss that language models are trained on."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from ..errors import MetricError


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
