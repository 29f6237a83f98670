"""Gemma 2 (Gemma Team 2024): Gemma with norms also on what components write, a window in every other layer, and
softcaps on scores and logits."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

from ..model.attention import AttentionSpec
from ..model.block import PreNorm
from ..model.embedding import ScaledTokenEmbeddingSpec
from ..model.norms import OnePlusRMSNormSpec
from ..spec import ModelSpec
from . import _decoder, _gguf
from ._config import Config
from ._decoder import OUTPUT_NORM_NAMES, assembled, gated, heads_of, windows
from ._gguf import gain_above_one as from_gguf
from ._rotary import rotary
from ._sources import Sources

__all__ = ["GGUF_ARCHITECTURE", "GGUF_KEYS", "IGNORED", "PREFIX", "from_gguf", "gguf_config", "sources", "spec"]

PREFIX = "model."
IGNORED = ()

GGUF_ARCHITECTURE = "gemma2"
GGUF_KEYS = _gguf.DECODER | {
    "attention.sliding_window": "sliding_window",
    "attention.sliding_window_pattern": "sliding_window_pattern",
    "attn_logit_softcapping": "attn_logit_softcapping",
    "final_logit_softcapping": "final_logit_softcapping",
}
TANH = "gelu_pytorch_tanh"


def spec(config: Config) -> ModelSpec:
    heads, n_layers = heads_of(config), config.n_layers("num_hidden_layers")
    rope = rotary(config, heads.d_head, config.integer("max_position_embeddings"))
    config.only("use_bidirectional_attention", False)
    bias, scale = config.flag("attention_bias", False), config.positive("query_pre_attn_scalar") ** -0.5
    cap = config.number_or_null("attn_logit_softcapping", absent=50.0)
    mlp = gated(config, activation_key="hidden_activation", activation=TANH)
    config.only("hidden_act", None, config.take("hidden_activation", TANH))  # the same once more
    norm = OnePlusRMSNormSpec(config.number("rms_norm_eps", 1e-6))

    def layer(window: int | None) -> PreNorm:
        attn = AttentionSpec(*heads, rope, bias, bias, window, scale, softcap=cap)
        return PreNorm(attn, mlp, norm, norm, norm, norm)

    window = config.integer("sliding_window")
    config.only("sliding_window_size", None, window)  # the same once more
    types = ["full_attention" if index % 2 else "sliding_attention" for index in range(n_layers)]
    return assembled(
        config,
        map(layer, windows(config, n_layers, window, types)),
        norm,
        tied=True,
        embed=ScaledTokenEmbeddingSpec(config.integer("vocab_size"), config.integer("hidden_size") ** 0.5),
        softcap=config.number_or_null("final_logit_softcapping", absent=30.0),
    )


def sources(spec: ModelSpec) -> Sources:
    return _decoder.sources(spec, OUTPUT_NORM_NAMES)


def gguf_config(said: Config, tensors: Set[str]) -> dict[str, Any]:
    """Windows as llama.cpp has them where the file says nothing, and the scale of queries, of which it never does."""
    every, n_layers = said.integer("sliding_window_pattern", 2), said.n_layers("num_hidden_layers")
    types = ["sliding_attention" if (index + 1) % every else "full_attention" for index in range(n_layers)]
    return {
        "layer_types": types,
        "query_pre_attn_scalar": _gguf.gemma_scalar(said, n_layers_of_27b=46),
        "sliding_window": said.integer("sliding_window", 4096),
        "sliding_window_pattern": None,
        "tie_word_embeddings": True,  # llama.cpp has no name for another unembedding
    }
