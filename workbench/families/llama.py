"""Llama (Touvron et al. 2023): rotary positions, RMSNorm before each component, grouped heads, gated SiLU."""

from __future__ import annotations

from einops import rearrange
from torch import Tensor

from ..model.attention import AttentionSpec
from ..model.block import PreNorm
from ..model.embedding import TiedUnembeddingSpec, TokenEmbeddingSpec, UnembeddingSpec
from ..model.mlp import GatedMLPSpec
from ..model.norms import RMSNormSpec
from ..model.rotary import RotarySpec
from ..spec import ModelSpec
from ._config import Config
from ._sources import Source

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

_NAMES = {
    "ln1": "input_layernorm",
    "attn.q": "self_attn.q_proj",
    "attn.k": "self_attn.k_proj",
    "attn.v": "self_attn.v_proj",
    "attn.o": "self_attn.o_proj",
    "ln2": "post_attention_layernorm",
    "mlp.gate": "mlp.gate_proj",
    "mlp.in_": "mlp.up_proj",
    "mlp.out": "mlp.down_proj",
}


def spec(config: Config) -> ModelSpec:
    d_model, n_heads = config.integer("hidden_size", 4096), config.integer("num_attention_heads", 32)
    vocab_size, n_layers = config.integer("vocab_size", 32000), config.n_layers("num_hidden_layers", 32)
    bias = config.flag("attention_bias", False)
    attn = AttentionSpec(
        n_heads=n_heads,
        n_kv_heads=config.integer("num_key_value_heads", n_heads),
        d_head=config.integer("head_dim", d_model // n_heads),
        rotary=RotarySpec(config.rope_base(10_000.0)),
        bias=bias,
        bias_out=bias,
    )
    mlp = GatedMLPSpec(
        d_mlp=config.integer("intermediate_size", 11008),
        activation=config.activation("hidden_act", "silu"),
        bias=config.flag("mlp_bias", False),
    )
    norm = RMSNormSpec(config.number("rms_norm_eps", 1e-6))
    tied = config.flag("tie_word_embeddings", False)
    return ModelSpec(
        d_model=d_model,
        n_ctx=config.integer("max_position_embeddings", 2048),
        embed=TokenEmbeddingSpec(vocab_size),
        pos_embed=None,
        layers=(PreNorm(attn, mlp, norm, norm),) * n_layers,
        ln_final=norm,
        unembed=TiedUnembeddingSpec() if tied else UnembeddingSpec(vocab_size),
    )


def sources(spec: ModelSpec) -> dict[str, Source]:
    found = {
        "embedding.weight": Source("embed_tokens.weight"),
        "ln_final.weight": Source("norm.weight"),
        "unembedding.weight": Source("lm_head.weight", of_head=True),
    }
    for index in range(spec.n_layers):
        for here, there in _NAMES.items():
            for field in ("weight", "bias"):
                found[f"blocks.{index}.{here}.{field}"] = Source(f"layers.{index}.{there}.{field}")
    return found


def from_gguf(name: str, tensor: Tensor, spec: ModelSpec) -> Tensor:
    """llama.cpp pairs neighbouring rows of q and k for its rotation; put them back as halves."""
    heads = {"q_proj": spec.n_heads, "k_proj": spec.n_kv_heads}.get(name.split(".")[-2])
    if heads is None:
        return tensor
    return rearrange(tensor, "(head pair two) ... -> (head two pair) ...", head=heads, two=2)
