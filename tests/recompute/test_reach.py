"""What a cell may be beside one place of a grid, and what may be changed beside the cell: windows of layers, labelled
positions, selections, hooks. Each against whole runs with hooks."""

from itertools import product

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from random_models import VOCAB, powered, some_tokens, specs
from test_engine import DIFFERENCE, METRICS, N_EXAMPLES, N_POS, close, naive, pair, some_sweep

import workbench as wb
from workbench.inputs import read_text
from workbench.recompute import declared
from workbench.sweep import ways

errors = wb.errors
pytestmark = pytest.mark.filterwarnings("ignore:clean and corrupted measure the same")


def patched(model, tokens, sites, where, source, metric, hooks=(), mask=None):
    """One cell by hand: at these sites, the mask `where(site)` says which elements become the source's."""

    def edit(value, at):
        return torch.where(where(at), source[at.name], value)

    logits = model.run_with_hooks(tokens, [*hooks, *((site.name, edit) for site in sites)], attention_mask=mask)
    return torch.as_tensor(metric(logits))


def only_the_cone(monkeypatch):
    monkeypatch.setattr(ways.Wide, "cells", lambda *_: pytest.fail("the wide way was taken"))


@pytest.fixture(scope="module")
def nano():
    return powered(wb.ModelSpec.preset("kamui-nano"))


# Windows, labels, selections


@pytest.mark.parametrize("window", [1, 2, 3, 4, 9])
@pytest.mark.parametrize("wide", [False, True])
def test_a_window_is_the_layers_around_each(window, wide):
    """As Meng et al. 2022 count them: for 3, the layer before, itself and the one after."""
    model, (clean, corrupted) = powered(wb.ModelSpec.preset("kamui-small")), pair()
    n_layers = model.spec.n_layers
    view = model.with_hooks([("embed", lambda value, at: None)]) if wide else model
    r = wb.activation_patching(
        view, clean, corrupted, DIFFERENCE, "mlp_out", ("layer", "pos"), window=window, progress=False
    )
    _, cache = model.run_with_cache(clean, "mlp_out")
    before, behind = {1: (0, 0), 2: (1, 0), 3: (1, 1), 4: (2, 1), 9: (4, 4)}[window]
    for layer, pos in product(range(n_layers), (0, 3)):
        around = range(max(0, layer - before), min(n_layers, layer + behind + 1))
        sites = [model.sites.one(("mlp_out", other)) for other in around]
        where = lambda at, pos=pos: (torch.arange(N_POS) == pos)[:, None]  # noqa: E731
        assert close(r.values[:, layer, pos], patched(model, corrupted, sites, where, cache, DIFFERENCE))
    some = wb.activation_patching(
        model, clean, corrupted, DIFFERENCE, "mlp_out", layers=[2, 0], window=window, progress=False
    )
    assert close(some.values, r.values[:, [2, 0]])


@given(specs(adds=False), st.data())
def test_labels_are_a_position_of_each_example(spec, data):
    """Counted over real tokens, on either side of the padding."""
    model, (clean, corrupted) = powered(spec), pair(0)
    left = data.draw(st.booleans())
    mask = torch.tensor([[0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1]] if left else [[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]])
    shift = 2 * left
    site = data.draw(st.sampled_from(["resid_pre", "attn_out", "z"]))
    assume(len({found.sizes for found in model.sites.select(site)}) == 1)
    positions = {"subject": [1, 4], "end": -1}
    metric = wb.logit_diff([3, 4], 7, pos="end")
    by_hand = wb.logit_diff([3, 4], 7, pos=[3 + shift, 5])
    options = {"positions": positions, "attention_mask": mask, "progress": False}
    r = wb.activation_patching(model, clean, corrupted, metric, site, over=("label", "layer"), **options)
    assert r.places["label"] == r.labels["label"] == ("subject", "end")
    _, cache = model.run_with_cache(clean, attention_mask=mask)
    for index, columns in enumerate(([1 + shift, 4], [3 + shift, 5])):
        at_label = torch.tensor(columns)[:, None] == torch.arange(N_POS)
        for layer in range(model.spec.n_layers):
            sites = [model.sites.one((site, layer))]
            where = lambda at, mask=at_label: mask.view(*mask.shape, *[1] * (len(at.axes) - 2))  # noqa: E731
            values = patched(model, corrupted, sites, where, cache, by_hand, mask=mask)
            assert close(r.values[:, index, layer], values)


def test_a_table_and_a_file_name_labels(nano, tmp_path):
    clean, corrupted = pair()
    positions = {"subject": [1, 4], "end": [-1, -1]}
    r = wb.activation_patching(nano, clean, corrupted, DIFFERENCE, positions=positions, progress=False)
    assert r.axes == ("layer", "label")
    assert set(r.to_dataframe()["label"]) == {"subject", "end"}
    r.save(tmp_path / "r.safetensors")
    assert wb.SweepResult.load(tmp_path / "r.safetensors").places == r.places
    assert r.figure().data
    heads = wb.ablate(nano, clean, DIFFERENCE, positions=positions, progress=False)
    assert heads.axes == ("layer", "label", "head")
    joint = wb.ablate(nano, clean, DIFFERENCE, over=("layer", "head"), positions=positions, progress=False)
    assert joint.axes == ("layer", "head")  # both positions at once
    assert not close(joint.values, heads.values.sum(2))


@pytest.mark.parametrize("wide", [False, True])
def test_a_selection_is_changed_at_once(nano, wide):
    clean, corrupted = pair()
    view = nano.with_hooks([("embed", lambda value, at: None)]) if wide else nano
    _, cache = nano.run_with_cache(clean, "z")
    last = nano.spec.n_layers - 1
    chosen = {0: [1, 0], last: [2]}

    def where(at, pos=None):
        heads = torch.zeros(nano.spec.n_heads, dtype=torch.bool)
        heads[chosen.get(at.layer, [])] = True
        column = torch.ones(N_POS, dtype=torch.bool) if pos is None else torch.arange(N_POS) == pos
        return (column[:, None] & heads)[..., None]

    sites = nano.sites.select("z")
    options = {"site": "z", "selection": [(0, 1), (-1, 2), (0, 0)], "progress": False}
    r = wb.activation_patching(view, clean, corrupted, DIFFERENCE, **options)
    assert r.values.shape == (N_EXAMPLES,)
    assert r.axes == ()
    assert close(r.values, patched(nano, corrupted, sites, where, cache, DIFFERENCE))
    assert r.to_dataframe()["effect"].tolist() == r.effect_each.tolist()
    assert torch.allclose(r.effect, (r.values.mean() - r.corrupted.mean()) / (r.clean.mean() - r.corrupted.mean()))
    assert r.interval().shape == (2,)
    assert r.p_values().shape == r.effect.shape == r.unchanged.shape == ()
    assert "one cell, 2 examples" in repr(r)
    with pytest.raises(errors.InputError, match="drawn over 1 to 3 axes"):
        r.figure()
    by_pos = wb.activation_patching(view, clean, corrupted, DIFFERENCE, over=("pos",), **options)
    for pos in (2, 5):
        values = patched(nano, corrupted, sites, lambda at, pos=pos: where(at, pos), cache, DIFFERENCE)
        assert close(by_pos.values[:, pos], values)
    zeroed = wb.ablate(view, clean, DIFFERENCE, selection=[(0, 1), (0, 0), (last, 2)], progress=False)
    logits, _ = nano(clean, hooks=[wb.zero("z", 0, heads=[0, 1]), wb.zero("z", last, heads=2)])
    assert close(zeroed.values, DIFFERENCE(logits))


WRONG = {
    "a selection of a stream": ({"site": "resid_pre", "selection": [(0, 1)]}, errors.InterventionError, "no heads"),
    "an empty selection": ({"site": "z", "selection": []}, errors.InterventionError, "selects nothing"),
    "a head too many": ({"site": "z", "selection": [(0, 99)]}, errors.InterventionError, "head 99"),
    "a layer too many": ({"site": "z", "selection": [(9, 0)]}, errors.InterventionError, "layer 9"),
    "no pairs": ({"site": "z", "selection": [0, 1]}, errors.KindError, "pairs"),
    "a selection and heads": ({"site": "z", "selection": [(0, 1)], "heads": 1}, errors.InterventionError, "leave"),
    "a selection over layers": (
        {"site": "z", "selection": [(0, 1)], "over": ("layer",)},
        errors.InterventionError,
        "over some of pos",
    ),
    "no window": ({"window": 0}, errors.KindError, "window is 0"),
    "half a window": ({"window": 1.5}, errors.KindError, "window is 1.5"),
    "a label too short": ({"positions": {"end": [1]}}, errors.InterventionError, "'end' has 1 position for 2 examples"),
    "a label outside": ({"positions": {"end": [1, 6]}}, errors.InterventionError, "label 'end': position 6"),
    "a label of a kind": ({"positions": {"end": "last"}}, errors.KindError, "'last'"),
    "a label of two positions": ({"positions": {"end": [[1, 4], [2, 5]]}}, errors.KindError, "a list of ints"),
    "a label that is a mapping": ({"positions": {"end": {1: 2, 3: 4}}}, errors.KindError, "a list of ints"),
    "a label that is no text": ({"positions": {1: [1, 2]}}, errors.KindError, "a label is a text"),
    "a window of one layer's site": (
        {"site": "blocks.1.hook_mlp_out", "window": 3, "over": ()},
        errors.InterventionError,
        "is one layer's",
    ),
    "axes of axes": ({"over": [["layer"]]}, errors.InterventionError, "a list of axes"),
    "a layer without the site": (
        {"site": "blocks.0.hook_resid_pre", "layers": [1]},
        errors.InterventionError,
        "there is no 'blocks.0.hook_resid_pre' in layer 1; it is in layer 0",
    ),
    "heads that are true": ({"site": "z", "selection": [(True, True)]}, errors.KindError, "pairs"),
    "memory in words": ({"memory": "1GB"}, errors.KindError, "memory is '1GB'"),
    "no memory": ({"memory": 0}, errors.KindError, "memory is 0"),
    "a mask of text": ({"attention_mask": "junk"}, errors.InputError, "attention_mask is str"),
    "hooks of a kind": ({"hooks": torch.tensor(1.0)}, errors.KindError, "hooks are a sequence"),
    "no label": ({"positions": {}}, errors.InterventionError, "no label"),
    "over positions, which are labels": (
        {"positions": {"end": -1}, "over": ("layer", "pos")},
        errors.InterventionError,
        "over some of layer, label",
    ),
    "neurons of a head": ({"site": "z", "neurons": 1}, errors.InterventionError, "no neurons"),
    "heads of neurons": ({"site": "post", "heads": 1}, errors.InterventionError, "no heads"),
}


@pytest.mark.parametrize(("options", "kind", "says"), WRONG.values(), ids=WRONG.keys())
def test_what_does_not_fit_is_said_before_anything_runs(nano, options, kind, says, monkeypatch):
    monkeypatch.setattr(ways, "record", lambda *_, **__: pytest.fail("the model ran"))
    with pytest.raises(kind, match=says):
        wb.activation_patching(nano, *pair(), DIFFERENCE, progress=False, **options)
    with pytest.raises(kind, match=says):
        wb.ablate(nano, pair()[0], DIFFERENCE, progress=False, **{"site": "resid_pre", **options})


def test_a_metric_reads_labels_that_there_are(nano):
    clean, corrupted = pair()
    with pytest.raises(errors.MetricError, match=r"'ends', which is no label.*end"):
        wb.activation_patching(nano, clean, corrupted, wb.logit(3, pos="ends"), positions={"end": -1}, progress=False)
    with pytest.raises(errors.MetricError, match="the label 'end', which a sweep knows"):
        wb.logit(3, pos="end")(torch.zeros(2, 3, 5))


def test_a_site_of_no_layer_is_swept_by_position(nano):
    clean, corrupted = pair()
    for site in ("embed", "ln_final.out"):
        r = wb.activation_patching(nano, clean, corrupted, DIFFERENCE, site, progress=False)
        assert r.axes == ("pos",)
    with pytest.raises(errors.InterventionError, match="'embed' is swept over some of pos; "):
        wb.activation_patching(nano, clean, corrupted, DIFFERENCE, "embed", ("layer", "pos"), progress=False)


def test_a_window_may_be_larger_than_the_model_and_memory_than_the_machine(nano):
    clean, corrupted = pair()
    sweep = {"site": "mlp_out", "progress": False, "over": ("layer",)}
    every = wb.activation_patching(nano, clean, corrupted, DIFFERENCE, "mlp_out", (), progress=False).values
    r = wb.activation_patching(nano, clean, corrupted, DIFFERENCE, window=300_000_000, memory=10**30, **sweep)
    assert close(r.values, every[:, None].expand_as(r.values))


def test_what_is_no_model():
    for wrong in (None, torch.nn.Linear(2, 2)):
        with pytest.raises(errors.KindError, match="a sweep is over a model"):
            wb.activation_patching(wrong, *pair(), DIFFERENCE)
        with pytest.raises(errors.KindError, match="a sweep is over a model"):
            wb.ablate(wrong, pair()[0], DIFFERENCE)


# Hooks beside the cell


def some_hooks(model, data):
    """Interventions of every kind, at random sites; the values of caches are another text's."""
    other = some_tokens(N_EXAMPLES, N_POS, VOCAB, seed=7)
    _, cache = model.run_with_cache(other)
    generator = torch.Generator().manual_seed(0)
    kinds = sorted({site.short for site in model.sites if "scale" not in site.name and "sink" not in site.name})
    hooks = []
    for number in range(data.draw(st.integers(1, 3))):
        site = data.draw(st.sampled_from(model.sites.select(data.draw(st.sampled_from(kinds)))))
        where = {"positions": data.draw(st.sampled_from([None, 2, [0, -1]]))}
        if "head" in site.axes or "kv_head" in site.axes:
            where["heads"] = data.draw(st.sampled_from([None, 0, [-1]]))
        make = data.draw(st.sampled_from(["zero", "patch", "mean", "resample", "scale", "steer", "project"]))
        fixed = site.sizes[-1] is not None
        if make in ("steer", "project") and fixed:
            direction = torch.randn(site.sizes[-1], generator=generator)
            of = wb.steer if make == "steer" else wb.project_out
            hooks.append(of(site.name, direction, **where))
        elif make in ("patch", "mean", "resample"):
            hooks.append(getattr(wb, make)(cache, site.name, **where))
        elif make == "zero":
            hooks.append(wb.zero(site.name, **where))
        else:
            hooks.append(wb.scale(site.name, 0.5 + number, **where))
    return hooks


@given(specs(adds=False), st.data())
def test_declared_hooks_are_part_of_every_run(spec, data):
    """And do not cost the cone."""
    model, (clean, corrupted) = powered(spec), pair()
    site, axes = some_sweep(model, data)
    hooks = some_hooks(model, data)
    metric = data.draw(st.sampled_from(METRICS))
    text = read_text(clean, model.spec, None, torch.device("cpu"))
    view = model.with_hooks(hooks)
    assert declared(view._view_hooks, view, text)
    r = wb.activation_patching(model, clean, corrupted, metric, site, axes, hooks=hooks, progress=False)
    _, cache = model.run_with_cache(clean, hooks=hooks)
    assert close(r.values, naive(model, corrupted, site, axes, metric, lambda here: cache[here], hooks=hooks))
    of_view = wb.activation_patching(view, clean, corrupted, metric, site, axes, progress=False)
    assert torch.equal(of_view.values, r.values)


@given(specs(adds=False), st.data())
def test_functions_take_the_wide_way_and_say_the_same(spec, data):
    model, (clean, corrupted) = powered(spec), pair()
    site, axes = some_sweep(model, data)
    at = data.draw(st.sampled_from([found.name for found in model.sites if "scale" not in found.name]))
    hooks = [(at, lambda value, at: value.roll(1, 0) * 0.9 if at.layer else value)]
    if at.endswith(("pattern", "attn_scores")):
        hooks = [(at, lambda value, at: value * 0.9)]
    metric = data.draw(st.sampled_from(METRICS))
    r = wb.activation_patching(model, clean, corrupted, metric, site, axes, hooks=hooks, progress=False)
    _, cache = model.run_with_cache(clean, hooks=hooks)
    assert close(r.values, naive(model, corrupted, site, axes, metric, lambda here: cache[here], hooks=hooks))
    assert r.work.computed > 0


def test_a_pattern_that_weighs_the_future_takes_the_wide_way(nano, monkeypatch):
    """Its cache is of a run in which a hook made every token look at all others."""
    clean, corrupted = pair()
    everywhere = ("pattern", 0), lambda value, at: torch.full_like(value, 1 / N_POS)
    _, uniform = nano.run_with_cache(clean, "pattern", hooks=[everywhere])
    hooks = [wb.patch(uniform, "pattern", layers=0)]
    r = wb.activation_patching(nano, clean, corrupted, DIFFERENCE, "resid_pre", hooks=hooks, progress=False)
    _, cache = nano.run_with_cache(clean, hooks=hooks)
    values = naive(nano, corrupted, "resid_pre", ("layer", "pos"), DIFFERENCE, lambda here: cache[here], hooks=hooks)
    assert close(r.values, values)
    only_the_cone(monkeypatch)
    _, causal = nano.run_with_cache(clean, "pattern")
    wb.activation_patching(
        nano, clean, corrupted, DIFFERENCE, hooks=[wb.patch(causal, "pattern", layers=0)], progress=False
    )
    with pytest.raises(BaseException, match="the wide way was taken"):
        wb.activation_patching(nano, clean, corrupted, DIFFERENCE, hooks=hooks, progress=False)


# Kinds of change


@given(specs(adds=False), st.data())
def test_leaving_directions_out_is_a_run_per_cell(spec, data):
    """What a projection leaves depends on what is there, also where earlier layers of the same cell are changed."""
    model, (clean, _) = powered(spec), pair()
    site, axes = some_sweep(model, data)
    width = model.sites.select(site)[0].sizes[-1]
    assume(width is not None and width > 1)
    directions = torch.randn(2, width, generator=torch.Generator().manual_seed(1))
    r = wb.ablate(model, clean, DIFFERENCE, site, "project", directions, axes, progress=False)
    basis = torch.linalg.qr(directions.T).Q
    sites = model.sites.select(site)
    sizes = {"layer": len(sites)}
    sizes |= {word: size or N_POS for word, size in zip(sites[0].axes, sites[0].sizes, strict=True)}
    assume(torch.tensor([sizes[axis] for axis in axes]).prod() <= 200)
    cells = []
    for index in product(*(range(sizes[axis]) for axis in axes)):
        place = dict(zip(axes, index, strict=True))

        def edit(value, at, place=place):
            where = tuple(place.get(word, slice(None)) for word in at.axes[:-1])
            new = value - value @ basis @ basis.T
            value[where] = new[where]
            return value

        swept = [sites[place["layer"]]] if "layer" in place else sites
        if axes and axes[-1] in sites[0].axes[-1:]:
            return  # directions over neurons that are swept one by one
        cells.append(DIFFERENCE(model.run_with_hooks(clean, [(found.name, edit) for found in swept])))
    values = torch.stack(cells, 1).unflatten(1, [sizes[axis] for axis in axes]) if axes else cells[0]
    assert close(r.values, values)


def test_keeping_a_set_of_heads(nano):
    clean, corrupted = pair()
    n_layers, n_heads = nano.spec.n_layers, nano.spec.n_heads
    keep = [(0, 1), (-1, 0)]
    _, usual = nano.run_with_cache(corrupted, "z")
    full, every = DIFFERENCE(nano(clean)[0]), [wb.mean(usual, "z")]
    empty = DIFFERENCE(nano(clean, hooks=every)[0])
    kept = {0: [1], n_layers - 1: [0]}
    hooks = [
        wb.mean(usual, "z", layers=layer, heads=[head for head in range(n_heads) if head not in kept.get(layer, [])])
        for layer in range(n_layers)
    ]
    of_set = DIFFERENCE(nano(clean, hooks=hooks)[0])
    f = wb.faithfulness(nano, clean, DIFFERENCE, keep, kind="mean", reference=corrupted)
    assert close(f.kept, of_set)
    assert close(f.empty, empty)
    assert close(f.full, full)
    assert f.mean == pytest.approx(float((of_set.mean() - empty.mean()) / (full.mean() - empty.mean())), abs=1e-3)
    assert torch.allclose(f.each, (of_set - empty) / (full - empty), atol=1e-3)
    nothing = wb.faithfulness(nano, clean, DIFFERENCE, [])
    assert nothing.mean == 0
    everything = [(layer, head) for layer in range(n_layers) for head in range(n_heads)]
    assert wb.faithfulness(nano, clean, DIFFERENCE, everything).mean == 1
    of_negative = wb.faithfulness(nano, clean, DIFFERENCE, [(-1, -1)])
    assert close(of_negative.kept, wb.faithfulness(nano, clean, DIFFERENCE, [(n_layers - 1, n_heads - 1)]).kept)
    for wrong, says in (([(0, 9)], "head 9 was chosen"), ([(-9, 0)], "layer -9 was chosen")):
        with pytest.raises(errors.InterventionError, match=says):
            wb.faithfulness(nano, clean, DIFFERENCE, wrong)
    for wrong in ([3], [("a", 1)], [(None, 1)], ["01"], [(0.0, 1.0)]):
        with pytest.raises(errors.KindError, match="pairs"):
            wb.faithfulness(nano, clean, DIFFERENCE, wrong)


# Metrics that read several positions


@given(specs(adds=False), st.data())
def test_an_answer_of_several_tokens_is_a_run_per_cell(spec, data):
    """Teacher-forced: the texts end with their answers, of two tokens and of one; padded on either side."""
    model, (clean, corrupted) = powered(spec), pair(0)
    left = data.draw(st.booleans())
    mask = torch.tensor([[0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1]] if left else [[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]])
    columns = [[4, 5], [5]] if left else [[2, 3], [5]]
    corrupted[0, columns[0]] = clean[0, columns[0]]
    corrupted[1, 5] = clean[1, 5]
    answers = [clean[row, of_row].tolist() for row, of_row in enumerate(columns)]
    site, axes = some_sweep(model, data)
    assume("pos" not in axes and "query" not in axes)

    def by_hand(logits):
        foreseen = logits.double().log_softmax(-1)
        each = [[foreseen[row, c - 1, clean[row, c]] for c in of_row] for row, of_row in enumerate(columns)]
        return torch.stack([torch.stack(of_row).sum() for of_row in each]).float()

    metric = wb.answer_logprob(answers)
    r = wb.activation_patching(model, clean, corrupted, metric, site, axes, progress=False, attention_mask=mask)
    _, cache = model.run_with_cache(clean, attention_mask=mask)
    assert close(r.values, naive(model, corrupted, site, axes, by_hand, lambda here: cache[here], mask))


@given(specs(adds=False), st.data())
def test_the_loss_of_a_text_is_a_run_per_cell(spec, data):
    model, (clean, _) = powered(spec), pair()
    site, axes = some_sweep(model, data)
    assume(not site.endswith("scale"))
    r = wb.ablate(model, clean, wb.loss(clean), site, over=axes, progress=False)

    def by_hand(logits):
        return -logits[:, :-1].log_softmax(-1).gather(2, clean[:, 1:, None])[..., 0].mean(1)

    _, cache = model.run_with_cache(clean)
    assert close(r.values, naive(model, clean, site, axes, by_hand, lambda here: torch.zeros_like(cache[here])))


def test_an_answer_that_the_texts_do_not_end_with(nano):
    clean, corrupted = pair()
    for metric in (wb.answer_logprob(clean[0, -2:].tolist()), wb.loss(clean)):
        with pytest.raises(errors.MetricError, match=r"text \d does not end with the tokens"):
            wb.activation_patching(nano, clean, corrupted, metric, progress=False)
