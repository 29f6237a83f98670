"""Small transformers models with power, and what to compare."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from random_models import give_power
from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig, PreTrainedModel

import workbench as wb

VOCAB = 53


@dataclass
class Parity:
    """The largest differences from transformers: logits as a share of the largest logit, attention as it is."""

    logits: float
    attention: float

    @property
    def holds(self) -> bool:
        return self.logits <= 1e-5 and self.attention <= 1e-5


CONFIGS = {
    "gpt2 tied": GPT2Config(n_embd=24, n_layer=3, n_head=3, n_positions=40, vocab_size=VOCAB),
    "gpt2 untied, narrow": GPT2Config(
        n_embd=24, n_layer=2, n_head=4, n_inner=20, n_positions=40, vocab_size=VOCAB, tie_word_embeddings=False
    ),
    "gpt2 relu, scaled by layer": GPT2Config(
        n_embd=24,
        n_layer=3,
        n_head=3,
        n_positions=40,
        vocab_size=VOCAB,
        activation_function="relu",
        scale_attn_by_inverse_layer_idx=True,
        layer_norm_epsilon=1e-2,
    ),
    "gpt2 unscaled": GPT2Config(
        n_embd=24, n_layer=2, n_head=3, n_positions=40, vocab_size=VOCAB, scale_attn_weights=False
    ),
    "llama grouped, untied": LlamaConfig(
        hidden_size=24,
        num_hidden_layers=3,
        num_attention_heads=6,
        num_key_value_heads=2,
        intermediate_size=40,
        vocab_size=VOCAB,
        max_position_embeddings=40,
    ),
    "llama one kv head, tied, wide heads, biases": LlamaConfig(
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=1,
        head_dim=10,
        intermediate_size=40,
        vocab_size=VOCAB,
        max_position_embeddings=40,
        tie_word_embeddings=True,
        attention_bias=True,
        mlp_bias=True,
        rms_norm_eps=1e-2,
        rope_parameters={"rope_type": "default", "rope_theta": 300.0},
    ),
    "llama every head its own, gelu": LlamaConfig(
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=40,
        vocab_size=VOCAB,
        max_position_embeddings=40,
        hidden_act="gelu",
    ),
}


def tiny(config: Any, seed: int = 0, dtype: torch.dtype = torch.float32) -> PreTrainedModel:
    """A transformers model of this config in which every parameter matters."""
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    give_power(model, seed)
    return model.to(dtype)


def padded_batch(side: str, lengths: tuple[int, ...] = (12, 5, 1)) -> tuple[torch.Tensor, torch.Tensor]:
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
        out = theirs(tokens[row : row + 1, real], output_attentions=True)
        scale = out.logits.abs().max()
        errors.logits = max(errors.logits, float((logits[row, real] - out.logits[0]).abs().max() / scale))
        for weights, wanted in zip(attention, out.attentions, strict=True):
            if weights.shape[1] != wanted.shape[1]:  # another number of heads
                return Parity(errors.logits, float("inf"))
            difference = (weights[row][:, real][:, :, real] - wanted[0]).abs().max()
            errors.attention = max(errors.attention, float(difference))
    return errors
