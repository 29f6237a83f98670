"""OPT (Zhang et al. 2022): GPT-3 with ReLU; OPT-350m norms the stream itself and has a narrow, projected embedding."""

from __future__ import annotations

from dataclasses import replace

from ..model.attention import AttentionSpec
from ..model.block import PostNorm, PreNorm
from ..model.embedding import ProjectedTokenEmbeddingSpec, ProjectedUnembeddingSpec
from ..model.mlp import MLPSpec
from ..model.norms import LayerNormSpec, PlainLayerNormSpec
from ..model.positions import LearnedPositionsSpec
from ..spec import ModelSpec
from . import _decoder
from ._config import Config
from ._decoder import assembled, heads_of
from ._sources import Source, Sources

PREFIX = "model."
IGNORED = (r"decoder\.version",)  # a number that the first files keep

NAMES = {
    "ln1": "self_attn_layer_norm",
    "attn.q": "self_attn.q_proj",
    "attn.k": "self_attn.k_proj",
    "attn.v": "self_attn.v_proj",
    "attn.o": "self_attn.out_proj",
    "ln2": "final_layer_norm",
    "mlp.in_": "fc1",
    "mlp.out": "fc2",
}
_FIRST_POSITION = 2  # the table's first two rows belong to no position, as in fairseq


def spec(config: Config) -> ModelSpec:
    for key, value in (("learned_embeddings", True), ("scale_embeddings", False), ("output_projection", True)):
        config.only(key, value)  # Galactica's files and older ones write them, and nothing reads them
    bias, before = config.flag("enable_bias", True), config.flag("do_layer_norm_before", True)
    norm = LayerNormSpec() if config.flag("layer_norm_elementwise_affine", True) else PlainLayerNormSpec()
    attn = AttentionSpec(*heads_of(config), bias=bias, bias_out=bias)
    mlp = MLPSpec(config.integer("ffn_dim"), config.activation("activation_function", "relu"), bias)
    layer = (PreNorm if before else PostNorm)(attn, mlp, norm, norm)
    positions = LearnedPositionsSpec(config.integer("max_position_embeddings"))
    # Files from before release 4.20.1 of transformers have no final norm, and say so.
    final = norm if before and not config.flag("_remove_final_layer_norm", False) else None
    layers = [layer] * config.n_layers("num_hidden_layers")
    model = assembled(config, layers, final, tied=True, pos_embed=positions)
    d_embed = config.integer("word_embed_proj_dim", model.d_model)
    if d_embed == model.d_model:
        return model
    config.only("tie_word_embeddings", True)
    embed = ProjectedTokenEmbeddingSpec(model.vocab_size, d_embed)
    return replace(model, embed=embed, unembed=ProjectedUnembeddingSpec(d_embed=d_embed))


def sources(spec: ModelSpec) -> Sources:
    within = {"layers": "decoder.layers", "embed": "decoder.embed_tokens", "ln_final": "decoder.final_layer_norm"}
    found = _decoder.sources(spec, NAMES, **within)
    found["pos_embedding.weight"] = Source("decoder.embed_positions.weight", lambda table: table[_FIRST_POSITION:])
    found["embedding.project.weight"] = Source("decoder.project_in.weight")
    found["unembedding.project.weight"] = Source("decoder.project_out.weight")
    return found
