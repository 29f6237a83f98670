"""The logit lens (nostalgebraist 2020): what the model would say if it stopped here.

Each stream goes through the final norm with its own statistics, then through the unembedding. At the last layer that
is the model's own output.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..errors import InputError, KindError
from ..hooked import HookedTransformer
from ..inputs import TextLike
from ..keywords import checked_keywords
from ..run import stream_logits


@dataclass(frozen=True, repr=False)
class Lens:
    """The most probable next tokens at each place.

    tokens, logprobs: [batch, layer, pos, k], n_layers + 1 rows: the stream before each block, then the last, which is
                the model's own output. At padding -1 and NaN, and no text.
    labels:     what the rows are called.
    str_tokens: for each example, its tokens as texts; numbers where the model has no tokenizer.
    texts:      for each example, row and position, the k tokens as texts.
    """

    tokens: Int[Tensor, "batch layer pos k"]
    logprobs: Float[Tensor, "batch layer pos k"]
    labels: tuple[str, ...]
    str_tokens: list[list[str]]
    texts: list[list[list[list[str]]]]

    def __repr__(self) -> str:
        batch, rows, pos, k = self.tokens.shape
        return f"Lens of {batch} texts: {rows} layers x {pos} positions, {k} tokens each"

    def figure(self, example: int = 0):
        """The top token at each layer and position, coloured by its probability."""
        from .. import figures

        return figures.lens(self, example)


@checked_keywords
def logit_lens(model: HookedTransformer, tokens: TextLike, top_k: int = 10) -> Lens:
    """The k most probable next tokens before each block and after the last, natural log-probabilities in float32."""
    if not isinstance(top_k, int) or isinstance(top_k, bool):
        raise KindError(f"top_k is {top_k!r}; a whole number is wanted")
    if not 1 <= top_k <= model.spec.vocab_size:
        raise InputError(f"top_k is {top_k}; a number from 1 to {model.spec.vocab_size} is wanted")
    ids = model.to_tokens(tokens)
    logits, cache = model.run_with_cache(tokens, names_filter="resid_pre")
    best = [_top(stream_logits(model, cache[name]), top_k) for name in cache] + [_top(logits, top_k)]
    logprobs, chosen = (torch.stack(parts, dim=1) for parts in zip(*best, strict=True))
    padding = (cache.positions < 0)[:, None, :, None]
    chosen = chosen.masked_fill(padding, -1)
    ids = ids.masked_fill(cache.positions < 0, -1)
    return Lens(
        tokens=chosen,
        logprobs=logprobs.masked_fill(padding, torch.nan),
        labels=(*(f"{layer}_pre" for layer in range(model.spec.n_layers)), "final"),
        str_tokens=[model.token_texts(row.tolist()) for row in ids],
        texts=[[[model.token_texts(k) for k in pos] for pos in row] for row in chosen.tolist()],
    )


def _top(logits: Float[Tensor, "batch pos vocab"], k: int) -> tuple[Tensor, Tensor]:
    best = logits.float().log_softmax(-1).topk(k, dim=-1)
    return best.values, best.indices
