"""Patch and zero, against hooks written by hand."""

import pytest
import torch
from random_models import powered, some_tokens
from test_cache import plain_spec

import workbench as wb

errors = wb.errors
TOKENS, OTHERS = some_tokens(2), some_tokens(2, seed=8)


@pytest.fixture(scope="module")
def model():
    return powered(plain_spec())


@pytest.fixture(scope="module")
def cache(model):
    return model.run_with_cache(OTHERS)[1]


def by_hand(model, tokens, cache, name, layers, positions, heads):
    """Masks, where the interventions use indices. cache None: zeros."""

    def hook(value, at):
        chosen = torch.ones_like(value, dtype=torch.bool)
        for words, choice in ((("pos", "query"), positions), (("head", "kv_head"), heads)):
            axis = next((axis for axis, word in enumerate(at.axes) if word in words), None)
            if choice is not None:
                size = value.shape[axis]
                here = torch.tensor([place in [number % size for number in choice] for place in range(size)])
                chosen &= here.view([-1 if other == axis else 1 for other in range(value.ndim)])
        return torch.where(chosen, torch.zeros_like(value) if cache is None else cache[at.name], value)

    return model.run_with_hooks(tokens, [((name, layer), hook) for layer in layers])


CHOICES = [
    ("resid_pre", {}),
    ("resid_mid", {"layers": 1}),
    ("attn_out", {"layers": [0, 2], "positions": [1, 4]}),
    ("mlp_out", {"layers": -1, "positions": -1}),
    ("attn_in", {"positions": [0, -2], "layers": (1,)}),
    ("z", {"heads": 2}),
    ("z", {"heads": [-1, 0], "layers": [2, 0], "positions": range(2, 5)}),
    ("q", {"heads": [1, 3], "positions": [5]}),
    ("k", {"heads": 1}),
    ("v", {"heads": [0, -1], "positions": [0, 3, 6], "layers": 1}),
    ("pattern", {"heads": [0, 2], "positions": [3, 6]}),
    ("mlp.post", {"positions": 2}),
    ("ln2.normalized", {"layers": [0, 1]}),
]


@pytest.mark.parametrize("kind", ["patch", "zero"])
@pytest.mark.parametrize(("site", "chosen"), CHOICES)
def test_an_intervention_is_its_hook(model, cache, kind, site, chosen):
    made = wb.patch(cache, site, **chosen) if kind == "patch" else wb.zero(site, **chosen)
    lists = {
        word: None if (choice := chosen.get(word)) is None else [choice] if isinstance(choice, int) else list(choice)
        for word in ("layers", "positions", "heads")
    }
    lists["layers"] = range(3) if lists["layers"] is None else [layer % 3 for layer in lists["layers"]]
    wanted = by_hand(model, TOKENS, cache if kind == "patch" else None, site, **lists)
    logits, _ = model(TOKENS, hooks=[made])
    assert torch.equal(logits, wanted)
    assert not torch.equal(logits, model(TOKENS)[0])


def test_sites_of_every_form(model, cache):
    wanted, _ = model(TOKENS, hooks=[wb.zero("z", layers=1)])
    for site in (("z", 1), "blocks.1.attn.hook_z", "*.1.*hook_z", lambda name: "1.attn.hook_z" in name):
        assert torch.equal(model(TOKENS, hooks=[wb.zero(site)])[0], wanted)
    embedded, _ = model(TOKENS, hooks=[wb.patch(cache, "embed")])
    assert torch.equal(embedded, model(OTHERS)[0])  # positions are the same


def test_an_intervention_can_be_used_again_and_changes_nothing_it_is_made_of(model, cache):
    before = {name: value.clone() for name, value in cache.items()}
    patch = wb.patch(cache, lambda name: "hook_v" in name or "resid_pre" in name, positions=[0, 3])
    first, _ = model(TOKENS, hooks=[patch])
    assert torch.equal(model(TOKENS, hooks=[patch])[0], first)
    assert all(torch.equal(cache[name], value) for name, value in before.items())
    hooks = [(("resid_pre", 1), lambda value, at: value.zero_())]
    model(TOKENS, hooks=[patch, *hooks])
    assert all(torch.equal(cache[name], value) for name, value in before.items())


def test_in_the_order_given(model, cache):
    double = (("z", 1), lambda value, at: value * 2)
    patch = wb.patch(cache, ("z", 1))
    _, run = model.run_with_cache(TOKENS, hooks=[patch, double])
    assert torch.equal(run["z", 1], cache["z", 1] * 2)
    _, run = model.run_with_cache(TOKENS, hooks=[double, patch])
    assert torch.equal(run["z", 1], cache["z", 1])
    _, run = model.run_with_cache(TOKENS, hooks=[patch, wb.zero(("z", 1), heads=2), double])
    assert (run["z", 1][:, :, 2] == 0).all()
    assert torch.equal(run["z", 1][:, :, 3], cache["z", 1][:, :, 3] * 2)


def test_in_a_view(model, cache):
    zero, patch = wb.zero("z", layers=0, heads=1), wb.patch(cache, ("z", 0), heads=[0, 1])
    wanted, _ = model(TOKENS, hooks=[zero, patch])
    assert torch.equal(model.with_hooks([zero])(TOKENS, hooks=[patch])[0], wanted)
    assert torch.equal(model.with_hooks([zero]).with_hooks([patch])(TOKENS)[0], wanted)
    assert not torch.equal(model.with_hooks([patch])(TOKENS, hooks=[zero])[0], wanted)


def test_in_a_run_that_resumes(model, cache):
    _, run = model.run_with_cache(TOKENS)
    wanted, _ = model(TOKENS, hooks=[wb.zero("z", layers=2, heads=[0, 3])])
    for intervention in (wb.zero(("z", 2), heads=[0, 3]), wb.zero("z", layers=2, heads=[3, 0])):
        assert torch.equal(model.resume(run["resid_pre", 1], start_at_layer=1, hooks=[intervention])[0], wanted)
    with pytest.raises(errors.SiteError, match="never be called"):
        model.resume(run["resid_pre", 1], start_at_layer=1, hooks=[wb.patch(cache, "z", layers=0)])


def test_another_dtype_takes_the_runs(model, cache):
    half = powered(plain_spec()).to(torch.bfloat16)
    _, run = half.run_with_cache(TOKENS, hooks=[wb.patch(cache, ("resid_pre", 1))])
    assert torch.equal(run["resid_pre", 1], cache["resid_pre", 1].bfloat16())


def test_numbers_of_any_library(model):
    import numpy as np

    wanted, _ = model(TOKENS, hooks=[wb.zero("z", layers=1, heads=[1, 2], positions=3)])
    for one, two in ((np.int64(3), np.array([1, 2])), (torch.tensor(3), torch.tensor([1, 2]))):
        assert torch.equal(model(TOKENS, hooks=[wb.zero("z", np.int32(1), one, two)])[0], wanted)


NOTHING = {
    "no site": (errors.SiteError, "no site matches 'zz'", lambda c: wb.zero("zz")),
    "kind of site": (errors.KindError, "int 3", lambda c: wb.zero(3)),
    "no layer": (errors.InterventionError, "layer selects nothing", lambda c: wb.zero("z", layers=[])),
    "layer beyond": (errors.InterventionError, "layer 3 .* 0 to 2", lambda c: wb.zero("z", layers=3)),
    "layer of a site without": (errors.InterventionError, "'embed' lies in layers 0", lambda c: wb.zero("embed", 0)),
    "another layer": (errors.InterventionError, "lies in layers 0", lambda c: wb.zero(("z", 1), layers=0)),
    "layer of a kind": (errors.KindError, "'all'", lambda c: wb.zero("z", layers="all")),
    "no head": (errors.InterventionError, "head selects nothing", lambda c: wb.zero("z", heads=[])),
    "head beyond": (errors.InterventionError, "head 4 .* 0 to 3", lambda c: wb.zero("z", heads=[0, 4])),
    "kv head beyond": (errors.InterventionError, "kv_head 2 .* 0 to 1", lambda c: wb.patch(c, "k", heads=2)),
    "heads of a stream": (errors.InterventionError, "no head axis", lambda c: wb.zero("resid_pre", heads=0)),
    "heads of some": (errors.InterventionError, "no head axis", lambda c: wb.zero("*.0.*", heads=0)),
    "head of a kind": (errors.KindError, "1.5", lambda c: wb.zero("z", heads=1.5)),
    "a head that is true": (errors.KindError, "True", lambda c: wb.zero("z", heads=True)),
    "no position": (errors.InterventionError, "position selects nothing", lambda c: wb.zero("z", positions=())),
    "position beyond": (errors.InterventionError, "position 7 .* 0 to 6", lambda c: wb.zero("z", positions=7)),
    "position before": (errors.InterventionError, "position -8", lambda c: wb.patch(c, "z", positions=[-8])),
    "position of a kind": (errors.KindError, "slice", lambda c: wb.zero("z", positions=slice(0, 2))),
}


@pytest.mark.parametrize(("kind", "says", "make"), NOTHING.values(), ids=NOTHING.keys())
def test_what_selects_nothing_is_an_error(model, cache, kind, says, make):
    with pytest.raises(kind, match=says) as caught:
        model(TOKENS, hooks=[make(cache)])
    assert "\n" not in str(caught.value)


BEFORE = {
    "head beyond": lambda m, c: wb.zero("z", heads=4),
    "heads of a stream": lambda m, c: wb.patch(c, "resid_mid", heads=1),
    "site that was not recorded": lambda m, c: wb.patch(m.run_with_cache(OTHERS, "z")[1], "q"),
    "layer that was not recorded": lambda m, c: wb.patch(m.run_with_cache(OTHERS, ("z", 0))[1], "z"),
}


@pytest.mark.parametrize("make", BEFORE.values(), ids=BEFORE.keys())
def test_what_can_be_known_is_said_before_anything_runs(model, cache, make):
    with pytest.raises(errors.InterventionError) as caught:
        model(TOKENS, hooks=[("embed", lambda value, at: pytest.fail("the model ran")), make(model, cache)])
    assert any(word in str(caught.value) for word in ("blocks.", "head 4"))


def test_a_cache_of_another_shape(model, cache):
    for other in (
        model.run_with_cache(OTHERS[:1])[1],
        model.run_with_cache(OTHERS[:, :5])[1],
        model.run_with_cache(OTHERS, pos_slice=[0])[1],
        model.run_with_cache(OTHERS[:1])[1].remove_batch_dim(),
    ):
        with pytest.raises(errors.InterventionError, match=r"hook_z is \[.*this run's \[2, 7, 4, 6\]"):
            model(TOKENS, hooks=[wb.patch(other, "z", positions=0)])


def test_what_is_no_cache(model):
    for wrong in (3, None, {}, model, model(TOKENS)[0]):
        with pytest.raises(errors.KindError, match="takes a cache"):
            wb.patch(wrong, "z")
    for wrong in ({"layer": 1}, {"head": 0}, {"pos": 0}):
        with pytest.raises(TypeError):
            wb.zero("z", **wrong)


def test_an_intervention_says_what_it_does(cache):
    assert repr(wb.zero("z", layers=1)) == "Zero(site='z', layers=1, positions=None, heads=None, neurons=None)"
    assert repr(wb.patch(cache, "z")) == "Patch(site='z', layers=None, positions=None, heads=None, neurons=None)"
