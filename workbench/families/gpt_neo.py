"""GPT-Neo (Black et al. 2021): GPT-2 with unscaled attention, which sees all positions and a window in turn."""

from __future__ import annotations

from ..errors import FamilyError
from ..model.attention import AttentionSpec
from ..model.block import PreNorm
from ..model.mlp import MLPSpec
from ..model.norms import LayerNormSpec
from ..model.positions import LearnedPositionsSpec
from ..spec import ModelSpec
from . import _decoder
from ._config import Config
from ._decoder import assembled
from ._sources import Sources

PREFIX = "transformer."
IGNORED = (r"h\.\d+\.attn\.attention\.(masked_)?bias",)  # masks that old files keep as buffers

NAMES = {
    "ln1": "ln_1",
    "attn.q": "attn.attention.q_proj",
    "attn.k": "attn.attention.k_proj",
    "attn.v": "attn.attention.v_proj",
    "attn.o": "attn.attention.out_proj",
    "ln2": "ln_2",
    "mlp.in_": "mlp.c_fc",
    "mlp.out": "mlp.c_proj",
}


def spec(config: Config) -> ModelSpec:
    d_model, n_heads = config.integer("hidden_size"), config.integer("num_heads")
    d_head, d_mlp = config.d_head(d_model, n_heads), config.integer("intermediate_size", 4 * d_model)
    mlp = MLPSpec(d_mlp, config.activation("activation_function", "gelu_new"))
    norm = LayerNormSpec(config.number("layer_norm_epsilon", 1e-5))
    windows = {"global": None, "local": config.integer("window_size", 256)}

    def layer(kind: str) -> PreNorm:
        attn = AttentionSpec(n_heads, n_heads, d_head, bias_out=True, scale=1.0, window=windows[kind])
        return PreNorm(attn, mlp, norm, norm)

    kinds = _kinds(config, config.n_layers("num_layers"))
    if "local" not in kinds:
        config.idle("window_size")
    positions = LearnedPositionsSpec(config.integer("max_position_embeddings"))
    return assembled(config, [layer(kind) for kind in kinds], norm, tied=True, pos_embed=positions)


def _kinds(config: Config, n_layers: int) -> list[str]:
    """Of each layer, "global" or "local": files give patterns with how often each repeats; many, the list as well."""
    patterns = config.take("attention_types", [[["global", "local"], 12]])
    try:
        kinds = [kind for pattern, times in patterns for kind in pattern * min(times, n_layers + 1)]
    except (TypeError, ValueError):
        kinds = []
    if len(kinds) != n_layers or not all(kind in ("global", "local") for kind in kinds):
        raise FamilyError(
            f"{config.where} says attention_types = {patterns!r}; patterns of 'global' and 'local' with how often "
            f"each repeats are wanted, for {n_layers} layers in all"
        )
    config.only("attention_layers", kinds)
    return kinds


def sources(spec: ModelSpec) -> Sources:
    return _decoder.sources(spec, NAMES, layers="h", embed="wte", pos_embed="wpe", ln_final="ln_f")
