"""Phi, up to Phi-2 (Gunasekar et al. 2023, Li et al. 2023): attention and feed-forward side by side behind one norm, a
rotation of the first part of each head, biases everywhere."""

from __future__ import annotations

from ..model.attention import AttentionSpec
from ..model.block import SharedNormParallel
from ..model.mlp import MLPSpec
from ..model.norms import LayerNormSpec
from ..model.qk_norm import QKNormSpec
from ..spec import ModelSpec
from . import _decoder
from ._config import Config
from ._decoder import assembled, heads_of
from ._rotary import rotary
from ._sources import Sources

PREFIX = "model."
IGNORED = ()

NAMES = {
    "ln1": "input_layernorm",
    "attn.q": "self_attn.q_proj",
    "attn.k": "self_attn.k_proj",
    "attn.v": "self_attn.v_proj",
    "attn.o": "self_attn.dense",
    "attn.qk_norm.q.norm": "self_attn.q_layernorm",
    "attn.qk_norm.k.norm": "self_attn.k_layernorm",
    "mlp.in_": "mlp.fc1",
    "mlp.out": "mlp.fc2",
}


def spec(config: Config) -> ModelSpec:
    heads, n_ctx = heads_of(config), config.integer("max_position_embeddings")
    norm = LayerNormSpec(config.number("layer_norm_eps", 1e-5))
    attn = AttentionSpec(
        *heads,
        rotary=rotary(config, heads.d_head, n_ctx, partial=0.5),
        bias=True,
        bias_out=True,
        qk_norm=QKNormSpec(norm) if config.flag("qk_layernorm", False) else None,
    )
    mlp = MLPSpec(config.integer("intermediate_size"), config.activation("hidden_act", "gelu_new"))
    layer = SharedNormParallel(attn, mlp, norm, norm)
    return assembled(config, [layer] * config.n_layers("num_hidden_layers"), norm, bias=True)


def sources(spec: ModelSpec) -> Sources:
    return _decoder.sources(spec, NAMES, ln_final="final_layernorm")
