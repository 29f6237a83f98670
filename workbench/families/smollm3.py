"""SmolLM3 (Bakouch et al. 2025): Llama in which some layers, every fourth of the published model, know no positions
(Yang et al. 2025, "RoPE to NoPE and back again")."""

from __future__ import annotations

from ..errors import FamilyError
from ..model.attention import AttentionSpec
from ..model.block import PreNorm
from ..model.norms import RMSNormSpec
from ..spec import ModelSpec
from ._config import Config
from ._decoder import assembled, gated, heads_of, sources, switched_window, windows
from ._rotary import rotary

__all__ = ["IGNORED", "PREFIX", "sources", "spec"]

PREFIX = "model."
IGNORED = ()


def spec(config: Config) -> ModelSpec:
    heads, n_layers = heads_of(config), config.n_layers("num_hidden_layers")
    rope = rotary(config, heads.d_head, config.integer("max_position_embeddings"), base=2_000_000.0)
    bias, mlp = config.flag("attention_bias", False), gated(config, bias=config.flag("mlp_bias", False))
    norm, turns = RMSNormSpec(config.number("rms_norm_eps", 1e-6)), turning(config, n_layers)

    def layer(window: int | None, turned: bool) -> PreNorm:
        attn = AttentionSpec(*heads, rotary=rope if turned else None, bias=bias, bias_out=bias, window=window)
        return PreNorm(attn, mlp, norm, norm)

    config.idle("max_window_layers")  # the published file has it from Qwen's, and the model does not look at it
    window = switched_window(config)
    types = ["full_attention" if window is None or turned else "sliding_attention" for turned in turns]
    return assembled(config, map(layer, windows(config, n_layers, window, types), turns), norm, tied=True)


def turning(config: Config, n_layers: int) -> list[bool]:
    """Which layers turn queries and keys: those with a 1 in no_rope_layers, whatever its name says."""
    listed = config.take("no_rope_layers", None)
    if listed is None:
        every = config.integer("no_rope_layer_interval", 4)
        return [(layer + 1) % every != 0 for layer in range(n_layers)]
    config.idle("no_rope_layer_interval")
    if not isinstance(listed, list) or len(listed) < n_layers or not all(item in (0, 1) for item in listed):
        raise FamilyError(
            f"{config.where} says no_rope_layers = {listed!r}; a list of {n_layers} is wanted, each 1 for a layer that "
            "turns queries and keys or 0 for one that does not"
        )
    return [bool(item) for item in listed[:n_layers]]
