"""Components that no family of transformers pins down: against formulas written out here, or another implementation."""

import math

import pytest
import torch
from random_models import close, give_power, powered, some_tokens
from transformers import Qwen2MoeConfig
from transformers.models.qwen2_moe.modeling_qwen2_moe import Qwen2MoeSparseMoeBlock

import workbench as wb
from workbench.model.attention import AttentionSpec
from workbench.model.block import AttentionOnly
from workbench.model.embedding import TokenEmbeddingSpec, UnembeddingSpec
from workbench.model.latent_attention import LatentAttentionSpec
from workbench.model.mlp import GatedMLPSpec
from workbench.model.moe import GatedSharedExpertsSpec, MixtureOfExpertsSpec
from workbench.model.norms import PlainLayerNorm, RMSNormSpec
from workbench.model.pass_ import Pass
from workbench.model.positions import SinusoidalPositionsSpec
from workbench.model.rotary import RotarySpec
from workbench.model.router import RouterSpec
from workbench.sites import Place


@pytest.mark.parametrize("d_model", [6, 7])
def test_sinusoidal_positions(d_model):
    """PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i + 1) the cosine of the same."""
    added = SinusoidalPositionsSpec().build(d_model, Place())(torch.zeros(1, 5, d_model), Pass(torch.arange(5)[None]))
    for position in range(5):
        for index in range(d_model):
            angle = position / 10_000 ** (2 * (index // 2) / d_model)
            expected = math.cos(angle) if index % 2 else math.sin(angle)
            assert abs(added[0, position, index].item() - expected) < 1e-6


def test_gated_shared_experts_are_those_of_qwen2_moe():
    config = Qwen2MoeConfig(
        hidden_size=12,
        moe_intermediate_size=5,
        shared_expert_intermediate_size=7,
        num_experts=6,
        num_experts_per_tok=2,
        norm_topk_prob=False,
    )
    config._experts_implementation = "eager"
    theirs = Qwen2MoeSparseMoeBlock(config).eval()
    give_power(theirs)
    spec = MixtureOfExpertsSpec(
        RouterSpec(6, 2, normalized=False), GatedMLPSpec(5), GatedSharedExpertsSpec(GatedMLPSpec(7))
    )
    ours = spec.build(12, Place("blocks.0.mlp", 0)).requires_grad_(False)
    ours.router.weight.copy_(theirs.gate.weight)
    for index in range(6):
        gate, linear = theirs.experts.gate_up_proj[index].chunk(2)
        ours.experts.W_gate[index].copy_(gate.T)
        ours.experts.W_in[index].copy_(linear.T)
        ours.experts.W_out[index].copy_(theirs.experts.down_proj[index].T)
    shared = theirs.shared_expert
    for mine, other in (("gate", shared.gate_proj), ("in_", shared.up_proj), ("out", shared.down_proj)):
        getattr(ours.shared.mlp, mine).weight.copy_(other.weight)
    ours.shared.gate.weight.copy_(theirs.shared_expert_gate.weight)
    x = torch.randn(2, 7, 12, generator=torch.Generator().manual_seed(0))
    out = theirs(x)
    assert close(ours(x, Pass(torch.arange(7).expand(2, 7))), out[0] if isinstance(out, tuple) else out, 1e-5)


def test_a_norm_without_gain_or_bias():
    x = torch.randn(2, 3, 6, generator=torch.Generator().manual_seed(0))
    norm = PlainLayerNorm(6, 1e-5, Place())
    assert not list(norm.parameters())
    assert torch.allclose(
        norm(x, Pass(torch.arange(3).expand(2, 3))), torch.nn.functional.layer_norm(x, (6,)), atol=1e-6
    )


def attention_only(attn) -> wb.HookedTransformer:
    layer = AttentionOnly(attn, RMSNormSpec())
    return powered(wb.ModelSpec(12, 64, TokenEmbeddingSpec(23), None, (layer,) * 2, RMSNormSpec(), UnembeddingSpec(23)))


def test_an_attention_only_model_has_no_sites_of_a_feed_forward():
    model = attention_only(AttentionSpec(2, 1, 4))
    assert not [name for name in model.sites.names if "mlp" in name or "mid" in name or "ln2" in name]
    _, cache = model.run_with_cache(some_tokens())
    assert torch.equal(cache["resid_post", 0], cache["resid_pre", 0] + cache["attn_out", 0])
    with pytest.raises(wb.errors.InputError, match="layer 1 has no feed-forward"):
        cache.accumulated_resid(1, mlp_input=True)
    with pytest.raises(wb.errors.InputError, match="layer 0 has no feed-forward, and no experts"):
        cache.expert_outputs(0)
    with pytest.raises(wb.errors.SpecError, match="layer 0 has no mlp"):
        model.W_in  # noqa: B018


@pytest.mark.parametrize("d_latent_q", [None, 5])
def test_matrices_of_latent_attention_are_asked_for_by_their_own_names(d_latent_q):
    spec = LatentAttentionSpec(3, 6, 4, 2, 5, RotarySpec(), d_latent_q)
    model = attention_only(spec)
    shapes = {"W_DKV": (2, 12, 6), "W_KR": (2, 12, 2), "W_UK": (2, 3, 6, 4), "W_UV": (2, 3, 6, 5), "W_O": (2, 3, 5, 12)}
    own = {"W_Q": (2, 3, 12, 6)} if d_latent_q is None else {"W_DQ": (2, 12, 5), "W_UQ": (2, 3, 5, 6)}
    for name, shape in (shapes | own).items():
        assert getattr(model, name).shape == shape
    for name in ("W_K", "W_V"):
        with pytest.raises(wb.errors.SpecError, match=r"W_DKV.*W_U[KV]"):
            getattr(model, name)
    with pytest.raises(wb.errors.SpecError, match="W_DQ and W_UQ" if d_latent_q else "no latent"):
        getattr(model, "W_Q" if d_latent_q else "W_DQ")
    _, cache = model.run_with_cache(some_tokens())
    latent = cache["ln1.out", 0] @ model.W_DKV[0]
    assert close(cache["kv_latent", 0], model.blocks[0].attn.kv_norm.normed(latent), 1e-5)
    assert close(cache["k_rope", 0], cache["ln1.out", 0] @ model.W_KR[0], 1e-5)


def test_weights_of_experts_have_an_axis_of_them():
    layer = wb.model.block.PreNorm(
        AttentionSpec(2, 1, 4), MixtureOfExpertsSpec(RouterSpec(4, 2), GatedMLPSpec(5)), None, None
    )
    spec = wb.ModelSpec(12, 64, TokenEmbeddingSpec(23), None, (layer,), None, UnembeddingSpec(23))
    model = powered(spec)
    assert model.blocks[0].mlp.experts.W_in.shape == (4, 12, 5)
    assert model.blocks[0].mlp.experts.b_out.shape == (4, 12)
    with pytest.raises(wb.errors.SpecError, match=r"blocks\[0\]\.mlp\.experts\.W_in"):
        model.W_in  # noqa: B018
    assert spec.n_params - spec.n_active_params == 2 * 3 * 12 * 5
    assert spec.d_mlp == 5


@pytest.mark.parametrize("left_out", [[], [3], [1], [0, 2]])
def test_only_chosen_experts_compute(monkeypatch, left_out):
    """Few rows to each go through batches of neighbours, and an expert that has none is not touched."""
    spec = MixtureOfExpertsSpec(RouterSpec(4, 2), GatedMLPSpec(5))
    mixture = spec.build(12, Place("blocks.0.mlp", 0)).requires_grad_(False)
    give_power(mixture)
    generator = torch.Generator().manual_seed(0)
    x, weights = torch.randn(14, 12, generator=generator), torch.rand(14, 4, generator=generator)
    weights[:, left_out], written, asked = 0.0, mixture.experts.written, []
    monkeypatch.setattr(mixture.experts, "written", lambda x, *e: asked.append(e) or written(x, *e), raising=False)
    outputs = mixture.expert_outputs(x, weights)
    touched = [set(range(4)[e[0]]) if isinstance(e[0], slice) else {e[0]} for e in asked]
    assert isinstance(asked[0][0], slice)
    assert set().union(*touched) == set(range(4)) - set(left_out)
    by_hand = torch.stack([written(x, e) for e in range(4)], -2) * weights[..., None]
    assert close(outputs, by_hand, 1e-5)
