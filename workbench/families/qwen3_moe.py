"""Qwen 3 with a mixture of experts (Yang et al. 2025): norms of each query and key, experts without shared ones,
perhaps dense layers among the sparse."""

from __future__ import annotations

from ..model.attention import AttentionSpec
from ..model.block import PreNorm
from ..model.moe import MixtureOfExpertsSpec
from ..model.norms import RMSNormSpec
from ..model.qk_norm import QKNormSpec
from ..model.router import RouterSpec
from ..spec import ModelSpec
from ._config import Config
from ._decoder import assembled, gated, heads_of, switched_window
from ._decoder import moe_sources as sources
from ._rotary import rotary

__all__ = ["IGNORED", "PREFIX", "sources", "spec"]

PREFIX = "model."
IGNORED = ()


def spec(config: Config) -> ModelSpec:
    heads, n_ctx = heads_of(config), config.integer("max_position_embeddings")
    bias = config.flag("attention_bias", False)
    norm = RMSNormSpec(config.number("rms_norm_eps", 1e-6))
    attn = AttentionSpec(
        *heads,
        rotary=rotary(config, heads.d_head, n_ctx),
        bias=bias,
        bias_out=bias,
        window=switched_window(config),
        qk_norm=QKNormSpec(norm),
    )
    if attn.window is None:  # with one, this key is refused: only some of the programs that read these files heed it
        config.idle("max_window_layers")
    sparse = _sparse_layers(config)
    dense = PreNorm(attn, gated(config), norm, norm) if not all(sparse) else None
    if dense is None:
        config.idle("intermediate_size")
    router = RouterSpec(
        config.integer(config.named("num_local_experts", "num_experts")),
        config.integer("num_experts_per_tok"),
        normalized=config.flag("norm_topk_prob", False),
    )
    experts = MixtureOfExpertsSpec(router, gated(config, size_key="moe_intermediate_size"))
    mixed = PreNorm(attn, experts, norm, norm)
    return assembled(config, [dense if dense and not here else mixed for here in sparse], norm)


def _sparse_layers(config: Config) -> list[bool]:
    """Of each layer, whether it has experts: every few, and not those listed as dense."""
    step, dense = config.integer("decoder_sparse_step", 1), config.numbers("mlp_only_layers", ())
    return [(layer + 1) % step == 0 and layer not in dense for layer in range(config.n_layers("num_hidden_layers"))]
