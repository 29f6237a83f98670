"""Recording: which sites, which positions, with gradients, and what it costs."""

import gc

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from random_models import close, powered, some_tokens, specs
from test_cache import plain_spec
from torch.profiler import ProfilerActivity, profile

import workbench as wb
from workbench.model.attention import AttentionSpec
from workbench.model.block import PreNorm
from workbench.model.mlp import MLPSpec
from workbench.model.norms import LayerNormSpec
from workbench.recorder import cache_bytes

errors = wb.errors


@pytest.fixture(scope="module")
def model():
    return powered(plain_spec())


def names_in(*shorts, layers=range(3)):
    return [f"blocks.{layer}.{short}" for layer in layers for short in shorts]


FILTERS = {
    "name": ("blocks.1.attn.hook_q", names_in("attn.hook_q", layers=[1])),
    "short form": (("q", -1), names_in("attn.hook_q", layers=[2])),
    "short name, every layer": ("q", names_in("attn.hook_q")),
    "no layer": ("embed", ["hook_embed"]),
    "no layer, as a pair": (("embed", None), ["hook_embed"]),
    "glob": ("blocks.[02].ln?.hook_scale", names_in("ln1.hook_scale", "ln2.hook_scale", layers=[0, 2])),
    "list": ([("z", 2), "pattern", "*final*out"], None),
    "set": ({"q", "k"}, names_in("attn.hook_q", "attn.hook_k")),
    "the same twice": (["q", "q", ("q", 0)], names_in("attn.hook_q")),
    "callable": (lambda name: name.endswith("hook_post"), names_in("mlp.hook_post")),
    "list with a callable": (
        [lambda name: "pos_embed" in name, ("q", 0)],
        ["hook_pos_embed", *names_in("attn.hook_q", layers=[0])],
    ),
}


@pytest.mark.parametrize(("names_filter", "names"), FILTERS.values(), ids=FILTERS.keys())
def test_filters(model, names_filter, names):
    logits, cache = model.run_with_cache(some_tokens(), names_filter)
    if names is None:
        names = [*names_in("attn.hook_pattern"), *names_in("attn.hook_z", layers=[2])]
        names = [*sorted(names, key=model.sites.names.index), "ln_final.hook_out"]
    assert list(cache) == names
    _, everything = model.run_with_cache(some_tokens())
    assert all(torch.equal(cache[name], everything[name]) for name in names)
    assert torch.equal(logits, model(some_tokens())[0])


def test_no_filter_is_every_site(model):
    _, cache = model.run_with_cache(some_tokens())
    assert list(cache) == model.sites.names


def never(model, *arguments, **keywords):
    """Runs with a hook at the embedding, which must not be called."""

    def called(value, at):
        raise AssertionError("the model ran")

    return model.run_with_cache(*arguments, hooks=[("embed", called)], **keywords)


REFUSED = {
    "misspelt": (errors.SiteError, "nearest are: resid_pre", {"names_filter": "resid_prr"}),
    "one of a list": (errors.SiteError, "resid_prr", {"names_filter": ["resid_post", "resid_prr"]}),
    "a glob of a list": (errors.SiteError, "'x", {"names_filter": ["resid_post", "x*"]}),
    "a callable of a list": (errors.SiteError, "none of the", {"names_filter": ["q", lambda name: False]}),
    "empty list": (errors.SiteError, "empty list", {"names_filter": []}),
    "ambiguous": (errors.SiteError, r"ln1\.scale, ln2\.scale", {"names_filter": "scale"}),
    "layer": (errors.SiteError, "layers 0 to 2", {"names_filter": ("q", 3)}),
    "kind": (errors.KindError, "int 3", {"names_filter": 3}),
    "beyond the stop": (errors.SiteError, "does not reach", {"names_filter": ("q", 1), "stop_at_layer": 1}),
    "one beyond the stop": (
        errors.SiteError,
        "does not reach",
        {"names_filter": ["embed", ("q", 1)], "stop_at_layer": 1},
    ),
    "final norm beyond the stop": (
        errors.SiteError,
        "does not reach",
        {"names_filter": "ln_final.out", "stop_at_layer": 3},
    ),
    "callable beyond the stop": (
        errors.SiteError,
        "does not reach",
        {"names_filter": lambda name: "s.2" in name, "stop_at_layer": 1},
    ),
    "stop beyond": (errors.InputError, "0 .* to 3", {"stop_at_layer": 4}),
    "stop before": (errors.InputError, "0 .* to 3", {"stop_at_layer": -1}),
    "stop kind": (errors.KindError, "'1'", {"stop_at_layer": "1"}),
    "position": (errors.InputError, "which has 7", {"pos_slice": 7}),
    "positions": (errors.InputError, "which has 7", {"pos_slice": [0, -8]}),
    "no position": (errors.InputError, "which has 7", {"pos_slice": slice(3, 3)}),
    "empty positions": (errors.InputError, "which has 7", {"pos_slice": []}),
    "position mask": (errors.KindError, "True", {"pos_slice": [True] * 7}),
    "position twice, with gradients": (errors.InputError, "twice", {"pos_slice": [1, 1], "grad": True}),
    "device with gradients": (errors.InputError, "device", {"device": "meta", "grad": True}),
    "keyword": (TypeError, "name_filter", {"name_filter": "q"}),
    "hook beyond the stop": (errors.SiteError, "never be called", {"stop_at_layer": 1}),
}


@pytest.mark.parametrize(("kind", "says", "keywords"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_recorded_is_said_before_anything_runs(model, kind, says, keywords):
    hooks = [("embed", lambda value, at: pytest.fail("the model ran"))]
    if "never" in says:
        hooks.append((("z", 2), lambda value, at: value))
    with pytest.raises(kind, match=says):
        model.run_with_cache(some_tokens(), hooks=hooks, **keywords)


@settings(max_examples=12)
@given(specs(), st.sampled_from([-1, 3, slice(2, 6, 2), [4, -7], torch.tensor([6, 5, 0])]))
def test_a_pos_slice_is_a_slice_of_the_whole_cache(spec, pos_slice):
    model, tokens = powered(spec), some_tokens()
    logits, whole = model.run_with_cache(tokens)
    same, cache = model.run_with_cache(tokens, pos_slice=pos_slice)
    assert torch.equal(same, logits)
    rows = torch.arange(7)[pos_slice].reshape(-1)
    assert torch.equal(cache.positions, whole.positions[:, rows])
    for site in model.sites:
        axis = site.axes.index("query" if "query" in site.axes else "pos")
        kept, wanted = cache[site.name], whole[site.name].index_select(axis, rows)
        # Scores of some queries are computed from these alone: a product of another shape, so not to the last bit.
        same = torch.allclose(kept, wanted, atol=1e-5) if "key" in site.axes else torch.equal(kept, wanted)
        assert same, site.name


@settings(max_examples=6)
@given(specs(), st.sampled_from([None, -1, [4, 0], slice(1, 6)]))
def test_gradients_are_those_of_autograd_through_a_perturbation(spec, pos_slice):
    """Frozen weights; the gradient at a kept slice is that of adding a leaf of zeros there."""
    model, tokens = powered(spec), some_tokens()
    assert not any(parameter.requires_grad for parameter in model.parameters())
    rows = torch.arange(7) if pos_slice is None else torch.arange(7)[pos_slice].reshape(-1)
    direction = torch.randn(model.spec.vocab_size, generator=torch.Generator().manual_seed(2))
    plain, _ = model(tokens)
    logits, cache = model.run_with_cache(tokens, grad=True, pos_slice=pos_slice)
    assert close(logits.detach(), plain, 1e-5)
    metric = (logits @ direction).sin().sum()
    kept = [name for name in cache if not name.endswith("attn_scores")]
    gradients = torch.autograd.grad(metric, [cache[name] for name in kept])
    leaves = [torch.zeros_like(cache[name]).requires_grad_() for name in kept]

    def adding(site, leaf):
        axis = site.axes.index("query" if "query" in site.axes else "pos")
        return site.name, lambda value, at: value.index_add(axis, rows, leaf)

    moved, _ = model(
        tokens, hooks=[adding(cache.sites.one(name), leaf) for name, leaf in zip(kept, leaves, strict=True)]
    )
    wanted = torch.autograd.grad((moved @ direction).sin().sum(), leaves)
    size = max(gradient.abs().max() for gradient in wanted)
    for name, ours, theirs in zip(kept, gradients, wanted, strict=True):
        assert close(ours, theirs, 1e-4) or (ours - theirs).abs().max() < 1e-6 * size, name


def test_without_grad_nothing_keeps_a_graph():
    trainable = wb.HookedTransformer(plain_spec())
    assert any(parameter.requires_grad for parameter in trainable.parameters())
    logits, cache = trainable.run_with_cache(some_tokens())
    assert not logits.requires_grad
    assert not any(cache[name].requires_grad for name in cache)


def test_hooks_come_before_the_recorder(model):
    _, plain = model.run_with_cache(some_tokens())
    for site in model.sites:
        seen = []

        def change(value, at, seen=seen):
            edited = value * 0.5
            seen.append(edited.clone())
            return edited

        _, cache = model.run_with_cache(some_tokens(), site.name, hooks=[(site.name, change)])
        finite = seen[0].isfinite()
        assert torch.equal(cache[site.name][finite], seen[0][finite]), site.name
        assert not torch.equal(cache[site.name], plain[site.name])


def test_what_comes_after_an_edit_is_recorded_edited(model):
    hook = (("pattern", 0), lambda value, at: value.flip(1))
    _, cache = model.run_with_cache(some_tokens(), ["pattern", "attn_scores", "z"], hooks=[hook])
    _, plain = model.run_with_cache(some_tokens())
    assert torch.equal(cache["pattern", 0], plain["pattern", 0].flip(1))
    assert close(cache["attn_scores", 0].exp(), plain["attn_scores", 0].exp(), 1e-5)
    values = plain["v", 0].repeat_interleave(2, dim=2)
    assert close(cache["z", 0], torch.einsum("bhqk,bkhd->bqhd", cache["pattern", 0], values), 1e-5)


# What it costs


def large_spec():
    attn = AttentionSpec(n_heads=4, n_kv_heads=4, d_head=16)
    layer = PreNorm(attn, MLPSpec(d_mlp=96), LayerNormSpec(), LayerNormSpec())
    return plain_spec(d_model=64, n_ctx=512, pos_embed=None, layers=(layer,) * 4)


def memory(run) -> tuple[int, int, object]:
    """Peak of the bytes that torch allocated during a run, what is left at its end, and its result."""
    gc.collect()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        result = run()
    events = sorted(
        (event.start_ns(), event.nbytes())
        for event in profiled.profiler.kineto_results.events()
        if event.name() == "[memory]"
    )
    now = peak = 0
    for _, n_bytes in events:
        now += n_bytes
        peak = max(peak, now)
    return peak, now, result


@pytest.mark.parametrize(
    "name",
    [
        "blocks.1.hook_resid_pre",
        "blocks.0.mlp.hook_post",
        "blocks.2.attn.hook_z",
        "blocks.3.attn.hook_pattern",
        "blocks.0.attn.hook_attn_scores",
    ],
)
def test_one_site_costs_no_more_than_itself(name):
    model, tokens = powered(large_spec()), some_tokens(1, 512)
    model(tokens)  # whatever is made once
    plain, _, _ = memory(lambda: model(tokens))
    peak, kept, (logits, cache) = memory(lambda: model.run_with_cache(tokens, name))
    site = model.sites.one(name)
    size = 512 * site.width * 4
    assert plain > 10 * 512 * 64 * 4  # the count counts
    slack = 16 * 1024
    assert peak <= plain + size + slack
    assert kept <= logits.nbytes + size + slack
    assert cache[name].isfinite().any()


def test_every_site_costs_no_more_than_their_sum():
    model, tokens = powered(large_spec()), some_tokens(1, 512)
    plain, _, _ = memory(lambda: model(tokens))
    peak, _, (_, cache) = memory(lambda: model.run_with_cache(tokens))
    total = cache_bytes(list(model.sites), 1, 512, 4)
    assert cache.n_bytes <= total
    assert peak <= plain + total + 64 * 1024
    pattern = cache["pattern", 0].nbytes
    assert total < cache.n_bytes + 4 * pattern  # 512 x 512 are never counted, nor held


def test_the_reckoning_is_what_values_take(model):
    _, cache = model.run_with_cache(some_tokens(2, 7))
    looked = ("hook_pattern", "hook_attn_scores")
    plain = [site for site in model.sites if not site.name.endswith(looked)]
    assert cache_bytes(plain, 2, 7, 4) == sum(cache[site.name].nbytes for site in plain) == cache.n_bytes
    both = [site for site in model.sites if site.name.endswith(looked)]
    q_and_k = sum(cache["q", layer].nbytes + cache["k", layer].nbytes for layer in range(3))
    assert cache_bytes(both, 2, 7, 4) == q_and_k
    assert cache_bytes(both[:1], 2, 7, 4) == cache_bytes(both[:2], 2, 7, 4)  # made of the same queries and keys


@given(specs())
def test_the_reckoning_holds_in_half_precision(spec):
    """Statistics and routing stay in float32 there."""
    half = powered(spec).to(torch.bfloat16)
    plain = [site for site in half.sites if not site.name.endswith(("hook_pattern", "hook_attn_scores"))]
    _, cache = half.run_with_cache(some_tokens(2, 7), names_filter=[site.name for site in plain])
    assert cache_bytes(plain, 2, 7, 2) == cache.n_bytes


def test_a_cache_that_does_not_fit_is_refused_before_anything_runs(model, monkeypatch):
    free, asked = 10**9, []

    def pretend(device):
        asked.append(str(device))
        return free

    monkeypatch.setattr("workbench.recorder.free_memory", pretend)
    size = 3 * 2 * 7 * 12 * 4  # resid_pre in three layers
    free = size
    model.run_with_cache(some_tokens(), "resid_pre")
    free = size - 1
    with pytest.raises(
        errors.TooLargeError, match=r"3 sites for 2 x 7 tokens takes 2\.0 KiB.*names_filter=.*fewer positions"
    ) as caught:
        never(model, some_tokens(), "resid_pre")
    assert isinstance(caught.value, MemoryError)
    assert "\n" not in str(caught.value)
    free = size // 7
    _, cache = model.run_with_cache(some_tokens(), "resid_pre", pos_slice=-1)
    assert len(cache) == 3
    with pytest.raises(errors.TooLargeError, match="2 x 2 tokens"):
        never(model, some_tokens(), "resid_pre", pos_slice=[0, 1])
    assert set(asked) == {"cpu"}
    free = size
    model.run_with_cache(some_tokens(), "resid_pre", device="meta")
    assert asked[-1] == "meta"
