"""gpt-oss (OpenAI 2025): a learned sink beside every head's scores, a window in every second layer, and experts with
biases whose gates are clamped."""

from __future__ import annotations

from functools import partial

from torch import Tensor

from ..model.attention import AttentionSpec
from ..model.block import PreNorm
from ..model.mlp import ClampedGatedMLPSpec
from ..model.moe import MixtureOfExpertsSpec
from ..model.norms import RMSNormSpec
from ..model.router import RouterSpec
from ..spec import ModelSpec
from . import _decoder
from ._config import Config
from ._decoder import NAMES, assembled, heads_of, windows
from ._rotary import rope_entry, rotary
from ._sources import Source, Sources

PREFIX = "model."
IGNORED = ()


def spec(config: Config) -> ModelSpec:
    heads, n_ctx = heads_of(config), config.integer("max_position_embeddings")
    rope_entry(config).take("rope_type")  # where a file has none, transformers assumes YaRN with numbers of its own
    turn = rotary(config, heads.d_head, n_ctx, base=150_000.0)
    config.only("initial_context_length", getattr(turn.scaling, "n_ctx", None))  # said a second time
    n_layers, bias = config.n_layers("num_hidden_layers"), config.flag("attention_bias", True)
    attn = partial(AttentionSpec, *heads, rotary=turn, bias=bias, bias_out=bias, sink=True)
    alternating = [("sliding_attention", "full_attention")[layer % 2] for layer in range(n_layers)]
    norm, experts = RMSNormSpec(config.number("rms_norm_eps", 1e-5)), _experts(config)
    layers = [
        PreNorm(attn(window=window), experts, norm, norm)
        for window in windows(config, n_layers, config.window(), alternating)
    ]
    return assembled(config, layers, norm)


def _experts(config: Config) -> MixtureOfExpertsSpec:
    config.only("hidden_act", "silu")
    router = RouterSpec(
        config.integer(config.named("num_local_experts", "num_experts")),
        config.integer(config.named("num_experts_per_tok", "experts_per_token")),
        bias=True,
    )
    expert = ClampedGatedMLPSpec(
        config.integer("intermediate_size"),
        bias=True,
        alpha=config.number("swiglu_alpha", 1.702),
        limit=config.number("swiglu_limit", 7.0),
    )
    return MixtureOfExpertsSpec(router, expert)


def sources(spec: ModelSpec) -> Sources:
    found = _decoder.sources(spec, NAMES | {"mlp.router": "mlp.router"})
    for layer in range(spec.n_layers):
        found[f"blocks.{layer}.attn.sink.weight"] = Source(f"layers.{layer}.self_attn.sinks")
        ours, theirs = f"blocks.{layer}.mlp.experts", f"layers.{layer}.mlp.experts"
        for branch, view in (("gate", _gate), ("in_", _linear)):
            found[f"{ours}.{branch}.weight"] = Source(f"{theirs}.gate_up_proj", view, copied=True)
            found[f"{ours}.{branch}.bias"] = Source(f"{theirs}.gate_up_proj_bias", view, copied=True)
        found[f"{ours}.out.weight"] = Source(f"{theirs}.down_proj")
        found[f"{ours}.out.bias"] = Source(f"{theirs}.down_proj_bias")
    return found


# Gate and linear branch alternate in the last axis. Every second number of it, as a view, has no axis in which numbers
# lie side by side, and matrix products would copy it at every pass: it is copied once instead.


def _gate(tensor: Tensor) -> Tensor:
    return tensor[..., 0::2].contiguous()


def _linear(tensor: Tensor) -> Tensor:
    return tensor[..., 1::2].contiguous()
