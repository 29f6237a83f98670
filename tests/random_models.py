"""Random small models with power: sharp attention, biases and gains away from 0 and 1.

A fresh model has zero biases, unit gains and near-uniform attention, so code that drops any of these passes. Here
every parameter is drawn so that it matters.
"""

from __future__ import annotations

import torch
from hypothesis import strategies as st

import workbench as wb
from workbench.model.attention import AttentionSpec
from workbench.model.block import PreNorm
from workbench.model.embedding import TiedUnembeddingSpec, TokenEmbeddingSpec, UnembeddingSpec
from workbench.model.mlp import ACTIVATIONS, GatedMLPSpec, MLPSpec
from workbench.model.norms import LayerNormSpec, RMSNormSpec
from workbench.model.positions import LearnedPositionsSpec
from workbench.model.rotary import RotarySpec

VOCAB, N_CTX = 23, 64


@st.composite
def specs(draw: st.DrawFn) -> wb.ModelSpec:
    """Every combination that the components of the house allow."""
    n_kv_heads, group = draw(st.sampled_from([(1, 1), (1, 3), (2, 1), (2, 2), (3, 1)]))
    d_model, d_head = draw(st.sampled_from([8, 12])), draw(st.sampled_from([4, 6]))
    rotary = draw(st.sampled_from([None, RotarySpec(10_000.0), RotarySpec(100.0)]))
    attn = AttentionSpec(
        n_heads=n_kv_heads * group,
        n_kv_heads=n_kv_heads,
        d_head=d_head,
        rotary=rotary,
        bias=draw(st.booleans()),
        bias_out=draw(st.booleans()),
        window=draw(st.sampled_from([None, None, 3])),
        scale=draw(st.sampled_from([None, 0.7])),
    )
    mlp_kind = draw(st.sampled_from([MLPSpec, GatedMLPSpec]))
    mlp = mlp_kind(d_mlp=10, activation=draw(st.sampled_from(sorted(ACTIVATIONS))), bias=draw(st.booleans()))
    norm = draw(st.sampled_from([LayerNormSpec, RMSNormSpec]))(eps=draw(st.sampled_from([1e-5, 1e-2])))
    return wb.ModelSpec(
        d_model=d_model,
        n_ctx=N_CTX,
        embed=TokenEmbeddingSpec(VOCAB),
        pos_embed=draw(st.sampled_from([None, LearnedPositionsSpec(N_CTX)])),
        layers=(PreNorm(attn, mlp, draw(st.sampled_from([norm, norm, None])), norm),) * draw(st.integers(1, 3)),
        ln_final=draw(st.sampled_from([None, norm])),
        unembed=draw(
            st.sampled_from([TiedUnembeddingSpec(), UnembeddingSpec(VOCAB), UnembeddingSpec(VOCAB, bias=True)])
        ),
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
