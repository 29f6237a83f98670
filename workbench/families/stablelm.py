"""StableLM, up to StableLM 2 (Bellagente et al. 2024): Llama with LayerNorm and a rotation of the first part of each
head; the largest reads once for attention and feed-forward, and norms each head of queries and keys on its own."""

from __future__ import annotations

from ..model.attention import AttentionSpec
from ..model.block import PreNorm, SharedNormParallel
from ..model.norms import BiaslessLayerNormSpec, LayerNormSpec
from ..model.qk_norm import QKNormEachHeadSpec
from ..spec import ModelSpec
from . import _decoder
from ._config import Config
from ._decoder import assembled, gated, heads_of
from ._rotary import rotary
from ._sources import Sources, in_layers

PREFIX = "model."
IGNORED = ()


def spec(config: Config) -> ModelSpec:
    heads, n_ctx = heads_of(config), config.integer("max_position_embeddings")
    eps = config.number("layer_norm_eps", 1e-5)
    attn = AttentionSpec(
        *heads,
        rotary=rotary(config, heads.d_head, n_ctx, partial=0.25),
        bias=config.flag("use_qkv_bias", False),
        qk_norm=QKNormEachHeadSpec(BiaslessLayerNormSpec(eps)) if config.flag("qk_layernorm", False) else None,
    )
    wiring = SharedNormParallel if config.flag("use_parallel_residual", False) else PreNorm
    layer = wiring(attn, gated(config), LayerNormSpec(eps), LayerNormSpec(eps))
    return assembled(config, [layer] * config.n_layers("num_hidden_layers"), LayerNormSpec(eps))


def sources(spec: ModelSpec) -> Sources:
    norms = {
        f"attn.qk_norm.{part}.heads.{head}": f"self_attn.{part}_layernorm.norms.{head}"
        for part, n_heads in (("q", spec.n_heads), ("k", spec.n_kv_heads))
        for head in range(n_heads)
    }
    return _decoder.sources(spec) | in_layers(spec.n_layers, "layers", norms, "weight")
