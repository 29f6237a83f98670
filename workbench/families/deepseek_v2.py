"""DeepSeek-V2 (DeepSeek-AI 2024): keys and values from a small latent, small experts chosen by softmax, perhaps within
the best groups, and shared ones."""

from __future__ import annotations

from ..model.router import RouterSpec
from ..spec import ModelSpec
from . import _deepseek
from ._config import Config
from ._deepseek import latent_attention, sources

__all__ = ["IGNORED", "PREFIX", "sources", "spec"]

PREFIX = "model."
IGNORED = ()


def spec(config: Config) -> ModelSpec:
    config.only("scoring_func", "softmax")
    config.only("norm_topk_prob", False)  # transformers never divides by the sum, the first implementation did
    n_groups, top_groups = _groups(config)
    router = RouterSpec(
        config.integer("n_routed_experts"),
        config.integer("num_experts_per_tok"),
        normalized=False,
        scale=config.number("routed_scaling_factor", 1.0),
        n_groups=n_groups,
        top_groups=top_groups,
    )
    return _deepseek.model(config, latent_attention(config), router, mlp_bias=config.flag("mlp_bias", False))


def _groups(config: Config) -> tuple[int, int]:
    """How many there are, and from how many of them experts are chosen."""
    config.only("topk_method", "greedy", "group_limited_greedy")
    if config.take("topk_method", "greedy") == "greedy":
        config.idle("n_group", "topk_group")
        return 1, 1
    return config.integer("n_group"), config.integer("topk_group")
