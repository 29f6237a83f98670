"""Components against what they are by definition."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from random_models import close, powered, some_tokens, specs

from workbench.errors import SpecError
from workbench.model.attention import AttentionSpec
from workbench.model.masks import Visibility, visible
from workbench.model.mlp import ACTIVATIONS, MLPSpec
from workbench.model.norms import LayerNorm, RMSNorm
from workbench.model.pass_ import Pass
from workbench.model.rotary import RotarySpec, rotary_table, rotate_halves
from workbench.sites import Place


@given(st.integers(1, 50), st.integers(0, 50), st.sampled_from([10.0, 10_000.0]))
def test_rotary_depends_on_the_distance_only(shift, distance, base):
    q, k = torch.randn(2, 1, 1, 1, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def rotated(x, position):
        return rotate_halves(x, *rotary_table(torch.tensor([[position]]), 8, base))

    near = (rotated(q, distance) * rotated(k, 0)).sum()
    far = (rotated(q, distance + shift) * rotated(k, shift)).sum()
    assert torch.isclose(near, far, atol=1e-5)
    assert torch.isclose(rotated(q, distance).norm(), q.norm())


def test_rotary_turns_pairs_by_their_frequencies():
    """At position 1 the pair (x_0, x_2) of four turns by base^0 = 1, and (x_1, x_3) by base^(-2/4) = 0.1."""
    x = torch.tensor([1.0, 1.0, 0.0, 0.0]).view(1, 1, 1, 4)
    turned = rotate_halves(x, *rotary_table(torch.tensor([[1]]), 4, 100.0)).flatten()
    angle = torch.tensor([1.0, 0.1])
    assert torch.allclose(turned, torch.cat([angle.cos(), angle.sin()]))


@given(specs())
def test_a_window_as_long_as_the_text_is_causal(spec):
    def windowed(window):
        layers = tuple(replace(layer, attn=replace(layer.attn, window=window)) for layer in spec.layers)
        return powered(replace(spec, layers=layers))(some_tokens())[0]

    assert torch.equal(windowed(7), windowed(None))
    assert torch.equal(windowed(100), windowed(None))


@given(specs())
def test_grouped_heads_are_heads_that_share_keys_and_values(spec):
    """The same model with every key-value head written out for each query head of its group."""
    attn = spec.layers[0].attn
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
    at_one = {name: float(f(torch.tensor(1.0))) for name, f in ACTIVATIONS.items()}
    assert at_one == pytest.approx({"gelu": 0.841345, "gelu_tanh": 0.841192, "relu": 1.0, "silu": 0.731059}, abs=1e-6)
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
