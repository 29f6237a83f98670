"""Qwen2 (Yang et al. 2024), also Qwen1.5 and Qwen2.5: Llama with biases on queries, keys and values, and windows in the
later layers where they are switched on."""

from __future__ import annotations

from ..model.attention import AttentionSpec
from ..model.block import PreNorm
from ..model.norms import RMSNormSpec
from ..spec import ModelSpec
from ._config import Config
from ._decoder import assembled, gated, heads_of, late_windows, sources
from ._gguf import DECODER as GGUF_KEYS
from ._rotary import rotary

__all__ = ["GGUF_ARCHITECTURE", "GGUF_KEYS", "IGNORED", "PREFIX", "sources", "spec"]

PREFIX = "model."
IGNORED = ()
GGUF_ARCHITECTURE = "qwen2"


def spec(config: Config) -> ModelSpec:
    heads, n_ctx = heads_of(config), config.integer("max_position_embeddings")
    rope, mlp = rotary(config, heads.d_head, n_ctx), gated(config)
    norm = RMSNormSpec(config.number("rms_norm_eps", 1e-6))

    def layer(window: int | None) -> PreNorm:
        return PreNorm(AttentionSpec(*heads, rotary=rope, bias=True, window=window), mlp, norm, norm)

    return assembled(config, map(layer, late_windows(config, config.n_layers("num_hidden_layers"))), norm)
