"""Gemma (Gemma Team 2024): Llama with a scaled embedding, gains of 1 + w, wide heads and gated GELU."""

from __future__ import annotations

from dataclasses import replace

from ..model.attention import AttentionSpec
from ..model.block import PreNorm
from ..model.embedding import ScaledTokenEmbeddingSpec
from ..model.norms import OnePlusRMSNormSpec
from ..spec import ModelSpec
from ._config import Config
from ._decoder import assembled, gated, heads_of, sources
from ._rotary import rotary

__all__ = ["IGNORED", "PREFIX", "sources", "spec"]

PREFIX = "model."
IGNORED = ()
TANH = "gelu_pytorch_tanh"


def spec(config: Config) -> ModelSpec:
    heads, n_ctx = heads_of(config), config.integer("max_position_embeddings")
    config.only("use_bidirectional_attention", False)
    bias = config.flag("attention_bias", False)
    attn = AttentionSpec(*heads, rotary=rotary(config, heads.d_head, n_ctx), bias=bias, bias_out=bias)
    mlp, named = gated(config, activation=TANH), config.take("hidden_act", TANH)
    if named == "gelu":  # the first files say so of the approximation by tanh that they were trained with
        mlp, named = replace(mlp, activation="gelu_tanh"), TANH
    # Releases 4 of transformers looked at this key, if it was there, and releases 5 look at hidden_act.
    config.only("hidden_activation", None, named)
    norm = OnePlusRMSNormSpec(config.number("rms_norm_eps", 1e-6))
    return assembled(
        config,
        [PreNorm(attn, mlp, norm, norm)] * config.n_layers("num_hidden_layers"),
        norm,
        tied=True,
        embed=ScaledTokenEmbeddingSpec(config.integer("vocab_size"), config.integer("hidden_size") ** 0.5),
    )
