"""DeepSeek-V3 (DeepSeek-AI 2024): DeepSeek-V2 with experts scored by a sigmoid and chosen within the best groups, under
a bias that keeps their use even. R1 and Moonlight are such models."""

from __future__ import annotations

from ..model.rotary import NeighbourRotarySpec, RotarySpec
from ..model.router import RouterSpec
from ..spec import ModelSpec
from . import _deepseek
from ._config import Config
from ._deepseek import latent_attention, of_no_use, sources

__all__ = ["IGNORED", "PREFIX", "of_no_use", "sources", "spec"]

PREFIX = "model."
IGNORED = ()


def spec(config: Config) -> ModelSpec:
    config.only("scoring_func", "sigmoid")
    config.only("topk_method", "noaux_tc")
    config.idle("num_nextn_predict_layers", "num_mtp_layers")  # they stand after the model's own
    router = RouterSpec(
        config.integer("n_routed_experts"),
        config.integer("num_experts_per_tok"),
        score="sigmoid",
        normalized=config.flag("norm_topk_prob", True),
        scale=config.number("routed_scaling_factor", 1.0),
        choice_bias=True,
        n_groups=config.integer("n_group"),
        top_groups=config.integer("topk_group"),
        group_score="best_two",
    )
    kind = NeighbourRotarySpec if config.flag("rope_interleave", True) else RotarySpec
    return _deepseek.model(config, latent_attention(config, kind), router)
