"""Components against what they are by definition."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from random_models import VOCAB, attentions, close, powered, rotations, some_tokens

import workbench as wb
from workbench.errors import SpecError
from workbench.model.attention import AttentionSpec
from workbench.model.block import PreNorm
from workbench.model.embedding import TokenEmbeddingSpec, UnembeddingSpec
from workbench.model.masks import Visibility, visible
from workbench.model.mlp import ACTIVATIONS, MLPSpec
from workbench.model.norms import LayerNorm, RMSNorm, RMSNormSpec
from workbench.model.pass_ import Pass
from workbench.model.rotary import RotarySpec, Rotation, rotary_table, rotate_halves, rotate_neighbours
from workbench.sites import Place


@given(st.integers(1, 50), st.integers(0, 50), rotations(6))
def test_rotary_depends_on_the_distance_only(shift, distance, spec):
    q, k = torch.randn(2, 1, 1, 1, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def rotated(x, position):
        rotation = Rotation(spec, 6)
        cos, sin = rotary_table(
            spec, rotation.d_rotary, torch.tensor([[200, position]]), torch.tensor([201])
        )  # 200: one length for all
        return rotation.turn(x, cos[:, 1:], sin[:, 1:])

    near = (rotated(q, distance) * rotated(k, 0)).sum()
    far = (rotated(q, distance + shift) * rotated(k, shift)).sum()
    assert torch.isclose(near, far, atol=1e-4)
    sharpened = 1.0 if spec.scaling is None else spec.scaling.factor_of_attention
    turned = slice(0, spec.d_rotary)
    assert torch.isclose(rotated(q, distance)[..., turned].norm(), sharpened * q[..., turned].norm())


def test_rotary_turns_pairs_by_their_frequencies():
    """At position 1 the pair (x_0, x_2) of four turns by base^0 = 1, and (x_1, x_3) by base^(-2/4) = 0.1."""
    x = torch.tensor([1.0, 1.0, 0.0, 0.0]).view(1, 1, 1, 4)
    table = rotary_table(RotarySpec(100.0), 4, torch.tensor([[1]]), torch.tensor([2]))
    angle = torch.tensor([1.0, 0.1])
    assert torch.allclose(rotate_halves(x, *table).flatten(), torch.cat([angle.cos(), angle.sin()]))
    neighbours = torch.tensor([1.0, 0.0, 1.0, 0.0]).view(1, 1, 1, 4)
    turned = rotate_neighbours(neighbours, *table).flatten()
    assert torch.allclose(turned, torch.stack([angle.cos(), angle.sin()], -1).flatten())


def one_layer(attn: AttentionSpec) -> wb.ModelSpec:
    layer = PreNorm(attn, MLPSpec(10), RMSNormSpec(), RMSNormSpec())
    return wb.ModelSpec(12, 64, TokenEmbeddingSpec(VOCAB), None, (layer,), RMSNormSpec(), UnembeddingSpec(VOCAB))


@given(attentions())
def test_a_window_as_long_as_the_text_is_causal(attn):
    def windowed(window):
        return powered(one_layer(replace(attn, window=window)))(some_tokens())[0]

    assert torch.equal(windowed(7), windowed(None))
    assert torch.equal(windowed(100), windowed(None))


@given(attentions())
def test_grouped_heads_are_heads_that_share_keys_and_values(attn):
    """The same model with every key-value head written out for each query head of its group."""
    attn = replace(attn, qk_norm=None)  # one over all heads, or with a gain for each, is another norm for more heads
    spec = one_layer(attn)
    group = attn.n_heads // attn.n_kv_heads
    wide_attn = replace(attn, n_kv_heads=attn.n_heads)
    grouped = powered(spec)
    wide = powered(replace(spec, layers=tuple(replace(layer, attn=wide_attn) for layer in spec.layers)))
    wanted = dict(wide.named_parameters())
    for name, parameter in grouped.named_parameters():
        if ".attn.k." in name or ".attn.v." in name:
            parameter = parameter.unflatten(0, (-1, attn.d_head)).repeat_interleave(group, dim=0).flatten(0, 1)
        wanted[name].copy_(parameter)
    assert close(wide(some_tokens())[0], grouped(some_tokens())[0], 1e-5)


def test_the_mask_by_hand():
    positions = torch.tensor([[-1, 0, 1, 2, 3]])
    seen = visible(positions, positions, window=2)[0].int().tolist()
    assert seen == [
        [0, 0, 0, 0, 0],
        [0, 1, 0, 0, 0],
        [0, 1, 1, 0, 0],
        [0, 0, 1, 1, 0],
        [0, 0, 0, 1, 1],
    ]
    later = visible(torch.tensor([[3]]), positions)[0].int().tolist()
    assert later == [[0, 1, 1, 1, 1]]
    plain = Visibility(positions[:, 1:].expand(3, 4), positions[:, 1:].expand(3, 4), plain=True)
    assert plain.mask.shape == (1, 4, 4)
    assert plain.causal
    assert not replace(plain, window=3).causal


@pytest.mark.parametrize(("norm", "reference"), [(LayerNorm, torch.nn.LayerNorm), (RMSNorm, torch.nn.RMSNorm)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_norms_are_those_of_torch(norm, reference, dtype):
    ours, theirs = norm(6, 1e-3, Place()).to(dtype), reference(6, eps=1e-3).to(dtype)
    for index, (mine, other) in enumerate(zip(ours.parameters(), theirs.parameters(), strict=True)):
        drawn = torch.randn(6, generator=torch.Generator().manual_seed(index)).to(dtype)
        mine.data.copy_(drawn)
        other.data.copy_(drawn)
    x = (5 + torch.randn(2, 3, 6, generator=torch.Generator().manual_seed(7))).to(dtype)
    out = ours(x, Pass(torch.arange(3).expand(2, 3)))
    assert out.dtype == dtype
    tolerance = 1e-2 if dtype == torch.bfloat16 else 1e-5
    assert torch.allclose(out, theirs(x), rtol=tolerance, atol=tolerance)


def test_activations_at_one():
    """f(1) from the definitions: erf and tanh forms of GELU differ in the fourth digit."""
    wanted = {"gelu": 0.841345, "gelu_tanh": 0.841192, "relu": 1.0, "relu_squared": 1.0, "silu": 0.731059}
    at_one = {name: float(f(torch.tensor(1.0))) for name, f in ACTIVATIONS.items()}
    assert at_one == pytest.approx(wanted, abs=1e-6)
    assert float(ACTIVATIONS["relu_squared"](torch.tensor(3.0))) == 9.0
    assert float(ACTIVATIONS["relu"](torch.tensor(-1.0))) == 0.0


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: AttentionSpec(4, 3, 8), r"AttentionSpec\.n_kv_heads is 3; it must divide n_heads, 4"),
        (lambda: AttentionSpec(0, 1, 8), "n_heads is 0"),
        (lambda: AttentionSpec(2, 2, 7, rotary=RotarySpec()), "d_head is 7; rotary embedding turns pairs"),
        (lambda: AttentionSpec(2, 2, 8, window=0), "window is 0"),
        (lambda: MLPSpec(8, activation="gelo"), "nearest are: gelu"),
        (lambda: RotarySpec(base=-1.0), "base is -1"),
    ],
)
def test_a_spec_that_contradicts_itself_names_the_field(make, says):
    with pytest.raises(SpecError, match=says):
        make()
