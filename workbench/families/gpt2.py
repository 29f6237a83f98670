"""GPT-2 (Radford et al. 2019): learned positions, LayerNorm before each component, GELU, biases everywhere."""

from __future__ import annotations

from torch import Tensor

from ..model.attention import AttentionSpec
from ..model.block import PreNorm
from ..model.embedding import TiedUnembeddingSpec, TokenEmbeddingSpec, UnembeddingSpec
from ..model.mlp import MLPSpec
from ..model.norms import LayerNormSpec
from ..model.positions import LearnedPositionsSpec
from ..spec import ModelSpec
from ._config import Config
from ._sources import Source, Sources, part, transposed

PREFIX = "transformer."
IGNORED = (r"h\.\d+\.attn\.(masked_)?bias",)  # causal masks that old files keep as buffers

GGUF_ARCHITECTURE = "gpt2"
GGUF_KEYS = {
    "embedding_length": "n_embd",
    "block_count": "n_layer",
    "feed_forward_length": "n_inner",
    "context_length": "n_positions",
    "vocab_size": "vocab_size",
    "attention.head_count": "n_head",
    "attention.layer_norm_epsilon": "layer_norm_epsilon",
}


def spec(config: Config) -> ModelSpec:
    d_model, n_heads = config.integer("n_embd", 768), config.integer("n_head", 12)
    n_layers, n_ctx = config.n_layers("n_layer", 12), config.integer("n_positions", 1024)
    vocab_size = config.integer("vocab_size", 50257)
    config.only("n_ctx", n_ctx)
    config.only("add_cross_attention", False)
    norm = LayerNormSpec(config.number("layer_norm_epsilon", 1e-5))
    scaled = config.flag("scale_attn_weights", True)
    by_layer = config.flag("scale_attn_by_inverse_layer_idx", False)
    mlp = MLPSpec(config.integer("n_inner", 4 * d_model), config.activation("activation_function", "gelu_new"))
    d_head = d_model // n_heads

    def layer(index: int) -> PreNorm:
        scale = (d_head**-0.5 if scaled else 1.0) / (index + 1 if by_layer else 1)
        plain = scaled and not by_layer
        attn = AttentionSpec(n_heads, n_heads, d_head, bias=True, bias_out=True, scale=None if plain else scale)
        return PreNorm(attn, mlp, norm, norm)

    tied = config.flag("tie_word_embeddings", True)
    return ModelSpec(
        d_model=d_model,
        n_ctx=n_ctx,
        embed=TokenEmbeddingSpec(vocab_size),
        pos_embed=LearnedPositionsSpec(n_ctx),
        layers=tuple(layer(index) for index in range(n_layers)),
        ln_final=norm,
        unembed=TiedUnembeddingSpec() if tied else UnembeddingSpec(vocab_size),
    )


def sources(spec: ModelSpec) -> Sources:
    found: Sources = {
        "embedding.weight": Source("wte.weight"),
        "pos_embedding.weight": Source("wpe.weight"),
        "ln_final.weight": Source("ln_f.weight"),
        "ln_final.bias": Source("ln_f.bias"),
        "unembedding.weight": Source("lm_head.weight", of_head=True),
    }
    for index in range(spec.n_layers):
        ours, theirs = f"blocks.{index}", f"h.{index}"
        for here, there in (("ln1", "ln_1"), ("ln2", "ln_2")):
            found |= {f"{ours}.{here}.{field}": Source(f"{theirs}.{there}.{field}") for field in ("weight", "bias")}
        for number, name in enumerate("qkv"):
            found[f"{ours}.attn.{name}.weight"] = part(f"{theirs}.attn.c_attn.weight", number, of=3)
            found[f"{ours}.attn.{name}.bias"] = part(f"{theirs}.attn.c_attn.bias", number, of=3)
        for here, there in (("attn.o", "attn.c_proj"), ("mlp.in_", "mlp.c_fc"), ("mlp.out", "mlp.c_proj")):
            found[f"{ours}.{here}.weight"] = transposed(f"{theirs}.{there}.weight")
            found[f"{ours}.{here}.bias"] = Source(f"{theirs}.{there}.bias")
    return found


def from_gguf(name: str, tensor: Tensor, spec: ModelSpec) -> Tensor:
    """llama.cpp keeps every projection [out, in]."""
    return tensor.t() if name.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight")) else tensor
