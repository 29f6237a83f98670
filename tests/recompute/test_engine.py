"""The engine: every cell is the run with its one change, whatever the architecture, the site and the axes."""

from dataclasses import replace
from itertools import product

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from random_models import VOCAB, powered, some_tokens, specs

import workbench as wb
from workbench.model.attention import AttentionSpec

N_EXAMPLES, N_POS = 2, 6
REFERENCE = torch.randn(N_EXAMPLES, N_POS, VOCAB, generator=torch.Generator().manual_seed(0))
DIFFERENCE = wb.logit_diff([3, 4], 7)
METRICS = [
    DIFFERENCE,
    wb.logit_diff([[3, 5], [4]], 7),
    wb.logprob([3, 4]),
    wb.kl_from(REFERENCE, pos=-2),
    wb.logit([1, 2], pos=[2, -2]),
    lambda logits: logits.log_softmax(-1)[:, 1:, 5].sum(1),
]


def pair(shared: int = 2):
    """Texts that begin alike."""
    clean, corrupted = some_tokens(N_EXAMPLES, N_POS, seed=1), some_tokens(N_EXAMPLES, N_POS, seed=2)
    corrupted[:, :shared] = clean[:, :shared]
    return clean, corrupted


def naive(model, tokens, site, axes, metric, new, mask=None, hooks=()):
    """[example, *axes]: a whole forward for each cell, with one hook that puts the new values in."""
    sites = model.sites.select(site)
    sizes = {"layer": len(sites), "key": N_POS}
    sizes |= {word: size or N_POS for word, size in zip(sites[0].axes, sites[0].sizes, strict=True)}
    cells = []
    for index in product(*(range(sizes[axis]) for axis in axes)):
        at = dict(zip(axes, index, strict=True))

        def edit(value, here, at=at):
            where = [at.get(word, slice(None)) for word in here.axes]
            value[tuple(where)] = new(here.site)[tuple(where)]
            return value

        swept = [sites[at["layer"]]] if "layer" in at else sites
        edits = [(found.name, edit) for found in swept]
        logits = model.run_with_hooks(tokens, [*hooks, *edits], attention_mask=mask)
        cells.append(torch.as_tensor(metric(logits)))
    return torch.stack(cells, 1).reshape(len(tokens), *[sizes[axis] for axis in axes])


def close(ours, theirs):
    finite = theirs.isfinite()
    scale = theirs[finite].abs().max().clamp(min=1.0)
    return bool((ours.isfinite() == finite).all()) and bool(((ours - theirs)[finite].abs() <= 1e-4 * scale).all())


def some_sweep(model, data):
    """A kind of site, and axes for it, in some order."""
    short = data.draw(st.sampled_from(sorted({site.short for site in model.sites})))
    first, *others = model.sites.select(short)
    assume(all(other.sizes == first.sizes for other in others))
    possible = ["layer"] if first.layer is not None else []
    possible += [word for word in first.axes if word in ("pos", "head", "kv_head", "expert", "query")]
    axes = data.draw(st.sets(st.sampled_from(possible), min_size=first.layer is not None))
    return short, tuple(data.draw(st.permutations(sorted(axes))))


@given(specs(adds=False), st.data())
def test_patching_is_a_run_per_cell(spec, data):
    model, (clean, corrupted) = powered(spec), pair()
    site, axes = some_sweep(model, data)
    metric = data.draw(st.sampled_from(METRICS))
    r = wb.activation_patching(model, clean, corrupted, metric, site, axes, progress=False)
    _, cache = model.run_with_cache(clean)
    assert close(r.values, naive(model, corrupted, site, axes, metric, lambda here: cache[here]))


@given(specs(adds=False), st.data())
def test_padded_batches_are_a_run_per_cell(spec, data):
    """Where an example has a token; elsewhere its value is NaN. Metrics read real tokens."""
    model, (clean, corrupted) = powered(spec), pair(0)
    left = data.draw(st.booleans())
    mask = torch.tensor([[0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1]] if left else [[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]])
    site, axes = some_sweep(model, data)
    columns = [5, 4] if left else [3, 4]
    metric = wb.logit_diff([3, 4], 7, pos=[-1, 4])
    by_column = wb.logit_diff([3, 4], 7, pos=columns)
    r = wb.activation_patching(model, clean, corrupted, metric, site, axes, progress=False, attention_mask=mask)
    _, cache = model.run_with_cache(clean, attention_mask=mask)
    values = naive(model, corrupted, site, axes, by_column, lambda here: cache[here], mask)
    for axis, word in enumerate(axes, 1):
        if word in ("pos", "query"):
            shape = [1] * values.ndim
            shape[0], shape[axis] = 2, 6
            values = values.masked_fill(mask.view(shape) == 0, torch.nan)
    assert torch.equal(r.values.isnan(), values.isnan())
    assert close(r.values.nan_to_num(), values.nan_to_num())


@given(specs(adds=False), st.data())
def test_zeroing_is_a_run_per_cell(spec, data):
    model, (clean, _) = powered(spec), pair()
    site, axes = some_sweep(model, data)
    if site.endswith("scale"):  # a divisor
        return
    r = wb.ablate(model, clean, DIFFERENCE, site, over=axes, progress=False)
    _, cache = model.run_with_cache(clean)
    assert close(r.values, naive(model, clean, site, axes, DIFFERENCE, lambda here: torch.zeros_like(cache[here])))


@pytest.mark.parametrize(
    "over", [("layer", "head"), ("layer", "head", "query"), ("layer", "head", "query", "key"), ("key",)]
)
@pytest.mark.parametrize("site", ["pattern", "attn_scores"])
def test_patterns_by_query_and_key(site, over):
    model, (clean, corrupted) = powered(wb.ModelSpec.preset("kamui-nano")), pair()
    r = wb.activation_patching(model, clean, corrupted, DIFFERENCE, site, over, progress=False)
    _, cache = model.run_with_cache(clean)
    assert close(r.values, naive(model, corrupted, site, over, DIFFERENCE, lambda here: cache[here]))
    view = model.with_hooks([("embed", lambda value, at: None)])  # the wide way
    wide = wb.activation_patching(view, clean, corrupted, DIFFERENCE, site, over, progress=False)
    assert close(wide.values, r.values)
    assert torch.equal(wide.unchanged, r.unchanged)


def test_layers_of_other_shapes_are_refused():
    few, many = (AttentionSpec(n_heads, 1, 4) for n_heads in (2, 3))
    spec = wb.ModelSpec.preset("kamui-nano")
    layers = tuple(replace(spec.layers[0], attn=attn) for attn in (few, many))
    model, (clean, corrupted) = powered(replace(spec, layers=layers)), pair()
    with pytest.raises(wb.errors.InterventionError, match="z' differs in shape"):
        wb.activation_patching(model, clean, corrupted, DIFFERENCE, "z", progress=False)
    r = wb.activation_patching(model, clean, corrupted, DIFFERENCE, "z", layers=1, progress=False)
    assert r.values.shape == (2, 1, 3)


def test_a_vocabulary_is_not_computed_for_named_logits(monkeypatch):
    model, (clean, corrupted) = powered(wb.ModelSpec.preset("kamui-nano")), pair()
    monkeypatch.setattr(type(model.unembedding), "forward", lambda *_: pytest.fail("the whole vocabulary was computed"))
    wb.activation_patching(model, clean, corrupted, wb.logit_diff(1, 2), progress=False)
