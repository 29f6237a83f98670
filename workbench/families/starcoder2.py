"""StarCoder 2 (Lozhkov et al. 2024): Mistral with LayerNorm, a plain feed-forward and biases."""

from __future__ import annotations

from ..model.attention import AttentionSpec
from ..model.block import PreNorm
from ..model.mlp import MLPSpec
from ..model.norms import LayerNormSpec
from ..spec import ModelSpec
from . import _decoder
from ._config import Config
from ._decoder import assembled, heads_of
from ._rotary import rotary
from ._sources import Sources

PREFIX = "model."
IGNORED = ()

NAMES = _decoder.NAMES | {"mlp.in_": "mlp.c_fc", "mlp.out": "mlp.c_proj"}


def spec(config: Config) -> ModelSpec:
    heads, n_ctx = heads_of(config), config.integer("max_position_embeddings")
    config.only("norm_type", "layer_norm")
    config.only("mlp_type", "default")
    config.take("rms_norm_eps", None)  # the 15B file has one, and no such norm
    bias = config.flag("use_bias", True)
    turn = rotary(config, heads.d_head, n_ctx)
    attn = AttentionSpec(*heads, rotary=turn, bias=bias, bias_out=bias, window=config.window())
    mlp = MLPSpec(config.integer("intermediate_size"), config.activation("hidden_act", "gelu_pytorch_tanh"), bias)
    norm = LayerNormSpec(config.number("norm_epsilon", 1e-5))
    layer = PreNorm(attn, mlp, norm, norm)
    return assembled(config, [layer] * config.n_layers("num_hidden_layers"), norm, tied=True)


def sources(spec: ModelSpec) -> Sources:
    return _decoder.sources(spec, NAMES)
