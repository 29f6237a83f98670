"""Llama (Touvron et al. 2023): rotary positions, RMSNorm before each component, grouped heads, gated SiLU."""

from __future__ import annotations

from einops import rearrange
from torch import Tensor

from ..model.attention import AttentionSpec
from ..model.block import PreNorm
from ..model.norms import RMSNormSpec
from ..spec import ModelSpec
from ._config import Config
from ._decoder import assembled, gated, heads_of, sources
from ._rotary import rotary

__all__ = ["GGUF_KEYS", "IGNORED", "PREFIX", "from_gguf", "sources", "spec"]

PREFIX = "model."
IGNORED = (r"layers\.\d+\.self_attn\.rotary_emb\.inv_freq",)  # computed from the config

GGUF_KEYS = {
    "embedding_length": "hidden_size",
    "block_count": "num_hidden_layers",
    "feed_forward_length": "intermediate_size",
    "context_length": "max_position_embeddings",
    "vocab_size": "vocab_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.value_length": "head_dim",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "rope.dimension_count": "head_dim",
    "rope.freq_base": "rope_theta",
}


def spec(config: Config) -> ModelSpec:
    heads, n_ctx = heads_of(config), config.integer("max_position_embeddings", 2048)
    bias = config.flag("attention_bias", False)
    attn = AttentionSpec(*heads, rotary=rotary(config, heads.d_head, n_ctx), bias=bias, bias_out=bias)
    norm = RMSNormSpec(config.number("rms_norm_eps", 1e-6))
    layer = PreNorm(attn, gated(config, bias=config.flag("mlp_bias", False)), norm, norm)
    return assembled(config, [layer] * config.n_layers("num_hidden_layers"), norm)


def from_gguf(name: str, tensor: Tensor, spec: ModelSpec) -> Tensor:
    """llama.cpp pairs neighbouring rows of q and k for its rotation; put them back as halves."""
    heads = {"q_proj": spec.n_heads, "k_proj": spec.n_kv_heads}.get(name.split(".")[-2])
    if heads is None:
        return tensor
    return rearrange(tensor, "(head pair two) ... -> (head two pair) ...", head=heads, two=2)
