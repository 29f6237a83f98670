"""Sweeps: every cell against one full run of a transformers model with one plain PyTorch hook."""

import warnings
from contextlib import contextmanager
from importlib import import_module
from itertools import product

import numpy as np
import pytest
import torch
from cases import ALL
from parity import VOCAB, tiny
from random_models import powered, some_tokens
from test_cache import plain_spec
from words import word_tokenizer

import workbench as wb

errors = wb.errors
N_POS = 6
CLEAN, CORRUPTED = some_tokens(3, N_POS, VOCAB, seed=1), some_tokens(3, N_POS, VOCAB, seed=2)
CORRUPTED[:, 0] = CLEAN[:, 0]  # as prompts do, they share how they begin
METRIC = wb.logit_diff([3, 4, 5], 7)


def by_hand(logits):
    return logits[[0, 1, 2], -1, [3, 4, 5]] - logits[:, -1, 7]


class Naive:
    """A transformers model with its places found and edited by module hooks."""

    def __init__(self, theirs):
        self.theirs = theirs
        base = theirs.base_model
        self.gpt2 = hasattr(base, "h")
        self.blocks = base.h if self.gpt2 else base.layers
        self.n_heads = theirs.config.num_attention_heads

    def module(self, site, layer):
        """The module and whether the place is its input; its output otherwise."""
        block = self.blocks[layer]
        attn = block.attn if self.gpt2 else block.self_attn
        return {
            "resid_pre": (block, True),
            "attn_out": (attn, False),
            "mlp_out": (block.mlp, False),
            "z": (attn.c_proj if self.gpt2 else attn.o_proj, True),
        }[site]

    @contextmanager
    def hook(self, site, layer, edit):
        module, is_input = self.module(site, layer)
        if is_input:
            handle = module.register_forward_pre_hook(lambda _, args: (self._edited(site, edit, args[0]), *args[1:]))
        else:

            def after(_, args, out):
                if isinstance(out, tuple):
                    return (self._edited(site, edit, out[0]), *out[1:])
                return self._edited(site, edit, out)

            handle = module.register_forward_hook(after)
        try:
            yield
        finally:
            handle.remove()

    def _edited(self, site, edit, value):
        """Heads are an axis of z."""
        if site != "z":
            return edit(value)
        return edit(value.unflatten(-1, (self.n_heads, -1))).flatten(-2)

    @torch.no_grad()
    def value(self, tokens, site, layer):
        kept = []
        with self.hook(site, layer, lambda value: kept.append(value.clone()) or value):
            self.theirs(tokens)
        return kept[0]

    @torch.no_grad()
    def run(self, tokens, site=None, layer=0, source=None, pos=None, head=None):
        if site is None:
            return self.theirs(tokens).logits

        def edit(value):
            value = value.clone()
            where = (slice(None), slice(None) if pos is None else pos)
            where += () if head is None else (head,)
            value[where] = source[where]
            return value

        with self.hook(site, layer, edit):
            return self.theirs(tokens).logits

    def sweep(self, tokens, source_of, site, axes, measure, layers=None, positions=None, heads=None):
        """[example, *axes], one run per cell."""
        layers = range(len(self.blocks)) if layers is None else layers
        places = {
            "layer": layers,
            "pos": range(N_POS) if positions is None else positions,
            "head": range(self.n_heads) if heads is None else heads,
        }
        cells = []
        for index in np.ndindex(*(len(places[axis]) for axis in axes)):
            at = {axis: places[axis][place] for axis, place in zip(axes, index, strict=True)}
            layer = at["layer"]
            logits = self.run(tokens, site, layer, source_of(layer), at.get("pos", positions), at.get("head", heads))
            cells.append(measure(logits))
        return torch.stack(cells, dim=1).unflatten(1, [len(places[axis]) for axis in axes])


@pytest.fixture(scope="module", params=["gpt2: untied, narrow", "llama: one kv head, tied, wide heads, biases"])
def pair(request):
    theirs = tiny(ALL[request.param])
    return wb.from_huggingface(theirs), Naive(theirs)


def same(ours, theirs, scale):
    return bool((ours - theirs).abs().max() <= 1e-4 * scale)


GRIDS = [
    (site, over)
    for site in ("resid_pre", "attn_out", "mlp_out", "z")
    for over in (
        None,
        ("layer",),
        *([("layer", "pos"), ("layer", "pos", "head")] if site == "z" else [["layer", "pos"]]),
    )
]


@pytest.mark.parametrize("direction", ["denoise", "noise"])
@pytest.mark.parametrize(("site", "over"), GRIDS)
def test_patching_is_a_run_per_cell(pair, site, over, direction):
    model, naive = pair
    result = wb.activation_patching(model, CLEAN, CORRUPTED, METRIC, site, over, direction, progress=False)
    axes = tuple(over) if over else ("layer", "head") if site == "z" else ("layer", "pos")
    base, other = (CORRUPTED, CLEAN) if direction == "denoise" else (CLEAN, CORRUPTED)
    sources = [naive.value(other, site, layer) for layer in range(len(naive.blocks))]
    values = naive.sweep(base, lambda layer: sources[layer], site, axes, by_hand)
    clean, corrupted = by_hand(naive.run(CLEAN)), by_hand(naive.run(CORRUPTED))
    scale = max(clean.abs().max(), corrupted.abs().max())
    assert result.axes == axes
    assert result.values.shape == values.shape
    assert same(result.values, values, scale)
    assert same(result.clean, clean, scale)
    assert same(result.corrupted, corrupted, scale)
    at_base, at_other = (corrupted, clean) if direction == "denoise" else (clean, corrupted)
    assert (values - at_base.view(3, *[1] * len(axes))).abs().max() > 0.1 * scale  # there is something to find
    moved = (values.mean(0) - at_base.mean()) / (at_other.mean() - at_base.mean())
    assert torch.allclose(result.mean, values.mean(0), atol=1e-4 * float(scale))
    assert torch.allclose(result.effect, moved, rtol=1e-3, atol=1e-3)
    for example in range(3):
        each = (values[example] - at_base[example]) / (at_other[example] - at_base[example])
        assert torch.allclose(result.effect_each[example], each, rtol=1e-3, atol=1e-3)
    assert (result.site, result.direction) == (site, direction)
    if "pos" in axes and site == "resid_pre":
        assert result.unchanged[0].tolist() == [True] + [False] * 5  # the first token is shared


@pytest.mark.parametrize(("site", "over"), GRIDS)
def test_ablation_is_a_run_per_cell(pair, site, over):
    model, naive = pair
    result = wb.ablate(model, CLEAN, METRIC, site, over=over, progress=False)
    axes = tuple(over) if over else ("layer", "head") if site == "z" else ("layer", "pos")
    nothing = torch.zeros_like(naive.value(CLEAN, site, 0))
    values = naive.sweep(CLEAN, lambda layer: nothing, site, axes, by_hand)
    clean = by_hand(naive.run(CLEAN))
    scale = clean.abs().max()
    assert result.axes == axes
    assert same(result.values, values, scale)
    assert same(result.clean, clean, scale)
    assert torch.allclose(result.effect, values.mean(0) - clean.mean(), atol=2e-4 * float(scale))
    assert torch.allclose(result.effect_each, values - clean.view(3, *[1] * len(axes)), atol=2e-4 * float(scale))
    assert result.direction == "ablate"
    assert result.corrupted.numel() == 0
    assert not result.unchanged.any()


SUBSETS = [
    ("resid_pre", None, {"layers": [1], "positions": [4, 2]}),
    ("resid_pre", ("layer",), {"positions": [1, -1]}),
    ("mlp_out", ("layer",), {"layers": 1, "positions": 3}),
    ("z", None, {"heads": [2, 0], "layers": [0, 1]}),
    ("z", None, {"positions": [0, 3], "heads": -1}),
    ("z", ("layer", "pos", "head"), {"positions": [5, 1], "heads": [1, 2]}),
    ("z", ("layer",), {"positions": [3, 5], "heads": [0, 2]}),
    ("z", ("layer", "pos"), {"heads": [0, 1], "positions": range(2, 5)}),
]


@pytest.mark.parametrize(("site", "over", "chosen"), SUBSETS)
def test_parts_of_a_grid(pair, site, over, chosen):
    model, naive = pair
    result = wb.activation_patching(model, CLEAN, CORRUPTED, METRIC, site, over, progress=False, **chosen)
    axes = over or (("layer", "head") if site == "z" else ("layer", "pos"))
    sizes = {"layers": len(naive.blocks), "positions": N_POS, "heads": naive.n_heads}
    numbers = {
        name: [number % sizes[name] for number in ([choice] if isinstance(choice, int) else choice)]
        for name, choice in chosen.items()
    }
    sources = [naive.value(CLEAN, site, layer) for layer in range(len(naive.blocks))]

    def patched(logits):
        return by_hand(logits)

    # several positions and heads that are no axes are meant as all pairs of them
    if axes == ("layer",) and {"positions", "heads"} <= numbers.keys():
        positions, heads = torch.tensor(numbers.pop("positions"))[:, None], torch.tensor(numbers.pop("heads"))
        values = torch.stack(
            [
                patched(naive.run(CORRUPTED, site, layer, sources[layer], positions, heads))
                for layer in range(len(naive.blocks))
            ],
            dim=1,
        )
    elif axes == ("layer", "pos") and "heads" in numbers:
        values = naive.sweep(CORRUPTED, lambda layer: sources[layer], site, axes, patched, **numbers)
    elif axes == ("layer", "head") and "positions" in numbers:
        positions = numbers.pop("positions")
        heads = numbers.pop("heads")
        values = torch.stack(
            [
                torch.stack(
                    [patched(naive.run(CORRUPTED, site, layer, sources[layer], positions, head)) for head in heads], 1
                )
                for layer in range(len(naive.blocks))
            ],
            dim=1,
        )
    else:
        values = naive.sweep(CORRUPTED, lambda layer: sources[layer], site, axes, patched, **numbers)
    assert same(result.values, values, result.clean.abs().max())
    for axis, name in (("layer", "layers"), ("pos", "positions"), ("head", "heads")):
        if axis in axes and name in chosen:
            wanted = [number % sizes[name] for number in np.atleast_1d(list(np.atleast_1d(chosen[name])))]
            assert result.places[axis] == tuple(wanted)
            assert result.labels[axis] == tuple(map(str, wanted))
    assert set(result.labels) == set(result.places) == set(axes)


@pytest.mark.parametrize("site", ["resid_pre", "z"])
def test_a_plain_callable_sees_whole_logits_of_its_examples(pair, site):
    model, naive = pair
    seen = []

    def metric(logits):
        seen.append(logits.shape)
        return logits.log_softmax(-1)[:, 2:, 5].sum(1)

    result = wb.activation_patching(model, CLEAN, CORRUPTED, metric, site, progress=False)
    sources = [naive.value(CLEAN, site, layer) for layer in range(len(naive.blocks))]
    axes = ("layer", "pos") if site == "resid_pre" else ("layer", "head")
    values = naive.sweep(CORRUPTED, lambda layer: sources[layer], site, axes, lambda logits: metric(logits))
    assert same(result.values, values, values.abs().max())
    assert set(seen) == {(3, N_POS, VOCAB)}


def test_a_metric_may_read_any_position(pair):
    model, naive = pair
    metric = wb.logit(9, pos=[1, 3, -2])
    result = wb.activation_patching(model, CLEAN, CORRUPTED, metric, progress=False)
    sources = [naive.value(CLEAN, "resid_pre", layer) for layer in range(len(naive.blocks))]
    values = naive.sweep(
        CORRUPTED, lambda layer: sources[layer], "resid_pre", ("layer", "pos"), lambda ls: ls[[0, 1, 2], [1, 3, 4], 9]
    )
    assert same(result.values, values, values.abs().max())
    late = torch.tensor([place > read for read in (1, 3, 4) for place in range(N_POS)]).view(3, 1, N_POS)
    expected = result.corrupted.view(3, 1, 1).expand_as(result.values)
    assert torch.allclose(result.values.masked_select(late), expected.masked_select(late), atol=1e-5)


@pytest.mark.parametrize("site", ["resid_pre", "z"])
def test_small_batches_change_nothing(pair, site, monkeypatch):
    model, _ = pair
    whole = wb.activation_patching(model, CLEAN, CORRUPTED, METRIC, site, progress=False)
    for memory in (1, 10_000, 100_000):
        result = wb.activation_patching(model, CLEAN, CORRUPTED, METRIC, site, progress=False, memory=memory)
        assert same(result.values, whole.values, whole.clean.abs().max())


@pytest.mark.parametrize("view", [False, True])
def test_interrupted_work_keeps_what_is_done(pair, view, monkeypatch):
    model, _ = pair
    model = model.with_hooks([("embed", lambda value, at: None)]) if view else model
    whole = wb.activation_patching(model, CLEAN, CORRUPTED, METRIC, progress=False)
    done, calls = ("workbench.sweep.ways.measure" if view else "workbench.sweep.ways.recompute"), []
    work = import_module("workbench.sweep.ways").__dict__[done.rpartition(".")[2]]

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) > 5:
            raise KeyboardInterrupt
        return work(*arguments)

    monkeypatch.setattr(done, interrupted)
    with pytest.warns(UserWarning, match=r"interrupted: \d of 12 cells were not computed"):
        part = wb.activation_patching(model, CLEAN, CORRUPTED, METRIC, progress=False, memory=1)
    missing = part.values.isnan()
    assert 0 < missing.sum() < missing.numel()
    assert same(part.values[~missing], whole.values[~missing], whole.clean.abs().max())


def test_interrupted_work_knows_what_cannot_move_the_metric(pair, monkeypatch):
    """Cells behind the position that the metric reads are the base run, whether or not anything was computed."""
    model, _ = pair
    metric = wb.logit(3, pos=2)
    whole = wb.activation_patching(model, CLEAN, CORRUPTED, metric, progress=False)

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("workbench.sweep.ways.recompute", interrupted)
    with pytest.warns(UserWarning, match="interrupted: 4 of 12 cells"):
        part = wb.activation_patching(model, CLEAN, CORRUPTED, metric, progress=False)
    assert torch.equal(part.values[:, :, 3:], whole.values[:, :, 3:])
    assert part.values[:, :, 1:3].isnan().all()


def test_one_text_is_a_batch_of_one(pair):
    model, _ = pair
    several = wb.activation_patching(model, CLEAN, CORRUPTED, wb.logit(3), progress=False)
    for tokens in ((CLEAN[1], CORRUPTED[1]), (CLEAN[1:2], CORRUPTED[1:2])):
        alone = wb.activation_patching(model, *tokens, wb.logit(3), progress=False)
        assert same(alone.values[0], several.values[1], several.clean.abs().max())
        assert torch.allclose(alone.effect, alone.effect_each[0], equal_nan=True)
        scalar = wb.activation_patching(model, *tokens, lambda logits: logits[0, -1, 3], progress=False)
        assert same(scalar.values, alone.values, alone.clean.abs().max())


# Laws


@pytest.mark.parametrize("site", ["resid_pre", "attn_out", "mlp_out", "z"])
def test_clean_into_clean_is_flagged_and_nothing_runs(pair, site, monkeypatch):
    model, _ = pair
    monkeypatch.setattr("workbench.sweep.ways.recompute", lambda *_, **__: pytest.fail("a cell ran"))
    with pytest.warns(UserWarning, match=r"pairs \[0, 1, 2\].*NaN") as caught:
        result = wb.activation_patching(model, CLEAN, CLEAN, METRIC, site, progress=False)
    assert caught[0].filename == __file__
    assert result.unchanged.all()
    assert torch.equal(result.values, result.clean.view(3, 1, 1).expand_as(result.values))
    assert result.effect.isnan().all()
    assert result.effect_each.isnan().all()


def test_a_pair_that_measures_the_same_is_named(pair):
    model, _ = pair
    corrupted = CORRUPTED.clone()
    corrupted[1] = CLEAN[1]
    with pytest.warns(UserWarning, match=r"pairs \[1\]"):
        result = wb.activation_patching(model, CLEAN, corrupted, METRIC, progress=False)
    assert result.effect_each[1].isnan().all()
    assert result.effect_each[[0, 2]].isfinite().all()
    assert result.effect.isfinite().all()
    assert result.unchanged[:, 0].all()  # nothing before the first difference
    assert not result.unchanged[:, 1:].any()


def test_every_position_of_one_stream_is_the_other_run(pair):
    model, _ = pair
    for direction, reached in (("denoise", "clean"), ("noise", "corrupted")):
        result = wb.activation_patching(
            model, CLEAN, CORRUPTED, METRIC, over=("layer",), direction=direction, progress=False
        )
        wanted = getattr(result, reached)
        assert same(result.values, wanted[:, None].expand_as(result.values), wanted.abs().max())
        assert torch.allclose(result.effect, torch.ones(()), atol=1e-4)


def test_a_sweep_is_its_interventions_one_by_one(pair):
    model, _ = pair
    _, cache = model.run_with_cache(CLEAN)
    result = wb.activation_patching(model, CLEAN, CORRUPTED, METRIC, "z", ("layer", "pos", "head"), progress=False)
    for layer, pos, head in ((0, 1, 2), (1, 5, 0), (1, 3, 1)):
        logits, _ = model(CORRUPTED, hooks=[wb.patch(cache, "z", layer, pos, head)])
        assert same(result.values[:, layer, pos, head], METRIC(logits), result.clean.abs().max())


def test_nothing_is_left_on_the_model_and_no_graph_kept(pair):
    model, _ = pair
    before, attributes = model(CLEAN)[0], set(vars(model))
    model.requires_grad_(True)
    try:
        result = wb.activation_patching(model, CLEAN, CORRUPTED, METRIC, progress=False)
    finally:
        model.requires_grad_(False)
    assert not result.values.requires_grad
    assert torch.equal(model(CLEAN)[0], before)
    assert set(vars(model)) == attributes


VIEWS = {
    "doubled stream": lambda model: [("resid_pre", lambda value, at: value * 1.5)],
    "a function that counts rows": lambda model: [
        (("mlp_out", 0), lambda value, at: value * torch.arange(1.0, len(value) + 1).view(-1, 1, 1))
    ],
    "the site itself": lambda model: [(("z", 1), lambda value, at: value.flip(2))],
    "embedding": lambda model: [("embed", lambda value, at: -value)],
    "a patch of the batch": lambda model: [wb.patch(model.run_with_cache(CORRUPTED.flip(0))[1], "attn_out", 1)],
    "zero": lambda model: [wb.zero("z", layers=0, heads=[0, 2])],
}


@pytest.mark.parametrize("hooks", VIEWS.values(), ids=VIEWS.keys())
@pytest.mark.parametrize("site", ["resid_pre", "z"])
def test_a_view_with_hooks_is_swept_as_it_is(pair, site, hooks):
    """The hooks of the view act once in each cell, before the patch."""
    model, _ = pair
    view = model.with_hooks(hooks(model))
    where = "positions" if site == "resid_pre" else "heads"
    result = wb.activation_patching(view, CLEAN, CORRUPTED, METRIC, site, progress=False, **{where: [1, 3]})
    _, cache = view.run_with_cache(CLEAN, site)
    for layer, (column, place) in product(range(2), enumerate([1, 3])):
        logits, _ = view(CORRUPTED, hooks=[wb.patch(cache, site, layer, **{where: place})])
        assert same(result.values[:, layer, column], METRIC(logits), result.clean.abs().max())
    ablated = wb.ablate(view, CLEAN, METRIC, site, layers=1, progress=False, **{where: 2})
    logits, _ = view(CLEAN, hooks=[wb.zero(site, 1, **{where: 2})])
    assert same(ablated.values[:, 0, 0], METRIC(logits), result.clean.abs().max())


# Tables, labels, text


@pytest.fixture(scope="module")
def spoken():
    model = powered(plain_spec())
    model.tokenizer = word_tokenizer()
    return model


def test_a_table_says_where_each_value_was(spoken):
    result = wb.activation_patching(
        spoken, "a b c d e", "a f c g e", wb.logit_diff("h", " i"), positions=[3, -1, 1], layers=[2, 1], progress=False
    )
    assert result.labels == {"layer": ("2", "1"), "pos": ("d", "e", "b")}
    assert result.places == {"layer": (2, 1), "pos": (3, 4, 1)}
    table = result.to_dataframe()
    assert table.columns.tolist() == ["example", "layer", "pos", "token", "value", "effect"]
    assert table["layer"].tolist() == [2, 2, 2, 1, 1, 1]
    assert table["pos"].tolist() == [3, 4, 1] * 2
    assert table["token"].tolist() == ["d", "e", "b"] * 2
    for row in table.itertuples():
        place = (2, 1).index(row.layer), (3, 4, 1).index(row.pos)
        assert row.value == float(result.values[row.example, *place])
        assert row.effect == float(result.effect_each[row.example, *place])


def test_a_table_of_several_pairs_has_no_tokens(spoken):
    result = wb.activation_patching(spoken, ["a b", "c d"], ["a c", "c e"], wb.logit("h"), "z", progress=False)
    table = result.to_dataframe()
    assert table.columns.tolist() == ["example", "layer", "head", "value", "effect"]
    assert table["example"].tolist() == [0] * 12 + [1] * 12
    assert table["head"].tolist() == [*range(4)] * 6
    assert np.allclose(table["value"], result.values.flatten())
    by_pos = wb.activation_patching(spoken, ["a b", "c d"], ["a c", "c e"], wb.logit("h"), progress=False)
    assert by_pos.labels["pos"] == ("0", "1")
    assert "token" not in by_pos.to_dataframe()


def test_an_ablations_table(spoken):
    result = wb.ablate(spoken, "a b c", wb.logit("h"), "attn_out", progress=False)
    table = result.to_dataframe()
    assert np.allclose(table["effect"], table["value"] - float(result.clean))
    assert table["token"].tolist() == [*"abc"] * 3


def test_results_can_be_drawn(spoken):
    for over in (None, ("layer",), ("layer", "pos", "head")):
        assert wb.activation_patching(spoken, "a b", "a c", wb.logit("h"), "z", over, progress=False).figure().data


def test_texts_of_unequal_length_are_each_its_own_sweep(spoken):
    """A short text is padded left: its columns are those at the end, and where it has no token its value is NaN."""
    clean, corrupted = ["a b c d", "e f"], ["a c c d", "e g"]
    metric = wb.logit_diff("h", "i")
    for view in (spoken, spoken.with_hooks([("embed", lambda value, at: None)])):
        both = wb.activation_patching(view, clean, corrupted, metric, progress=False)
        for example, shift in ((0, 0), (1, 2)):
            alone = wb.activation_patching(spoken, clean[example], corrupted[example], metric, progress=False)
            assert same(both.values[example, :, shift:], alone.values[0], alone.clean.abs().max())
            assert same(both.clean[example], alone.clean[0], alone.clean.abs().max())
            assert both.values[example, :, :shift].isnan().all()
        assert torch.equal(both.mean[:, :2], both.values[0, :, :2])
        assert torch.allclose(both.effect[:, :2], both.effect_each[0, :, :2], atol=1e-5)
        assert both.effect.isfinite().all()
    heads = wb.ablate(spoken, clean, metric, progress=False)
    assert same(heads.values[1], wb.ablate(spoken, clean[1], metric, progress=False).values[0], heads.clean.abs().max())


def test_pairs_of_unequal_length_are_named(spoken):
    with pytest.raises(errors.InputError, match="pair 1 has 3 tokens in clean and 2 in corrupted"):
        wb.activation_patching(spoken, ["a b c", "d e f"], ["a b c", "a b"], wb.logit("h"), progress=False)
    with pytest.raises(errors.MetricError, match="reads position 2; the texts have 3, 2 tokens"):
        wb.ablate(spoken, ["a b c", "a b"], wb.logit("h", pos=2), progress=False)


# What is refused


WRONG = {
    "site": (errors.SiteError, "no site matches 'resid'", {"site": "resid"}),
    "sites of two kinds": (errors.InterventionError, "fits attn_out and mlp_out", {"site": "blocks.*.hook_*_out"}),
    "layers of no layer": (errors.InterventionError, "embed is in no layer", {"site": "embed", "layers": 0}),
    "site with a layer": (errors.InterventionError, r"\('z', 0\) came", {"site": ("z", 0)}),
    "site of a kind": (errors.InterventionError, r"\['z'\] came", {"site": ["z"]}),
    "no site": (errors.InterventionError, "None came", {"site": None}),
    "over": (errors.InterventionError, "'resid_pre' is swept over", {"over": ("layer", "head")}),
    "over twice the same": (errors.InterventionError, "is swept over", {"over": ("layer", "layer")}),
    "over, a word": (errors.InterventionError, "'layer' came", {"over": "layer"}),
    "over of a kind": (errors.InterventionError, "5 came", {"over": 5}),
    "direction": (errors.InputError, "'denoise' or 'noise'", {"direction": "denoising"}),
    "direction of a kind": (errors.InputError, "'denoise' or 'noise'", {"direction": None}),
    "heads of a stream": (errors.InterventionError, "has no heads", {"heads": [0]}),
    "layer": (errors.InterventionError, "layer 3 .* 0 to 2", {"layers": [0, 3]}),
    "no layer": (errors.InterventionError, "selects nothing", {"layers": []}),
    "layer of a kind": (errors.KindError, "'all'", {"layers": "all"}),
    "position": (errors.InterventionError, "position 7 .* 0 to 6", {"positions": 7}),
    "no position": (errors.InterventionError, "selects nothing", {"positions": []}),
    "position of a kind": (errors.KindError, "1.5", {"positions": [1.5]}),
    "head": (errors.InterventionError, "head -5 .* 0 to 3", {"site": "z", "heads": -5}),
    "no head": (errors.InterventionError, "selects nothing", {"site": "z", "heads": ()}),
    "a head that is true": (errors.KindError, "True", {"site": "z", "heads": True}),
    "keyword": (TypeError, "layer", {"layer": 1}),
}


@pytest.mark.parametrize(("kind", "says", "keywords"), WRONG.values(), ids=WRONG.keys())
def test_wrong_arguments_are_said_before_anything_runs(kind, says, keywords, monkeypatch):
    model = powered(plain_spec())
    monkeypatch.setattr("workbench.sweep.ways.record", lambda *_, **__: pytest.fail("the model ran"))
    with pytest.raises(kind, match=says) as caught:
        wb.activation_patching(model, some_tokens(1), some_tokens(1, seed=9), wb.logit(1), progress=False, **keywords)
    assert "\n" not in str(caught.value)
    keywords = {word: value for word, value in keywords.items() if word != "direction"}
    if keywords:
        with pytest.raises(kind, match=says):
            wb.ablate(model, some_tokens(1), wb.logit(1), progress=False, **{"site": "resid_pre"} | keywords)


def test_pairs_that_do_not_fit():
    model = powered(plain_spec())
    for theirs, said in (
        (some_tokens(2, 6), "pair 0 has 7 tokens in clean and 6 in corrupted"),
        (some_tokens(1, 7), "clean has 2 texts and corrupted 1"),
        (some_tokens(2, 7)[0], "clean has 2 texts and corrupted 1"),
    ):
        with pytest.raises(errors.InputError, match=said):
            wb.activation_patching(model, some_tokens(2, 7), theirs, wb.logit(1), progress=False)


def test_kinds_of_ablation():
    model, tokens = powered(plain_spec()), some_tokens()
    for kind in ("average", None, "Zero"):
        with pytest.raises(errors.InputError, match="one of 'zero', 'mean', 'resample', 'project' is wanted"):
            wb.ablate(model, tokens, wb.logit(1), kind=kind, progress=False)
    for options, said in (
        ({"kind": "mean"}, "'mean' needs reference="),
        ({"kind": "resample"}, "'resample' needs reference="),
        ({"reference": tokens}, "zeros need none"),
        ({"kind": "project"}, "'project' needs reference=, directions"),
        ({"kind": "mean", "reference": tokens[:, 1:]}, "position 6 of example 0 .* the reference has values of 6"),
        ({"kind": "resample", "reference": tokens[:, 1:]}, "position 6 of example 0 .* the reference has values of 6"),
        ({"kind": "mean", "reference": tokens[:0]}, "empty"),
    ):
        with pytest.raises((errors.InputError, errors.InterventionError), match=said):
            wb.ablate(model, tokens, wb.logit(1), progress=False, **options)


@pytest.mark.parametrize("view", [False, True])
@pytest.mark.parametrize("site", ["z", "resid_pre", "mlp_out"])
def test_mean_and_resample_ablation_are_a_run_per_cell(pair, site, view):
    model, naive = pair
    swept = model.with_hooks([("embed", lambda value, at: None)]) if view else model
    reference = some_tokens(5, N_POS, VOCAB, seed=9)
    sources = [naive.value(reference, site, layer) for layer in range(len(naive.blocks))]
    axes = ("layer", "head") if site == "z" else ("layer", "pos")
    result = wb.ablate(swept, CLEAN, METRIC, site, "mean", reference, progress=False)
    means = [source.mean(0, keepdim=True).expand(3, *source.shape[1:]) for source in sources]
    values = naive.sweep(CLEAN, lambda layer: means[layer], site, axes, by_hand)
    assert same(result.values, values, result.clean.abs().max())
    assert result.corrupted.numel() == 0
    result = wb.ablate(swept, CLEAN, METRIC, site, "resample", reference, progress=False, seed=3)
    drawn = torch.randint(5, (3,), generator=torch.Generator().manual_seed(3))
    values = naive.sweep(CLEAN, lambda layer: sources[layer][drawn], site, axes, by_hand)
    assert same(result.values, values, result.clean.abs().max())
    assert (values - result.clean.view(3, 1, 1)).abs().max() > 0.1


def test_metrics_that_do_not_fit():
    model = powered(plain_spec())
    for metric, kind in (
        (wb.logit(99), errors.MetricError),
        (wb.logit([1, 2, 3]), errors.MetricError),
        (wb.logit("a"), errors.MetricError),
        (lambda logits: logits[:, -1], errors.MetricError),
        (wb.logit, (errors.MetricError, TypeError)),
        (3, TypeError),
    ):
        with pytest.raises(kind):
            wb.activation_patching(model, some_tokens(), some_tokens(seed=3), metric, progress=False)


def test_progress_is_shown_and_can_be_left_out(capfd):
    model = powered(plain_spec())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wb.ablate(model, some_tokens(), wb.logit(1))
    assert "/12" in capfd.readouterr().err
    wb.ablate(model, some_tokens(), wb.logit(1), progress=False)
    assert capfd.readouterr().err == ""


def test_the_mean_over_positions_may_leave_the_first_token_out():
    model, tokens = powered(plain_spec()), some_tokens(2, 7)
    reference = some_tokens(3, 4, seed=5)  # shorter, which only a mean over positions can be
    _, usual = model.run_with_cache(reference, "z")
    for options in ({"per_position": False}, {"per_position": False, "skip_first": True}):
        r = wb.ablate(model, tokens, wb.logit(1), kind="mean", reference=reference, progress=False, **options)
        logits, _ = model(tokens, hooks=[wb.mean(usual, "z", layers=1, heads=2, **options)])
        assert same(r.values[:, 1, 2], logits[:, -1, 1], r.clean.abs().max())
        every = [(layer, head) for layer in range(3) for head in range(4)]
        kept = np.array(every[:5])
        f = wb.faithfulness(model, tokens, wb.logit(1), kept, kind="mean", reference=reference, seed=0, **options)
        assert "Faithfulness" in repr(f)
        others = wb.ablate(
            model, tokens, wb.logit(1), kind="mean", reference=reference, selection=every[5:], progress=False, **options
        )
        assert same(f.kept, others.values, r.clean.abs().max())
    with pytest.raises(errors.InterventionError, match="per_position=False with it"):
        wb.ablate(model, tokens, wb.logit(1), kind="mean", reference=tokens, skip_first=True, progress=False)
    with pytest.raises(errors.InputError, match="are for kind 'mean', and the kind is 'zero'"):
        wb.ablate(model, tokens, wb.logit(1), per_position=False, progress=False)
