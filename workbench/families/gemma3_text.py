"""Gemma 3 (Gemma Team 2025), the text model: Gemma 2 with normed queries and keys in place of softcaps, five layers
with a window to one without, and a rotation for each of the two."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

from ..errors import FamilyError
from ..model.attention import AttentionSpec
from ..model.block import PreNorm
from ..model.embedding import ScaledTokenEmbeddingSpec
from ..model.norms import OnePlusRMSNormSpec
from ..model.qk_norm import QKNormSpec
from ..model.rotary import RotarySpec
from ..spec import ModelSpec
from . import _decoder, _gguf
from ._config import Config
from ._decoder import OUTPUT_NORM_NAMES, assembled, gated, heads_of, windows
from ._gguf import gain_above_one as from_gguf
from ._rotary import LAYER_TYPES, rotary
from ._sources import Sources

__all__ = ["GGUF_ARCHITECTURE", "GGUF_KEYS", "IGNORED", "PREFIX", "from_gguf", "gguf_config", "sources", "spec"]

PREFIX = "model."
IGNORED = ()

GGUF_ARCHITECTURE = "gemma3"
GGUF_KEYS = _gguf.DECODER | {
    "attention.sliding_window": "sliding_window",
    "attention.sliding_window_pattern": "sliding_window_pattern",
    "final_logit_softcapping": "final_logit_softcapping",
    "rope.freq_base_swa": "rope_local_base_freq",
}


def spec(config: Config) -> ModelSpec:
    heads, n_layers = heads_of(config), config.n_layers("num_hidden_layers")
    full, sliding = rotations(config, heads.d_head, config.integer("max_position_embeddings"))
    config.only("use_bidirectional_attention", False)
    config.only("attn_logit_softcapping", None)  # published code reads it and caps nothing
    bias, scale = config.flag("attention_bias", False), config.positive("query_pre_attn_scalar") ** -0.5
    mlp = gated(config, activation_key="hidden_activation", activation="gelu_pytorch_tanh")
    norm = OnePlusRMSNormSpec(config.number("rms_norm_eps", 1e-6))

    def layer(window: int | None) -> PreNorm:
        rope = full if window is None else sliding
        attn = AttentionSpec(*heads, rope, bias, bias, window, scale, qk_norm=QKNormSpec(norm))
        return PreNorm(attn, mlp, norm, norm, norm, norm)

    every = config.integer("sliding_window_pattern", 6)
    types = ["sliding_attention" if (index + 1) % every else "full_attention" for index in range(n_layers)]
    return assembled(
        config,
        map(layer, windows(config, n_layers, config.integer("sliding_window"), types)),
        norm,
        tied=True,
        embed=ScaledTokenEmbeddingSpec(config.integer("vocab_size"), config.integer("hidden_size") ** 0.5),
        softcap=config.number_or_null("final_logit_softcapping"),
    )


def rotations(config: Config, d_head: int, n_ctx: int) -> tuple[RotarySpec, RotarySpec]:
    """Of layers without a window, which alone may be scaled in older files, and of those with one."""
    full = rotary(config, d_head, n_ctx, base=1_000_000.0, layer_type="full_attention")
    said = config.take("rope_parameters", None)
    if said is None:
        return full, RotarySpec(config.number("rope_local_base_freq", 10_000.0))
    if not isinstance(said, Mapping) or not set(LAYER_TYPES) <= said.keys():
        raise FamilyError(
            f"{config.where} says rope_parameters = {said!r}; an object for each of {' and '.join(LAYER_TYPES)} "
            "is wanted"
        )
    config.only("rope_scaling", None)  # which would be of one of them
    return full, rotary(config, d_head, n_ctx, layer_type="sliding_attention", base_key="rope_local_base_freq")


def sources(spec: ModelSpec) -> Sources:
    return _decoder.sources(spec, OUTPUT_NORM_NAMES)


def gguf_config(said: Config, tensors: Set[str]) -> dict[str, Any]:
    """What llama.cpp takes where the file says nothing, and the scale of queries, of which it never does."""
    found: dict[str, Any] = {
        "query_pre_attn_scalar": _gguf.gemma_scalar(said, n_layers_of_27b=62),
        "rope_theta": said.number("rope_theta", 10_000.0),
    }
    if not said.take("sliding_window", None):
        types = ["full_attention"] * said.n_layers("num_hidden_layers")
        found |= {"layer_types": types, "sliding_window": said.integer("max_position_embeddings")}
    return found
