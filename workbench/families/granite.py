"""Granite 3 (IBM 2024): Llama with a fixed multiplier at each of four places, after muP (Yang et al. 2022): the
embedding, the scores, what each component writes, and the logits."""

from __future__ import annotations

from ..model.attention import AttentionSpec
from ..model.block import PreNorm
from ..model.embedding import ScaledTokenEmbeddingSpec
from ..model.norms import OutputScaleSpec, RMSNormSpec
from ..spec import ModelSpec
from ._config import Config
from ._decoder import assembled, gated, heads_of, sources
from ._rotary import rotary

__all__ = ["IGNORED", "PREFIX", "sources", "spec"]

PREFIX = "model."
IGNORED = ()


def spec(config: Config) -> ModelSpec:
    heads, n_ctx = heads_of(config), config.integer("max_position_embeddings")
    rope, scale = rotary(config, heads.d_head, n_ctx), config.number("attention_multiplier", 1.0)
    bias = config.flag("attention_bias", False)
    attn = AttentionSpec(*heads, rotary=rope, bias=bias, bias_out=bias, scale=scale)
    norm = RMSNormSpec(config.number("rms_norm_eps", 1e-6))
    written = OutputScaleSpec(config.number("residual_multiplier", 1.0))
    mlp = gated(config, bias=config.flag("mlp_bias", False))
    return assembled(
        config,
        [PreNorm(attn, mlp, norm, norm, written, written)] * config.n_layers("num_hidden_layers"),
        norm,
        embed=ScaledTokenEmbeddingSpec(config.integer("vocab_size"), config.number("embedding_multiplier", 1.0)),
        scale=1 / config.positive("logits_scaling", 1.0),  # the file's is a divisor
    )
