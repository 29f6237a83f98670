"""The logit lens (nostalgebraist 2020): what the model would say if it stopped here.

Each stream goes through the final norm with its own statistics, then through the unembedding. At the last layer that
is the model's own output.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..errors import InputError
from ..hooked import HookedTransformer
from ..inputs import TextLike
from ..run import stream_logits


@dataclass(frozen=True)
class Lens:
    """The most probable next tokens at each place.

    tokens, logprobs: [batch, layer, pos, k], n_layers + 1 rows: the stream before each block, then the last.
    labels:     what the rows are called.
    str_tokens: for each example, its tokens as texts; numbers where the model has no tokenizer.
    texts:      for each example, row and position, the k tokens as texts.
    """

    tokens: Int[Tensor, "batch layer pos k"]
    logprobs: Float[Tensor, "batch layer pos k"]
    labels: tuple[str, ...]
    str_tokens: list[list[str]]
    texts: list[list[list[list[str]]]]

    def figure(self, example: int = 0):
        """The top token at each layer and position, coloured by its probability."""
        from .. import figures

        return figures.lens(self, example)


def logit_lens(model: HookedTransformer, tokens: TextLike, top_k: int = 10) -> Lens:
    """The k most probable next tokens before each block and after the last, natural log-probabilities in float32."""
    if not 1 <= top_k <= model.spec.vocab_size:
        raise InputError(f"top_k is {top_k}; a number from 1 to {model.spec.vocab_size} is wanted")
    ids = model.to_tokens(tokens)
    n_layers = model.spec.n_layers
    last = f"blocks.{n_layers - 1}.hook_resid_post"
    _, cache = model.run_with_cache(tokens, names_filter=["resid_pre", last])
    streams = [cache["resid_pre", layer] for layer in range(n_layers)] + [cache[last]]
    best = [_top(stream_logits(model, stream), top_k) for stream in streams]
    logprobs, chosen = (torch.stack(parts, dim=1) for parts in zip(*best, strict=True))
    return Lens(
        tokens=chosen,
        logprobs=logprobs,
        labels=(*(f"{layer}_pre" for layer in range(n_layers)), "final"),
        str_tokens=[_texts(model, row.tolist()) for row in ids],
        texts=[[[_texts(model, k) for k in pos] for pos in row] for row in chosen.tolist()],
    )


def _top(logits: Float[Tensor, "batch pos vocab"], k: int) -> tuple[Tensor, Tensor]:
    best = logits.float().log_softmax(-1).topk(k, dim=-1)
    return best.values, best.indices


def _texts(model: HookedTransformer, ids: list[int]) -> list[str]:
    return [str(token) if model.tokenizer is None else model.tokenizer.piece(token) for token in ids]
