"""Random small models with power: sharp attention, biases and gains away from 0 and 1.

A fresh model has zero biases, unit gains and near-uniform attention, so code that drops any of these passes. Here
every parameter is drawn so that it matters.
"""

from __future__ import annotations

import torch
from hypothesis import strategies as st

import workbench as wb
from workbench.model import block, norms, positions, qk_norm, rotary_scaling
from workbench.model.attention import AttentionSpec
from workbench.model.embedding import (
    ProjectedTokenEmbeddingSpec,
    ProjectedUnembeddingSpec,
    ScaledTokenEmbeddingSpec,
    TiedUnembeddingSpec,
    TokenEmbeddingSpec,
    UnembeddingSpec,
)
from workbench.model.latent_attention import LatentAttentionSpec
from workbench.model.mlp import ACTIVATIONS, ClampedGatedMLPSpec, GatedMLPSpec, MLPSpec
from workbench.model.moe import GatedSharedExpertsSpec, MixtureOfExpertsSpec, SharedExpertsSpec
from workbench.model.rotary import NeighbourRotarySpec, RotarySpec
from workbench.model.router import RouterSpec

VOCAB, N_CTX = 23, 64
eps = st.sampled_from([1e-5, 1e-2])
nothing = st.none()


def rotary_scalings(n_pairs: int) -> list[rotary_scaling.RotaryScalingSpec]:
    """Those that switch by length do so within the texts of the tests."""
    lists = (tuple(1.0 + i for i in range(n_pairs)), tuple(2.0 + 3 * i for i in range(n_pairs)))
    kinds = [
        rotary_scaling.LinearScalingSpec(2.5),
        rotary_scaling.YaRNSpec(4.0, 8),
        rotary_scaling.YaRNSpec(4.0, 8, beta_fast=2.0, beta_slow=0.5, attention_factor=1.3, truncate=False),
        rotary_scaling.LongRoPESpec(*lists, n_ctx=5, attention_factor=1.2),
        rotary_scaling.Llama3ScalingSpec(4.0, 1.0, 3.0, 16),
        rotary_scaling.DivisorsSpec(lists[1]),
    ]
    return kinds + ([rotary_scaling.DynamicNTKSpec(2.0, 5)] if n_pairs > 1 else [])


# Made once: beartype looks at a random item of each list, and hypothesis wants no randomness of others' in a strategy.
SCALINGS = {n_pairs: rotary_scalings(n_pairs) for n_pairs in (1, 2, 3)}


@st.composite
def rotations(draw: st.DrawFn, d_head: int) -> RotarySpec:
    d_rotary = draw(st.sampled_from([None, 2, d_head]))
    scaling = draw(nothing | st.sampled_from(SCALINGS[(d_rotary or d_head) // 2]))
    kind = draw(st.sampled_from([RotarySpec, NeighbourRotarySpec]))
    return kind(draw(st.sampled_from([10_000.0, 100.0])), d_rotary, scaling)


@st.composite
def norm_specs(draw: st.DrawFn) -> norms.NormSpec:
    kinds = [norms.LayerNormSpec, norms.RMSNormSpec, norms.OnePlusRMSNormSpec, norms.BiaslessLayerNormSpec]
    return draw(st.sampled_from([*kinds, norms.PlainLayerNormSpec]))(draw(eps))


@st.composite
def attentions(draw: st.DrawFn) -> AttentionSpec:
    n_kv_heads, group = draw(st.sampled_from([(1, 1), (1, 3), (2, 1), (2, 2), (3, 1)]))
    d_head = draw(st.sampled_from([4, 6]))
    of_qk = [qk_norm.QKNormSpec, qk_norm.QKNormEachHeadSpec, qk_norm.QKNormAllHeadsSpec]
    return AttentionSpec(
        n_heads=n_kv_heads * group,
        n_kv_heads=n_kv_heads,
        d_head=d_head,
        rotary=draw(nothing | rotations(d_head)),
        bias=draw(st.booleans()),
        bias_out=draw(st.booleans()),
        window=draw(st.sampled_from([None, None, 3])),
        scale=draw(st.sampled_from([None, 0.7])),
        qk_norm=draw(nothing | st.builds(lambda kind, norm: kind(norm), st.sampled_from(of_qk), norm_specs())),
        softcap=draw(st.sampled_from([None, None, 2.0])),
        sink=draw(st.sampled_from([False, False, True])),
    )


@st.composite
def latent_attentions(draw: st.DrawFn) -> LatentAttentionSpec:
    d_rope = draw(st.sampled_from([2, 4]))
    return LatentAttentionSpec(
        n_heads=draw(st.sampled_from([1, 3])),
        d_latent=5,
        d_nope=3,
        d_rope=d_rope,
        d_value=draw(st.sampled_from([4, 6])),
        rotary=draw(rotations(d_rope)),
        d_latent_q=draw(st.sampled_from([None, 6])),
        norm=draw(norm_specs()),
        bias=draw(st.booleans()),
        scale=draw(st.sampled_from([None, 0.7])),
    )


@st.composite
def feed_forwards(draw: st.DrawFn, d_mlp: int = 10) -> MLPSpec | GatedMLPSpec:
    bias = draw(st.booleans())
    if draw(st.integers(0, 4)) == 0:
        return ClampedGatedMLPSpec(d_mlp, bias=bias, limit=1.5)
    kind = draw(st.sampled_from([MLPSpec, GatedMLPSpec]))
    return kind(d_mlp=d_mlp, activation=draw(st.sampled_from(sorted(ACTIVATIONS))), bias=bias)


@st.composite
def mixtures(draw: st.DrawFn) -> MixtureOfExpertsSpec:
    n_groups, top_groups = draw(st.sampled_from([(1, 1), (3, 1), (3, 2)]))
    router = RouterSpec(
        n_experts=6,
        top_k=draw(st.sampled_from([1, 2])),
        score=draw(st.sampled_from(["softmax", "sigmoid"])),
        normalized=draw(st.booleans()),
        scale=draw(st.sampled_from([1.0, 2.5])),
        bias=draw(st.booleans()),
        choice_bias=draw(st.booleans()),
        n_groups=n_groups,
        top_groups=top_groups,
        group_score=draw(st.sampled_from(["best", "best_two"])),
    )
    shared = st.builds(
        lambda kind, mlp: kind(mlp), st.sampled_from([SharedExpertsSpec, GatedSharedExpertsSpec]), feed_forwards(7)
    )
    return MixtureOfExpertsSpec(router, draw(feed_forwards(5)), draw(nothing | shared))


@st.composite
def layer_specs(draw: st.DrawFn, adds: bool = True) -> wb.spec.LayerSpec:
    """adds: only wirings whose stream is a sum of writes."""
    attn = draw(st.one_of(attentions(), attentions(), latent_attentions()))
    norm, perhaps = draw(norm_specs()), nothing | norm_specs()
    output = draw(nothing | norm_specs() | st.just(norms.OutputScaleSpec(0.4)))
    wirings = [block.PreNorm, block.PreNorm, block.Parallel, block.SharedNormParallel, block.AttentionOnly]
    wiring = draw(st.sampled_from(wirings if adds else [*wirings, block.PostNorm, block.PostNorm]))
    if wiring is block.AttentionOnly:
        return block.AttentionOnly(attn, norm, output)
    mlp = draw(st.one_of(feed_forwards(), feed_forwards(), mixtures()))
    if wiring is block.SharedNormParallel:
        return wiring(attn, mlp, norm, norm, output)
    if wiring is block.PostNorm:
        return wiring(attn, mlp, norm, draw(norm_specs()))
    return wiring(attn, mlp, draw(perhaps), norm, output, draw(nothing | norm_specs()))


@st.composite
def specs(draw: st.DrawFn, adds: bool = True) -> wb.ModelSpec:
    """Every combination that the components of the house allow."""
    layer = layer_specs(adds)
    kinds = draw(st.lists(layer, min_size=1, max_size=2))
    embed, own = TokenEmbeddingSpec(VOCAB), UnembeddingSpec
    logits = [own(VOCAB), own(VOCAB, bias=True), own(VOCAB, bias=True, scale=0.3), own(VOCAB, softcap=4.0)]
    tied = [TiedUnembeddingSpec(), TiedUnembeddingSpec(VOCAB), TiedUnembeddingSpec(scale=0.3)]
    unembed = st.sampled_from([*logits, *tied])
    around = draw(
        st.tuples(st.sampled_from([embed, embed, ScaledTokenEmbeddingSpec(VOCAB, 2.5)]), unembed)
        | st.just((ProjectedTokenEmbeddingSpec(VOCAB, 5), ProjectedUnembeddingSpec(d_embed=5)))
    )
    added = [None, None, positions.LearnedPositionsSpec(N_CTX), positions.SinusoidalPositionsSpec()]
    return wb.ModelSpec(
        d_model=draw(st.sampled_from([8, 12])),
        n_ctx=N_CTX,
        embed=around[0],
        pos_embed=draw(st.sampled_from(added)),
        layers=tuple(kinds) * draw(st.integers(1, 2)),
        ln_final=draw(nothing | norm_specs()),
        unembed=around[1],
    )


def powered(spec: wb.ModelSpec, seed: int = 0) -> wb.HookedTransformer:
    """A frozen model in which every parameter matters."""
    model = wb.HookedTransformer(spec, seed=seed)
    give_power(model, seed)
    return model.requires_grad_(False)


@torch.no_grad()
def give_power(module: torch.nn.Module, seed: int = 0) -> None:
    """Draw every parameter anew, in place: matrices large enough for sharp attention, gains around 1.3, biases 0.5."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in module.named_parameters():
        drawn = torch.randn(parameter.shape, generator=generator, dtype=torch.float32)
        if parameter.ndim == 1:
            gain = name.endswith("weight")
            parameter.copy_(1.3 + 0.4 * drawn if gain else 0.5 * drawn)
        else:
            parameter.copy_(
                drawn * (1.6 / parameter.shape[-1] ** 0.5 if "emb" not in name and "wte" not in name else 1.0)
            )


def some_tokens(batch: int = 2, pos: int = 7, vocab: int = VOCAB, seed: int = 0) -> torch.Tensor:
    return torch.randint(0, vocab, (batch, pos), generator=torch.Generator().manual_seed(seed))


def close(ours: torch.Tensor, theirs: torch.Tensor, tolerance: float) -> bool:
    """Equal within a share of the largest value."""
    return bool((ours - theirs).abs().max() <= tolerance * theirs.abs().max().clamp(min=1e-30))
