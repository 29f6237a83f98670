"""What DeepSeek's models share since their second version (DeepSeek-AI 2024): attention through latents, a few dense
layers before the sparse ones, shared experts, and in files layers that only predict further tokens."""

from __future__ import annotations

import re
from collections.abc import Set
from dataclasses import replace

from ..model.block import PreNorm
from ..model.latent_attention import LatentAttentionSpec
from ..model.moe import MixtureOfExpertsSpec, SharedExpertsSpec
from ..model.norms import RMSNormSpec
from ..model.rotary import NeighbourRotarySpec, RotarySpec
from ..model.rotary_scaling import YaRNSpec, yarn_magnitude
from ..model.router import RouterSpec
from ..spec import ComponentSpec, ModelSpec
from ._config import Config
from ._decoder import NAMES, assembled, gated, moe_sources
from ._rotary import rope_entry, rotary
from ._sources import Sources

_LATENT = {
    "attn.q.down": "self_attn.q_a_proj",
    "attn.q.norm": "self_attn.q_a_layernorm",
    "attn.q.up": "self_attn.q_b_proj",
    "attn.kv_down": "self_attn.kv_a_proj_with_mqa",
    "attn.kv_norm": "self_attn.kv_a_layernorm",
    "attn.kv_up": "self_attn.kv_b_proj",
}
_DIRECT = {"attn.q.up": "self_attn.q_proj"}


def latent_attention(config: Config, kind: type[RotarySpec] = NeighbourRotarySpec) -> LatentAttentionSpec:
    """Norms of the latents keep eps 1e-6 in every published implementation, whatever `rms_norm_eps` says."""
    n_heads, n_ctx = config.integer("num_attention_heads"), config.integer("max_position_embeddings")
    d_nope, d_rope = config.integer("qk_nope_head_dim"), config.integer("qk_rope_head_dim")
    config.only("num_key_value_heads", n_heads)  # every head has its own, expanded from the latent
    config.only("head_dim", d_rope)
    config.only("qk_head_dim", d_nope + d_rope)
    d_latent_q = None if config.take("q_lora_rank", None) is None else config.integer("q_lora_rank")
    rotation = rotary(config, d_rope, n_ctx, kind=kind)
    return LatentAttentionSpec(
        n_heads=n_heads,
        d_latent=config.integer("kv_lora_rank"),
        d_nope=d_nope,
        d_rope=d_rope,
        d_value=config.integer("v_head_dim"),
        rotary=rotation,
        d_latent_q=d_latent_q,
        norm=RMSNormSpec(1e-6),
        bias=config.flag("attention_bias", False),
        scale=_scale(config, d_nope + d_rope, rotation),
    )


def _scale(config: Config, d_head: int, rotation: RotarySpec) -> float | None:
    """These models sharpen attention for long texts in the scores, of all numbers of a head: `mscale_all_dim`. YaRN
    itself can only do so in the rotated ones, by `mscale`."""
    share, scaling = rope_entry(config).number("mscale_all_dim", 0.0), rotation.scaling
    if not share or not isinstance(scaling, YaRNSpec):
        return None
    return d_head**-0.5 * yarn_magnitude(scaling.factor, share) ** 2


def model(config: Config, attn: ComponentSpec, router: RouterSpec, *, mlp_bias: bool = False) -> ModelSpec:
    """The first layers dense, then experts beside shared ones in each. Biases are never those of routed experts."""
    config.only("moe_layer_freq", 1)
    n_layers, n_dense = config.n_layers("num_hidden_layers"), config.integer("first_k_dense_replace", least=0)
    expert = gated(config, size_key="moe_intermediate_size")
    shared = replace(expert, d_mlp=config.integer("n_shared_experts") * expert.d_mlp, bias=mlp_bias)
    norm = RMSNormSpec(config.number("rms_norm_eps", 1e-6))
    layers = [PreNorm(attn, MixtureOfExpertsSpec(router, expert, SharedExpertsSpec(shared)), norm, norm)] * n_layers
    if n_dense:
        dense = PreNorm(attn, gated(config, bias=mlp_bias), norm, norm)
        layers[:n_dense] = [dense] * min(n_dense, n_layers)
    else:
        config.idle("intermediate_size")
    return assembled(config, layers, norm)


def sources(spec: ModelSpec) -> Sources:
    attn = spec.layers[0].attn
    direct = isinstance(attn, LatentAttentionSpec) and attn.d_latent_q is None
    return moe_sources(spec, NAMES | _LATENT | (_DIRECT if direct else {}))


def of_no_use(spec: ModelSpec, left: Set[str]) -> set[str]:
    """Layers after the model's own that predict further tokens in training (DeepSeek-V3, section 2.2): each is known
    by the projection that joins its two inputs."""
    joins = [re.fullmatch(r"((?:model\.)?layers\.(\d+)\.)eh_proj\.weight", name) for name in left]
    beyond = tuple(join[1] for join in joins if join and int(join[2]) >= spec.n_layers)
    return {name for name in left if name.startswith(beyond)}
