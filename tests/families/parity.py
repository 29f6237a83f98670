"""Small transformers models with power, and how far a model of ours is from them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import torch
from random_models import give_power
from transformers import AutoModelForCausalLM, PreTrainedModel
from transformers.utils import logging

import workbench as wb

VOCAB, N_CTX = 53, 40
TOLERANCE = 2e-5
EAGER = {"attn_implementation": "eager", "experts_implementation": "eager"}
logging.set_verbosity_error()


@dataclass
class Parity:
    """The largest differences from transformers: logits as a share of the largest logit, attention as it is."""

    logits: float
    attention: float

    @property
    def holds(self) -> bool:
        return self.logits <= TOLERANCE and self.attention <= TOLERANCE


def tiny(config: Any, seed: int = 0, dtype: torch.dtype = torch.float32) -> PreTrainedModel:
    """A transformers model of this config in which every tensor matters, buffers of the file included."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = AutoModelForCausalLM.from_config(config, **EAGER).eval()
    give_power(model, seed)
    generator = torch.Generator().manual_seed(seed + 1)
    for name, buffer in model.named_buffers():
        if name in model.state_dict() and buffer.is_floating_point():
            buffer.copy_(0.3 * torch.randn(buffer.shape, generator=generator))
    return model.to(dtype)


def padded_batch(side: str, lengths: tuple[int, ...] = (1, 5, 12)) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows from short to long, since a rotation that grows with the text keeps its growth in transformers."""
    generator = torch.Generator().manual_seed(5)
    tokens = torch.randint(0, VOCAB, (len(lengths), max(lengths)), generator=generator)
    column = torch.arange(max(lengths))
    length = torch.tensor(lengths)[:, None]
    mask = column >= max(lengths) - length if side == "left" else column < length
    return tokens * mask, mask.long()


@torch.no_grad()
def parity(ours: wb.HookedTransformer, theirs: PreTrainedModel, side: str = "left") -> Parity:
    """Each row of a padded batch of ours against its own unpadded run of theirs."""
    tokens, mask = padded_batch(side)
    logits, attention = ours(tokens, attention_mask=mask)
    errors = Parity(0.0, 0.0)
    for row in range(len(tokens)):
        real = mask[row].bool()
        out = theirs(tokens[row : row + 1, real], output_attentions=True, use_cache=False)
        scale = out.logits.abs().max()
        errors.logits = max(errors.logits, float((logits[row, real] - out.logits[0]).abs().max() / scale))
        for weights, wanted in zip(attention, out.attentions, strict=True):
            if weights.shape[1] != wanted.shape[1]:  # another number of heads
                return Parity(errors.logits, float("inf"))
            difference = (weights[row][:, real][:, :, real] - wanted[0]).abs().max()
            errors.attention = max(errors.attention, float(difference))
    return errors
