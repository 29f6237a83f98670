"""Random tokens said twice: nothing but their own repetition tells how they go on (Olsson et al. 2022, arXiv
2209.11895)."""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor

from ..errors import InputError, KindError
from ..hooked import HookedTransformer
from ..tokenizer import Tokenizer

N_TEXTS, LENGTH = 4, 50
LEAST = 2  # tokens of which each kind of head still has a place to look at


def repeated_tokens(model: HookedTransformer, seed: int) -> Int[Tensor, "batch pos"]:
    """N_TEXTS sequences of LENGTH different tokens, or as many as the context and the vocabulary hold, each said twice.

    Special tokens are not drawn; the tokenizer's BOS stands in front where its rule puts one.
    """
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise KindError(f"seed is {seed!r}; a whole number from 0 on is wanted")
    lead = [model.tokenizer.bos_id] if model.tokenizer is not None and model.tokenizer.adds_bos else []
    ids = torch.tensor(_ordinary(model.spec.vocab_size, model.tokenizer))
    length = min(LENGTH, (model.spec.n_ctx - len(lead)) // 2, len(ids))
    if length < LEAST:
        raise InputError(
            f"a context of {model.spec.n_ctx} and {len(ids)} ordinary tokens have no room for random tokens said "
            "twice; give tokens="
        )
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.stack([ids[torch.randperm(len(ids), generator=generator)[:length]] for _ in range(N_TEXTS)])
    before = torch.tensor(lead, dtype=torch.long).expand(N_TEXTS, -1)
    return torch.cat([before, drawn, drawn], 1)


def _ordinary(vocab_size: int, tokenizer: Tokenizer | None) -> list[int]:
    """The ids that a text is made of: none that a tokenizer adds to its vocabulary, as special tokens are."""
    if tokenizer is None:
        return list(range(vocab_size))
    known = set(tokenizer.backend.get_vocab(with_added_tokens=False).values())
    special = {*tokenizer.backend.get_added_tokens_decoder(), tokenizer.bos_id, tokenizer.eos_id, tokenizer.pad_id}
    return sorted(token for token in known - special if token < vocab_size)
