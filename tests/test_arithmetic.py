"""Size and cost, against what torch counts while a model runs and against figures derived by hand."""

import json
import math
from dataclasses import replace

import psutil
import pytest
import torch
from hypothesis import given
from random_models import VOCAB, some_tokens, specs
from test_cache import plain_spec
from torch.utils.flop_counter import FlopCounterMode

import workbench as wb
from workbench.arithmetic import kv_cache_bytes
from workbench.generate.passes import Passes
from workbench.inputs import read_text
from workbench.model.attention import AttentionSpec
from workbench.model.block import PreNorm
from workbench.model.embedding import TokenEmbeddingSpec, UnembeddingSpec
from workbench.model.latent_attention import LatentAttentionSpec
from workbench.model.mlp import GatedMLPSpec
from workbench.model.moe import MixtureOfExpertsSpec, SharedExpertsSpec
from workbench.model.norms import RMSNormSpec
from workbench.model.rotary import RotarySpec
from workbench.model.router import RouterSpec


def spec_of(attn, mlp=None, n_layers=3) -> wb.ModelSpec:
    norm = RMSNormSpec()
    layer = PreNorm(attn, mlp or GatedMLPSpec(24), norm, norm)
    return wb.ModelSpec(16, 64, TokenEmbeddingSpec(VOCAB), None, (layer,) * n_layers, norm, UnembeddingSpec(VOCAB))


GQA = AttentionSpec(4, 2, 6, rotary=RotarySpec())
LATENT = LatentAttentionSpec(4, d_latent=10, d_nope=6, d_rope=4, d_value=7, rotary=RotarySpec(), d_latent_q=9)
EXPERTS = MixtureOfExpertsSpec(RouterSpec(4, 2), GatedMLPSpec(20), SharedExpertsSpec(GatedMLPSpec(12)))
# Each with its window and how many multiply-adds a key takes: heads x (numbers of a key + numbers of a value).
KINDS = {
    "MHA": (replace(GQA, n_kv_heads=4), None, None, 4 * 12),
    "GQA": (GQA, None, None, 4 * 12),
    "MQA": (replace(GQA, n_kv_heads=1), None, None, 4 * 12),
    "window": (replace(GQA, window=9), None, 9, 4 * 12),
    "MLA": (LATENT, None, None, 4 * (10 + 7)),
    "MLA, direct queries": (replace(LATENT, d_latent_q=None), None, None, 4 * (10 + 7)),
    "mixture": (GQA, EXPERTS, None, 4 * 12),
}


def counted(model, n_tokens: int, backward: bool = False) -> int:
    """The matrix products of a run, as torch sees them. A hook at the pattern has them written out, query x key, where
    a fused kernel hides them; those that the mask leaves out are counted too."""
    with FlopCounterMode(display=False) as counter:
        logits, _ = model(some_tokens(1, n_tokens), hooks=[("pattern", lambda value, at: None)])
        if backward:
            logits.sum().backward()
    return counter.get_total_flops()


def keys_seen(n_tokens: int, window: int | None) -> int:
    return sum(min(query + 1, window or n_tokens) for query in range(n_tokens))


@pytest.mark.parametrize(("attn", "mlp", "window", "n_mixed"), KINDS.values(), ids=KINDS.keys())
def test_flops_are_those_that_torch_counts(attn, mlp, window, n_mixed):
    """Counted: a n + b n^2, of which two lengths give both. Reckoned: a n + b x (the keys that queries do see)."""
    spec, n = spec_of(attn, mlp), 40  # 40 tokens to 2 of 4 experts: enough rows each that none is padded
    model = wb.HookedTransformer(spec).requires_grad_(False)
    one, many = counted(model, 1), counted(model, n)
    by_key = (many - n * one) / (n * n - n)
    by_token = one - by_key
    assert by_key == 3 * 2 * n_mixed
    for tokens in (1, n):
        flops = wb.costs(spec, tokens=tokens).flops_per_token
        assert flops.weights == by_token
        assert flops.attention * tokens == pytest.approx(by_key * keys_seen(tokens, window), rel=1e-12)
        assert flops.forward == flops.weights + flops.attention


@given(specs())
def test_flops_of_whatever_can_be_built(spec):
    n = 5  # so few that a mixture's experts go one by one and no row is padded
    model = wb.HookedTransformer(spec).requires_grad_(False)
    assert wb.costs(spec, tokens=1).flops_per_token.forward == counted(model, 1)
    hidden = 0
    for layer, block in enumerate(spec.layers):
        q, z = (dict(zip(s.axes, s.sizes, strict=True)) for s in (site(model, "q", layer), site(model, "z", layer)))
        unseen = n * n - keys_seen(n, getattr(block.attn, "window", None))
        hidden += 2 * q["head"] * (q["d_head"] + z["d_head"]) * unseen
    reckoned = wb.costs(spec, tokens=n).flops_per_token.forward * n
    assert reckoned == pytest.approx(counted(model, n) - hidden, rel=1e-9)


def site(model, short: str, layer: int):
    return next(s for s in model.sites if s.name == f"blocks.{layer}.attn.hook_{short}")


@pytest.mark.parametrize("kind", ["MHA", "MLA", "mixture"])
def test_training_is_three_times_a_forward_pass(kind):
    attn, mlp, _, _ = KINDS[kind]
    model = wb.HookedTransformer(spec_of(attn, mlp))
    assert counted(model, 40, backward=True) == 3 * counted(model, 40)
    flops = wb.costs(model).flops_per_token
    assert flops.training == 3 * flops.forward


@given(specs())
def test_components_add_up(spec):
    found = wb.costs(spec).components
    assert sum(count.total for count in found.values()) == spec.n_params
    assert sum(count.active for count in found.values()) == spec.n_active_params
    for count in found.values():
        assert 0 <= count.active <= count.total


def test_components_of_a_dense_model():
    """Width 12, 4 heads of 6 on 2 key-value heads, 10 neurons, 23 tokens, 64 positions, 3 layers, biases everywhere."""
    found = {name: (c.total, c.active, c.multiplying) for name, c in wb.costs(plain_spec()).components.items()}
    products = 12 * 24 + 2 * 12 * 12 + 24 * 12
    assert found == {
        "embedding": (23 * 12, 23 * 12, 0),
        "positions": (64 * 12, 64 * 12, 0),
        "attention": (3 * (products + 24 + 12 + 12 + 12), 3 * (products + 24 + 12 + 12 + 12), 3 * products),
        "feed_forward": (3 * (2 * 120 + 10 + 12), 3 * (2 * 120 + 10 + 12), 3 * 240),
        "router": (0, 0, 0),
        "experts": (0, 0, 0),
        "shared_experts": (0, 0, 0),
        "norms": (7 * 24, 7 * 24, 0),
        "unembedding": (23 * 12 + 23, 23 * 12 + 23, 23 * 12),
    }


def test_components_of_a_mixture():
    """Of 4 experts each token goes to 2; what is not chosen is there and does nothing."""
    found = wb.costs(spec_of(GQA, EXPERTS)).components
    expert, shared = 3 * 16 * 20, 3 * 16 * 12
    assert (found["experts"].total, found["experts"].active) == (3 * 4 * expert, 3 * 2 * expert)
    assert found["experts"].multiplying == 3 * 2 * expert
    assert found["shared_experts"].total == found["shared_experts"].multiplying == 3 * shared
    assert found["router"].total == found["router"].multiplying == 3 * 4 * 16
    assert found["feed_forward"].total == 0


def test_a_tied_unembedding_has_no_parameters_and_multiplies():
    found = wb.costs(wb.ModelSpec.preset("gpt2-small")).components
    assert (found["unembedding"].total, found["unembedding"].multiplying) == (0, 50257 * 768)
    assert (found["embedding"].total, found["embedding"].multiplying) == (50257 * 768, 0)


def test_the_rules_are_of_active_parameters():
    spec = wb.ModelSpec.preset("mixtral-8x7b")
    flops, found = wb.costs(spec).flops_per_token, wb.costs(spec)
    assert flops.rule_forward == 2 * 12_879_925_248
    assert flops.rule_training == 6 * 12_879_925_248
    assert found.compute_optimal_tokens == 20 * 12_879_925_248
    # without attention, the rule is off by the embedding, which is looked up, and by gains
    assert flops.weights == 2 * (12_879_925_248 - 32_000 * 4096 - (2 * 32 + 1) * 4096)


def test_the_cache_of_keys_and_values_that_grouping_made_eight_times_smaller():
    """Llama 2 70B at 2 bytes: 2 x 80 layers x 64 heads x 128 numbers are 2.6 MB a token, 21 GB at 8K; an eighth with 8
    key-value heads."""
    grouped = wb.ModelSpec.preset("llama-2-70b")
    full = replace(grouped, layers=tuple(replace(x, attn=replace(x.attn, n_kv_heads=64)) for x in grouped.layers))
    of_full, of_grouped = (wb.costs(spec, torch.bfloat16, tokens=8192) for spec in (full, grouped))
    assert of_full.kv_bytes_per_token == 2 * 80 * 64 * 128 * 2 == 2_621_440
    assert of_full.memory.kv_cache == 2_621_440 * 8192
    assert of_full.memory.kv_cache / 1e9 == pytest.approx(21, rel=0.03)
    assert of_grouped.kv_bytes_per_token * 8 == of_full.kv_bytes_per_token
    assert of_grouped.memory.kv_cache * 8 == of_full.memory.kv_cache
    assert of_grouped.memory.kv_cache / 1e9 == pytest.approx(2.6, rel=0.04)


def test_latents_are_what_latent_attention_keeps():
    found = wb.costs(wb.ModelSpec.preset("deepseek-v3"), torch.bfloat16)
    assert found.kv_bytes_by_layer == ((512 + 64) * 2,) * 61
    assert found.kv_bytes_per_token == 61 * 576 * 2


def test_a_window_keeps_its_window():
    mistral = wb.ModelSpec.preset("mistral-7b")
    a_token = 32 * 2 * 8 * 128 * 4
    assert kv_cache_bytes(mistral, 100, itemsize=4) == 100 * a_token
    assert kv_cache_bytes(mistral, 4096, itemsize=4) == 4096 * a_token
    assert kv_cache_bytes(mistral, 30_000, batch=3, itemsize=4) == 3 * 4096 * a_token
    mixed = spec_of(GQA)
    mixed = replace(mixed, layers=(replace(mixed.layers[0], attn=replace(GQA, window=5)), *mixed.layers[1:]))
    assert kv_cache_bytes(mixed, 50, itemsize=2) == 2 * (2 * 2 * 6) * (5 + 50 + 50)


@given(specs())
def test_generation_keeps_what_is_reckoned(spec):
    """A text of 12 columns, of which 5 are a prompt: full memories are made at once, windows slide."""
    model = wb.HookedTransformer(spec).requires_grad_(False)
    text = read_text(some_tokens(2, 12), spec, None, model.device)
    passes = Passes(model, text, 12, hooks={}, recorder=None)
    for n_tokens in (5, 6, 7, 12):
        passes.next_logits(text.tokens[:, :n_tokens], text.positions[:, :n_tokens])
    assert passes.memory.n_bytes == kv_cache_bytes(spec, 12, batch=2, itemsize=4)


def test_memory():
    spec = wb.ModelSpec.preset("kamui-small")
    n = 8192 * 256 + 256 * 256 + 6 * (12 * 256**2 + 13 * 256) + 2 * 256
    for dtype, size in ((torch.float32, 4), (torch.bfloat16, 2)):
        memory = wb.costs(spec, dtype, tokens=100, batch=3).memory
        assert (memory.load, memory.train) == (size * n, 16 * n)
        assert memory.kv_cache == 3 * 100 * 6 * 2 * 256 * size


def test_a_model_is_reckoned_in_its_own_dtype():
    model = wb.HookedTransformer(plain_spec())
    assert wb.costs(model) == wb.costs(model.spec, torch.float32, tokens=64)
    assert wb.costs(model.spec).dtype == torch.bfloat16
    assert wb.costs(wb.HookedTransformer(plain_spec(), dtype=torch.bfloat16)).dtype == torch.bfloat16
    assert wb.costs(model.with_hooks([("z", lambda value, at: None)])) == wb.costs(model)


def test_figures_that_the_readme_gives():
    llama = wb.costs(wb.ModelSpec.preset("llama-2-70b"), tokens=8192)
    assert (llama.n_params, llama.kv_bytes_per_token) == (68_976_648_192, 327_680)
    assert llama.compute_optimal_tokens == 20 * 68_976_648_192
    assert llama.memory.kv_cache == 2_684_354_560
    assert (round(llama.memory.load / 1e9), round(llama.memory.train / 1e11)) == (138, 11)
    flops = llama.flops_per_token
    assert (round(flops.rule_forward / 1e9), round(flops.forward / 1e9)) == (138, 148)
    experts = wb.costs(wb.ModelSpec.preset("mixtral-8x7b")).components["experts"]
    assert (experts.total, experts.active) == (32 * 8 * 3 * 4096 * 14336, 32 * 2 * 3 * 4096 * 14336)
    assert (round(experts.total / 1e8), round(experts.active / 1e8)) == (451, 113)


def test_as_json():
    found = wb.costs(wb.ModelSpec.preset("deepseek-v3"), tokens=100)
    data = json.loads(json.dumps(found.to_dict()))
    assert data["dtype"] == "bfloat16"
    assert data["components"]["experts"]["active"] == 58 * 8 * 3 * 7168 * 2048
    assert data["memory"]["load"] == found.memory.load
    assert data["flops_per_token"]["forward"] == found.flops_per_token.forward


def test_nothing_is_allocated():
    process = psutil.Process()
    before = process.memory_info().rss
    wb.costs(wb.ModelSpec.preset("llama-3-405b"))
    wb.costs(wb.ModelSpec.preset("deepseek-v3"))
    assert process.memory_info().rss - before < 2**28


def test_a_layer_of_attention_alone_and_a_text_of_one_token():
    found = wb.costs(spec_of(GQA, n_layers=1), tokens=1)
    assert found.flops_per_token.attention == 2 * 4 * 12
    assert math.isclose(found.flops_per_token.training, 3 * found.flops_per_token.forward)


WRONG = {
    "a name": (("llama-2-7b",), {}, wb.errors.KindError, "not str.*ModelSpec.preset"),
    "no dtype": ((plain_spec(), "float32"), {}, wb.errors.KindError, "'float32'.*torch.bfloat16"),
    "integers": ((plain_spec(), torch.int8), {}, wb.errors.KindError, r"torch\.int8.*floating point"),
    "no tokens": ((plain_spec(),), {"tokens": 0}, wb.errors.InputError, "tokens is 0.*at least 1"),
    "half a text": ((plain_spec(),), {"batch": 0.5}, wb.errors.KindError, "batch is 0.5.*whole number"),
    "true": ((plain_spec(),), {"tokens": True}, wb.errors.KindError, "tokens is True"),
}


@pytest.mark.parametrize(("given", "named", "error", "says"), WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_is_said(given, named, error, says):
    with pytest.raises(error, match=says):
        wb.costs(*given, **named)
