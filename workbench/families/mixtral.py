"""Mixtral (Jiang et al. 2024): Mistral with a mixture of experts in every layer, the best two of eight."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..model.attention import AttentionSpec
from ..model.block import PreNorm
from ..model.moe import MixtureOfExpertsSpec
from ..model.norms import RMSNormSpec
from ..model.router import RouterSpec
from ..spec import ModelSpec
from . import _decoder, _gguf
from ._config import Config
from ._decoder import assembled, gated, heads_of, n_experts_in
from ._gguf import halves as from_gguf
from ._rotary import rotary
from ._sources import Source, Sources, gated_experts

__all__ = ["GGUF_ARCHITECTURE", "GGUF_KEYS", "IGNORED", "PREFIX", "from_gguf", "is_gguf", "sources", "spec"]

PREFIX = "model."
IGNORED = ()

GGUF_ARCHITECTURE = "llama"
GGUF_KEYS = _gguf.DECODER | {"expert_count": "num_local_experts", "expert_used_count": "num_experts_per_tok"}


def spec(config: Config) -> ModelSpec:
    heads, n_ctx = heads_of(config), config.integer("max_position_embeddings")
    attn = AttentionSpec(*heads, rotary=rotary(config, heads.d_head, n_ctx), window=config.window())
    router = RouterSpec(config.integer("num_local_experts"), config.integer("num_experts_per_tok"), normalized=True)
    norm = RMSNormSpec(config.number("rms_norm_eps", 1e-5))
    layer = PreNorm(attn, MixtureOfExpertsSpec(router, gated(config)), norm, norm)
    return assembled(config, [layer] * config.n_layers("num_hidden_layers"), norm)


def sources(spec: ModelSpec) -> Sources:
    found = _decoder.sources(spec)
    for layer in range(spec.n_layers):
        ours, in_memory, in_files = f"blocks.{layer}.mlp", f"layers.{layer}.mlp", f"layers.{layer}.block_sparse_moe"
        found[f"{ours}.router.weight"] = (Source(f"{in_files}.gate.weight"), Source(f"{in_memory}.gate.weight"))
        found |= gated_experts(
            f"{ours}.experts",
            n_experts_in(spec, layer),
            each=f"{in_files}.experts",
            together=f"{in_memory}.experts",
            names={"gate": "w1", "in_": "w3", "out": "w2"},
        )
    return found


def is_gguf(said: Mapping[str, Any]) -> bool:
    return bool(said.get("expert_count"))
