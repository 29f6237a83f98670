"""GPT-NeoX (Black et al. 2022), also Pythia (Biderman et al. 2023): attention and feed-forward side by side, each with
a norm of its own, and a rotation of the first part of each head."""

from __future__ import annotations

from ..model.attention import AttentionSpec
from ..model.block import Parallel, PreNorm
from ..model.mlp import MLPSpec
from ..model.norms import LayerNormSpec
from ..spec import ModelSpec
from . import _decoder
from ._config import Config
from ._decoder import assembled, heads_of
from ._rotary import rotary
from ._sources import Source, Sources

PREFIX = "gpt_neox."
# Masks and frequencies that old files keep as buffers.
IGNORED = (r"layers\.\d+\.attention\.(masked_)?bias",)

NAMES = {
    "ln1": "input_layernorm",
    "attn.o": "attention.dense",
    "ln2": "post_attention_layernorm",
    "mlp.in_": "mlp.dense_h_to_4h",
    "mlp.out": "mlp.dense_4h_to_h",
}


def spec(config: Config) -> ModelSpec:
    heads = heads_of(config)
    turn = rotary(
        config,
        heads.d_head,
        config.integer("max_position_embeddings"),
        partial=0.25,
        base_key=config.named("rotary_emb_base", "rope_theta"),
        partial_key=config.named("rotary_pct", "partial_rotary_factor"),
    )
    bias = config.flag("attention_bias", True)
    attn = AttentionSpec(*heads, rotary=turn, bias=bias, bias_out=bias)
    mlp = MLPSpec(config.integer("intermediate_size"), config.activation("hidden_act", "gelu"))
    norm = LayerNormSpec(config.number("layer_norm_eps", 1e-5))
    wiring = Parallel if config.flag("use_parallel_residual", True) else PreNorm
    layer = wiring(attn, mlp, norm, norm)
    return assembled(config, [layer] * config.n_layers("num_hidden_layers"), norm)


def sources(spec: ModelSpec) -> Sources:
    found = _decoder.sources(spec, NAMES, embed="embed_in", ln_final="final_layer_norm")
    # The head is embed_out in files, and lm_head in the memory of transformers since its release 5.
    found["unembedding.weight"] = tuple(Source(f"{name}.weight", of_head=True) for name in ("lm_head", "embed_out"))
    for layer in range(spec.n_layers):
        for index, name in enumerate("qkv"):
            for field in ("weight", "bias"):
                fused = f"layers.{layer}.attention.query_key_value.{field}"
                found[f"blocks.{layer}.attn.{name}.{field}"] = _of_heads(fused, spec.n_heads, index)
    return found


def _of_heads(name: str, n_heads: int, index: int) -> Source:
    """One of q, k, v where rows are q, k, v of the first head, then of the next: rows that lie apart, so a copy."""
    return Source(name, lambda tensor: tensor.unflatten(0, (n_heads, 3, -1))[:, index].flatten(0, 1), copied=True)
