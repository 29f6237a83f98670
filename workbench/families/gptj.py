"""GPT-J (Wang and Komatsuzaki 2021): attention and feed-forward side by side behind one norm, and a rotation of
neighbouring pairs in the first part of each head."""

from __future__ import annotations

from ..model.attention import AttentionSpec
from ..model.block import SharedNormParallel
from ..model.embedding import TiedUnembeddingSpec, TokenEmbeddingSpec, UnembeddingSpec
from ..model.mlp import MLPSpec
from ..model.norms import LayerNormSpec
from ..model.rotary import NeighbourRotarySpec
from ..spec import ModelSpec
from . import _decoder
from ._config import Config
from ._sources import Sources

PREFIX = "transformer."
IGNORED = (r"h\.\d+\.attn\.(masked_)?bias",)  # masks that old files keep as buffers

NAMES = {
    "ln1": "ln_1",
    "attn.q": "attn.q_proj",
    "attn.k": "attn.k_proj",
    "attn.v": "attn.v_proj",
    "attn.o": "attn.out_proj",
    "mlp.in_": "mlp.fc_in",
    "mlp.out": "mlp.fc_out",
}


def spec(config: Config) -> ModelSpec:
    d_model, n_heads, vocab_size = config.integer("n_embd"), config.integer("n_head"), config.integer("vocab_size")
    for key in ("rotary", "scale_attn_weights"):  # older files write them, and there has never been another value
        config.only(key, True)
    d_head, d_rotary = config.d_head(d_model, n_heads), config.integer("rotary_dim", 64)
    turn = NeighbourRotarySpec(d_rotary=None if d_rotary == d_head else d_rotary)
    attn = AttentionSpec(n_heads, n_heads, d_head, rotary=turn)
    mlp = MLPSpec(config.integer("n_inner", 4 * d_model), config.activation("activation_function", "gelu_new"))
    norm = LayerNormSpec(config.number("layer_norm_epsilon", 1e-5))
    layer = SharedNormParallel(attn, mlp, norm, norm)
    tied = config.flag("tie_word_embeddings", False)
    return ModelSpec(
        d_model=d_model,
        n_ctx=config.integer("n_positions", 2048),
        embed=TokenEmbeddingSpec(vocab_size),
        pos_embed=None,
        layers=(layer,) * config.n_layers("n_layer"),
        ln_final=norm,
        unembed=TiedUnembeddingSpec(vocab_size) if tied else UnembeddingSpec(vocab_size, bias=True),
    )


def sources(spec: ModelSpec) -> Sources:
    return _decoder.sources(spec, NAMES, layers="h", embed="wte", ln_final="ln_f")
