"""Mistral (Jiang et al. 2023): Llama with a sliding window in every layer."""

from __future__ import annotations

from ..model.attention import AttentionSpec
from ..model.block import PreNorm
from ..model.norms import RMSNormSpec
from ..spec import ModelSpec
from ._config import Config
from ._decoder import assembled, gated, heads_of, sources
from ._rotary import rotary

__all__ = ["IGNORED", "PREFIX", "sources", "spec"]

PREFIX = "model."
IGNORED = ()


def spec(config: Config) -> ModelSpec:
    heads, n_ctx = heads_of(config), config.integer("max_position_embeddings")
    attn = AttentionSpec(*heads, rotary=rotary(config, heads.d_head, n_ctx), window=config.window())
    norm = RMSNormSpec(config.number("rms_norm_eps", 1e-6))
    layer = PreNorm(attn, gated(config), norm, norm)
    return assembled(config, [layer] * config.n_layers("num_hidden_layers"), norm)
