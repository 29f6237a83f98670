"""Qwen3 (Yang et al. 2025): Qwen2 whose queries and keys are normed, head by head, in place of their biases."""

from __future__ import annotations

from ..model.attention import AttentionSpec
from ..model.block import PreNorm
from ..model.norms import RMSNormSpec
from ..model.qk_norm import QKNormSpec
from ..spec import ModelSpec
from ._config import Config
from ._decoder import assembled, gated, heads_of, late_windows, sources
from ._gguf import DECODER as GGUF_KEYS
from ._rotary import rotary

__all__ = ["GGUF_ARCHITECTURE", "GGUF_KEYS", "IGNORED", "PREFIX", "sources", "spec"]

PREFIX = "model."
IGNORED = ()
GGUF_ARCHITECTURE = "qwen3"


def spec(config: Config) -> ModelSpec:
    heads, n_ctx = heads_of(config), config.integer("max_position_embeddings")
    rope, bias = rotary(config, heads.d_head, n_ctx), config.flag("attention_bias", False)
    mlp, norm = gated(config), RMSNormSpec(config.number("rms_norm_eps", 1e-6))

    def layer(window: int | None) -> PreNorm:
        attn = AttentionSpec(*heads, rotary=rope, bias=bias, bias_out=bias, window=window, qk_norm=QKNormSpec(norm))
        return PreNorm(attn, mlp, norm, norm)

    return assembled(config, map(layer, late_windows(config, config.n_layers("num_hidden_layers"))), norm)
