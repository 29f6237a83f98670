"""Phi-3 (Abdin et al. 2024), also Phi-3.5, Phi-4 and Phi-4-mini: Mistral with fused projections in its files, and
LongRoPE (Ding et al. 2024) where it reads long texts."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

from ..model.attention import AttentionSpec
from ..model.block import PreNorm
from ..model.norms import RMSNormSpec
from ..model.rotary_scaling import LongRoPESpec
from ..spec import ModelSpec
from . import _decoder, _gguf
from ._config import Config
from ._decoder import assembled, gated, heads_of
from ._rotary import rotary
from ._sources import Sources, rows

PREFIX = "model."
IGNORED = ()

GGUF_ARCHITECTURE = "phi3"
GGUF_KEYS = _gguf.DECODER | {
    "attention.sliding_window": "sliding_window",
    "rope.dimension_count": "turned",  # of each head
}


def spec(config: Config) -> ModelSpec:
    heads, n_ctx = heads_of(config), config.integer("max_position_embeddings")
    # Microsoft's files write out what its code could do and no published model does.
    for key in ("attention_bias", "mlp_bias", "lm_head_bias"):
        config.only(key, False)
    for key in ("full_attn_mod", "interpolate_factor"):
        config.only(key, 1)
    rope = rotary(config, heads.d_head, n_ctx, partial=1.0)
    if isinstance(rope.scaling, LongRoPESpec):
        # Where it is missing, published code takes 4096 whatever stands in rope_scaling.
        config.integer("original_max_position_embeddings")
    attn = AttentionSpec(*heads, rotary=rope, window=config.window())
    norm = RMSNormSpec(config.number("rms_norm_eps", 1e-5))
    layer = PreNorm(attn, gated(config), norm, norm)
    return assembled(config, [layer] * config.n_layers("num_hidden_layers"), norm)


def sources(spec: ModelSpec) -> Sources:
    found, d_kv = _decoder.sources(spec), spec.n_kv_heads * spec.d_head
    for index in range(spec.n_layers):
        ours, theirs = f"blocks.{index}", f"layers.{index}"
        for part, name in enumerate(("attn.q", "attn.k", "attn.v")):
            fused = f"{theirs}.self_attn.qkv_proj.weight"
            found[f"{ours}.{name}.weight"] = rows(fused, spec.n_heads * spec.d_head, d_kv, d_kv, index=part)
        for part, name in enumerate(("mlp.gate", "mlp.in_")):
            fused = f"{theirs}.mlp.gate_up_proj.weight"
            found[f"{ours}.{name}.weight"] = rows(fused, spec.d_mlp, spec.d_mlp, index=part)
    return found


def gguf_config(said: Config, tensors: Set[str]) -> dict[str, Any]:
    """A window of 0 is none. llama.cpp leaves Phi's windows out; they are kept, as published code has them."""
    d_head = heads_of(said).d_head
    return {
        "partial_rotary_factor": _gguf.share_of_head(said.integer("turned", d_head), d_head),
        "sliding_window": said.take("sliding_window", None) or None,
        "turned": None,
    }
