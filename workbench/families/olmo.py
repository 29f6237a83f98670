"""OLMo (Groeneveld et al. 2024): Llama with norms that have no parameters, of a fixed eps."""

from __future__ import annotations

from ..model.attention import AttentionSpec
from ..model.block import PreNorm
from ..model.norms import PlainLayerNormSpec
from ..spec import ModelSpec
from ._config import Config
from ._decoder import assembled, gated, heads_of, sources
from ._rotary import rotary

__all__ = ["IGNORED", "PREFIX", "sources", "spec"]

PREFIX = "model."
IGNORED = ()


def spec(config: Config) -> ModelSpec:
    config.only("clip_qkv", None)  # queries, keys and values clamped before rotation, as in OLMo 1.7
    heads, n_ctx = heads_of(config), config.integer("max_position_embeddings")
    rope, bias = rotary(config, heads.d_head, n_ctx), config.flag("attention_bias", False)
    attn = AttentionSpec(*heads, rotary=rope, bias=bias, bias_out=bias)
    norm = PlainLayerNormSpec(1e-5)
    layer = PreNorm(attn, gated(config), norm, norm)
    return assembled(config, [layer] * config.n_layers("num_hidden_layers"), norm)
