"""OLMo 2 (OLMo Team 2024): Llama with norms on what components write in place of what they read, and on queries and
keys, all heads together."""

from __future__ import annotations

from ..model.attention import AttentionSpec
from ..model.block import PreNorm
from ..model.norms import RMSNormSpec
from ..model.qk_norm import QKNormAllHeadsSpec
from ..spec import ModelSpec
from . import _decoder
from ._config import Config
from ._decoder import OUTPUT_NORM_NAMES, assembled, gated, heads_of
from ._rotary import rotary
from ._sources import Sources

PREFIX = "model."
IGNORED = ()


def spec(config: Config) -> ModelSpec:
    heads, n_ctx = heads_of(config), config.integer("max_position_embeddings")
    rope, bias = rotary(config, heads.d_head, n_ctx), config.flag("attention_bias", False)
    norm = RMSNormSpec(config.number("rms_norm_eps", 1e-5))
    attn = AttentionSpec(*heads, rotary=rope, bias=bias, bias_out=bias, qk_norm=QKNormAllHeadsSpec(norm))
    layer = PreNorm(attn, gated(config), None, None, ln1_post=norm, ln2_post=norm)
    return assembled(config, [layer] * config.n_layers("num_hidden_layers"), norm)


def sources(spec: ModelSpec) -> Sources:
    return _decoder.sources(spec, OUTPUT_NORM_NAMES)
