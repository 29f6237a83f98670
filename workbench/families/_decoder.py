"""What most families since Llama share: the keys of their configs and the names of their tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ..errors import FamilyError
from ..model.embedding import TiedUnembeddingSpec, TokenEmbeddingSpec, UnembeddingSpec
from ..model.mlp import GatedMLPSpec
from ..model.moe import MixtureOfExpertsSpec
from ..model.rotary_scaling import DynamicNTKSpec
from ..spec import ComponentSpec, LayerSpec, ModelSpec
from ._config import Config
from ._sources import Source, Sources, gated_experts, in_layers

NAMES = {
    "ln1": "input_layernorm",
    "attn.q": "self_attn.q_proj",
    "attn.k": "self_attn.k_proj",
    "attn.v": "self_attn.v_proj",
    "attn.o": "self_attn.o_proj",
    "attn.qk_norm.q.norm": "self_attn.q_norm",
    "attn.qk_norm.k.norm": "self_attn.k_norm",
    "ln2": "post_attention_layernorm",
    "mlp.gate": "mlp.gate_proj",
    "mlp.in_": "mlp.up_proj",
    "mlp.out": "mlp.down_proj",
}

# Where output norms stand beside those (Gemma 2), or alone (OLMo 2).
OUTPUT_NORM_NAMES = NAMES | {
    "ln1_post": "post_attention_layernorm",
    "ln2": "pre_feedforward_layernorm",
    "ln2_post": "post_feedforward_layernorm",
}


class Heads(NamedTuple):
    """What every attention begins with: `AttentionSpec(*heads, ...)`."""

    n_heads: int
    n_kv_heads: int
    d_head: int


def heads_of(config: Config) -> Heads:
    n_heads = config.integer("num_attention_heads")
    d_head = config.d_head(config.integer("hidden_size"), n_heads)
    return Heads(n_heads, config.integer("num_key_value_heads", n_heads), d_head)


def gated(
    config: Config,
    *,
    size_key: str = "intermediate_size",
    activation_key: str = "hidden_act",
    activation: str = "silu",
    bias: bool = False,
) -> GatedMLPSpec:
    """activation: the family's own where the file says nothing."""
    return GatedMLPSpec(config.integer(size_key), config.activation(activation_key, activation), bias)


def assembled(
    config: Config,
    layers: Iterable[LayerSpec],
    ln_final: ComponentSpec | None,
    *,
    tied: bool = False,
    embed: ComponentSpec | None = None,
    pos_embed: ComponentSpec | None = None,
    bias: bool = False,
    **logits: Any,
) -> ModelSpec:
    """The model around its layers.

    tied:   whether the unembedding is, where the file does not say.
    embed:  where it is not a plain one;  bias: whether logits have one;  logits: their scale and softcap.
    """
    vocab_size, layers = config.integer("vocab_size"), tuple(layers)
    if config.flag("tie_word_embeddings", tied):
        unembed = TiedUnembeddingSpec(vocab_size if bias else 0, **logits)
    else:
        unembed = UnembeddingSpec(vocab_size, bias, **logits)
    return ModelSpec(
        d_model=config.integer("hidden_size"),
        n_ctx=_reach(config.integer("max_position_embeddings"), layers),
        embed=embed or TokenEmbeddingSpec(vocab_size),
        pos_embed=pos_embed,
        layers=layers,
        ln_final=ln_final,
        unembed=unembed,
    )


def _reach(n_ctx: int, layers: Iterable[LayerSpec]) -> int:
    """How long a text may be: files of dynamic NTK give the length at which the base begins to grow."""
    scalings = [getattr(getattr(layer.attn, "rotary", None), "scaling", None) for layer in layers]
    return max([n_ctx, *(int(n_ctx * s.factor) for s in scalings if isinstance(s, DynamicNTKSpec))])


def windows(config: Config, n_layers: int, window: int | None, types: Iterable[str] | None = None) -> list[int | None]:
    """Of each layer, by `layer_types`: the window where it is "sliding_attention", None where "full_attention".

    types: the family's own where the file does not list them.
    """
    listed = config.take("layer_types", None if types is None else list(types))
    known = {"full_attention": None, "sliding_attention": window}
    if not isinstance(listed, list) or len(listed) != n_layers or not set(listed) <= known.keys():
        raise FamilyError(
            f"{config.where} says layer_types = {listed!r}; a list of {n_layers} is wanted, each 'full_attention' or "
            "'sliding_attention'"
        )
    if window is None and "sliding_attention" in listed:
        raise FamilyError(f"{config.where} says layer_types with 'sliding_attention', and no sliding_window")
    if "sliding_attention" not in listed:
        config.idle("sliding_window")
    return [known[kind] for kind in listed]


def switched_window(config: Config) -> int | None:
    """The window where use_sliding_window says so; files give a width also where it is off."""
    if config.flag("use_sliding_window", False):
        return config.integer("sliding_window")
    config.idle("sliding_window")
    return None


def late_windows(config: Config, n_layers: int) -> list[int | None]:
    """Of each layer, as Qwen's files have it: a window where it is switched on, from layer max_window_layers on, unless
    the layers are listed."""
    window, first = switched_window(config), n_layers
    if window is None or config.take("layer_types", None) is not None:
        config.idle("max_window_layers")
    else:
        first = config.integer("max_window_layers", least=0)
    types = ["full_attention" if layer < first else "sliding_attention" for layer in range(n_layers)]
    return windows(config, n_layers, window, types)


def sources(
    spec: ModelSpec,
    names: Mapping[str, str] = NAMES,
    *,
    layers: str = "layers",
    embed: str = "embed_tokens",
    pos_embed: str = "embed_positions",
    ln_final: str = "norm",
) -> Sources:
    """Where a model of this kind keeps its parameters.

    names: those within a layer, ours to the file's;  the others: what the file calls what lies around them.
    """
    around: Sources = {
        "embedding.weight": Source(f"{embed}.weight"),
        "pos_embedding.weight": Source(f"{pos_embed}.weight"),
        "ln_final.weight": Source(f"{ln_final}.weight"),
        "ln_final.bias": Source(f"{ln_final}.bias"),
        "unembedding.weight": Source("lm_head.weight", of_head=True),
        "unembedding.bias": Source("lm_head.bias", of_head=True),
    }
    return around | in_layers(spec.n_layers, layers, names)


def moe_sources(spec: ModelSpec, names: Mapping[str, str] = NAMES) -> Sources:
    """Those of a decoder whose mixtures lie as Qwen's and DeepSeek's do: a gate, experts, perhaps shared ones."""
    found = sources(spec, dict(names) | {f"mlp.shared.{ours}": theirs for ours, theirs in _SHARED.items()})
    for layer in range(spec.n_layers):
        ours, theirs = f"blocks.{layer}.mlp", f"layers.{layer}.mlp"
        found[f"{ours}.router.weight"] = Source(f"{theirs}.gate.weight")
        found[f"{ours}.router.choice_bias.weight"] = Source(f"{theirs}.gate.e_score_correction_bias")
        found |= gated_experts(
            f"{ours}.experts",
            n_experts_in(spec, layer),
            each=f"{theirs}.experts",
            together=f"{theirs}.experts",
            names={"gate": "gate_proj", "in_": "up_proj", "out": "down_proj"},
        )
    return found


_SHARED = {
    "mlp.gate": "mlp.shared_experts.gate_proj",
    "mlp.in_": "mlp.shared_experts.up_proj",
    "mlp.out": "mlp.shared_experts.down_proj",
}


def n_experts_in(spec: ModelSpec, layer: int) -> int:
    """How many experts a layer has; 0 where it is dense."""
    mlp = spec.layers[layer].mlp
    return mlp.router.n_experts if isinstance(mlp, MixtureOfExpertsSpec) else 0
