"""Llama (Touvron et al. 2023): rotary positions, RMSNorm before each component, grouped heads, gated SiLU."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

from ..model.attention import AttentionSpec
from ..model.block import PreNorm
from ..model.norms import RMSNormSpec
from ..spec import ModelSpec
from . import _gguf
from ._config import Config
from ._decoder import assembled, gated, heads_of, sources
from ._gguf import halves as from_gguf
from ._rotary import rotary

__all__ = [
    "GGUF_ARCHITECTURE",
    "GGUF_KEYS",
    "IGNORED",
    "PREFIX",
    "from_gguf",
    "gguf_config",
    "is_gguf",
    "sources",
    "spec",
]

PREFIX = "model."
IGNORED = ()

GGUF_ARCHITECTURE = "llama"
GGUF_KEYS = _gguf.DECODER | {"expert_count": None, "expert_used_count": None}  # 0, as `is_gguf` has seen


def spec(config: Config) -> ModelSpec:
    heads, n_ctx = heads_of(config), config.integer("max_position_embeddings")
    bias = config.flag("attention_bias", False)
    attn = AttentionSpec(*heads, rotary=rotary(config, heads.d_head, n_ctx), bias=bias, bias_out=bias)
    norm = RMSNormSpec(config.number("rms_norm_eps", 1e-6))
    layer = PreNorm(attn, gated(config, bias=config.flag("mlp_bias", False)), norm, norm)
    return assembled(config, [layer] * config.n_layers("num_hidden_layers"), norm)


def is_gguf(said: Mapping[str, Any]) -> bool:
    """Mixtral has the same architecture, with experts."""
    return not said.get("expert_count")


def gguf_config(said: Config, tensors: Set[str]) -> dict[str, Any]:
    """Biases are there or not, and no key says so."""
    found = {name for name in ("attn_q", "attn_k", "attn_v", "attn_output") if f"blk.0.{name}.bias" in tensors}
    in_mlp = {name for name in ("ffn_gate", "ffn_up", "ffn_down") if f"blk.0.{name}.bias" in tensors}
    return {"attention_bias": bool(found), "mlp_bias": bool(in_mlp)}
