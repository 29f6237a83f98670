"""PatchingDashboard without a browser: what is sent, what can be chosen, and what it becomes."""

import json
import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from bridge import Line, everything
from random_models import powered, some_tokens
from sweeps_by_hand import mixed_sweep, of_page, sweep
from test_cache import plain_spec
from words import word_tokenizer

import workbench as wb
from workbench.errors import InputError, KindError, TooLargeError
from workbench.widgets import PatchingDashboard, sweep_bytes

METRIC = wb.logit_diff(3, 4)
MASK = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])
CLEAN, CORRUPTED = some_tokens(2, 5, seed=1), some_tokens(2, 5, seed=2)


@pytest.fixture(scope="module")
def model():
    made = powered(plain_spec())
    made.tokenizer = word_tokenizer()
    return made


def patched(model, site="resid_pre", **more):
    return wb.activation_patching(model, CLEAN, CORRUPTED, METRIC, site, attention_mask=MASK, progress=False, **more)


# ---- what is sent --------------------------------------------------------------------------------------


def by_hand(r, index, pairs):
    """Value, base, other and effect of a cell over some pairs, with plain loops in float64; None where it has none."""
    rows = []
    for pair in pairs:
        value = float(r.values[(pair, *index)])
        if math.isnan(value):
            continue
        clean = float(r.clean[pair])
        corrupted = float(r.corrupted[pair]) if r.corrupted.numel() else math.nan
        base, other = (corrupted, clean) if r.direction == "denoise" else (clean, corrupted)
        rows.append((value, base, other))
    if not rows:
        return None
    value, base, other = (sum(column) / len(rows) for column in zip(*rows, strict=True))
    return value, base, other, value - base if r.direction == "ablate" else (value - base) / (other - base)


@pytest.mark.parametrize("direction", ["denoise", "noise", "ablate"])
@pytest.mark.parametrize(
    ("axes", "order"),
    [
        (("layer", "pos"), ("layer", "pos")),
        (("layer", "pos", "head"), ("head", "layer", "pos")),
        (("layer", "head", "query"), ("query", "layer", "head")),
        (("pos", "head"), ("pos", "head")),
        (("head", "layer"), ("layer", "head")),
        (("layer",), ("layer",)),
        (("label",), ("label",)),
        ((), ()),
    ],
)
def test_the_numbers_of_every_cell(axes, order, direction):
    r = sweep(axes, direction=direction, holes=True)
    page = of_page(everything(PatchingDashboard(r)), order)
    for index in product(*map(range, r.values.shape[1:])):
        place = dict(zip(axes, index, strict=True))
        wanted = by_hand(r, index, range(len(r.values)))
        found = page.mean(place)
        if wanted is None:
            assert math.isnan(found["value"])
        else:
            assert [found[name] for name in ("value", "base", "effect")] == pytest.approx(
                [wanted[0], wanted[1], wanted[3]], rel=1e-4, abs=1e-5
            )
            assert direction == "ablate" or found["other"] == pytest.approx(wanted[2], rel=1e-5)
        assert found["unchanged"] == float(r.unchanged[index])
        low, high = r.interval()[(slice(None), *index)].tolist()
        assert np.array_equal([found["low"], found["high"]], [low, high], equal_nan=True)
        assert np.array_equal(found["p"], float(r.p_values()[index]), equal_nan=True)
        for pair in range(len(r.values)):
            assert np.array_equal(page.value(place, pair), float(r.values[(pair, *index)]), equal_nan=True)
    base, other = (r.clean, r.corrupted) if direction != "denoise" else (r.corrupted, r.clean)
    assert page.runs[0].tolist() == base.tolist()
    if direction != "ablate":
        assert page.runs[1].tolist() == other.tolist()
        assert page.runs[2].tolist() == (other - base).tolist()


def test_pairs_that_measure_alike_have_nothing_to_divide_by():
    r = sweep(("layer", "head"))
    r = replace(r, clean=torch.tensor([1.0, *r.clean[1:]]), corrupted=torch.tensor([1.0, *r.corrupted[1:]]))
    page = of_page(everything(PatchingDashboard(r)), r.axes)
    assert math.isnan(page.runs[2][0])
    assert np.isfinite(page.runs[2][1:]).all()


def test_what_it_says_of_the_axes():
    r = sweep(("layer", "label"))
    about = PatchingDashboard(r)._sweep
    assert about["title"] == "z (head output), clean into corrupted"
    assert (about["down"]["name"], about["across"]["name"], about["sheets"]["name"]) == ("layer", "label", "")
    assert about["across"]["names"] == ["s1", "s2", "end"]
    assert about["across"]["places"] == [0, 1, 2]
    assert about["unit"] == ""
    assert PatchingDashboard(sweep(("layer", "head")))._sweep["unit"] == "head"
    json.dumps(about, allow_nan=False)


def test_thirty_two_pairs_are_small_and_go_at_once():
    r = sweep(("layer", "pos"), sizes=(30, 14), n=32)
    sent = everything(PatchingDashboard(r))
    assert sent["_sent"] == list(range(32))
    assert len(sent["_values"]) == 32 * 420 * 4
    assert sum(len(value) for value in sent.values() if isinstance(value, bytes)) < 80_000


def test_many_pairs_are_sent_one_by_one():
    r = sweep(("layer", "pos"), sizes=(30, 100), n=200)
    widget = PatchingDashboard(r)
    assert everything(widget)["_sent"] == []
    line = Line(widget)
    widget.pair = 17
    assert line.bytes < 20_000
    said = line.traits()
    assert said["_sent"] == [17]
    assert np.array_equal(np.frombuffer(said["_values"], "<f4"), r.values[17].flatten())
    widget.cell = [2, 3]  # of the same pair: nothing again but its interval
    assert "_values" not in line.traits()
    widget.pair = -1
    assert "_values" not in line.traits()


def test_no_page_is_sent_more_than_five_megabytes():
    r = sweep(("layer", "d_mlp"), sizes=(30, 5000), n=3)
    sent = everything(PatchingDashboard(r))
    assert sum(len(value) if isinstance(value, bytes) else len(str(value)) for value in sent.values()) < 5_000_000
    with pytest.raises(TooLargeError, match=r"a sweep of 150,030 cells is more than .* neurons="):
        PatchingDashboard(sweep(("layer", "d_mlp"), sizes=(30, 5001), n=1))


def test_intervals_of_a_large_sweep_are_made_when_a_cell_is_locked():
    r = sweep(("layer", "d_mlp"), sizes=(3, 700), n=6)
    widget = PatchingDashboard(r)
    assert "low" not in widget._sweep["means"]
    assert widget._interval == {}
    line = Line(widget)
    widget.cell = [2, 699]
    said = line.traits()["_interval"]
    assert said["cell"] == [2, 699]
    assert said["between"] == pytest.approx(r.interval()[:, 2, 699].tolist(), rel=1e-5)
    assert PatchingDashboard(r, cell=[1, 7])._interval["between"] == pytest.approx(r.interval()[:, 1, 7].tolist())
    widget.cell = []
    assert widget._interval == {}


def test_a_single_pair_has_no_intervals():
    about = PatchingDashboard(sweep(("layer", "pos"), n=1))._sweep
    assert about["means"] == list(sweep_bytes.MEANS)


# ---- choices -------------------------------------------------------------------------------------------


def test_choices_go_in_and_out():
    r = sweep(("layer", "pos", "head"), places={"layer": (4, 9)})
    widget = PatchingDashboard(
        r, cell=(9, 2, 1), pair=2, show="value", slice=1, selection=r.top(2)[["layer", "head"]].values
    )
    assert widget.cell == [9, 2, 1]
    assert widget.state == {
        "of": {"site": "z", "direction": "denoise", "shape": {"layer": 2, "pos": 3, "head": 3}, "pairs": 4},
        "cell": [9, 2, 1],
        "pair": 2,
        "show": "value",
        "slice": 1,
        "selection": [list(pair) for pair in widget.selection],
    }
    widget.selection = [[4, 0], (4, 0), (9, 2)]
    assert widget.selection == [(4, 0), (9, 2)]
    widget.selection = list(r.top(3)[["layer", "head"]].itertuples(index=False))
    assert all(type(number) is int for pair in widget.selection for number in pair)
    seen = []
    widget.observe(lambda change: seen.append(change.new), "cell")
    widget.set_state({"cell": [4, 0, 0]})  # as the page does
    assert seen == [[4, 0, 0]]
    assert widget.state["cell"] == [4, 0, 0]


def test_a_label_goes_by_its_name():
    widget = PatchingDashboard(sweep(("layer", "label")), cell=[1, "end"])
    assert widget.cell == [1, 2]
    widget.cell = [0, 1]
    assert widget.cell == [0, 1]


REFUSED = {
    "short": ("cell", [1], InputError, r"\[1\] names no cell: \[layer, head\] is wanted"),
    "beyond": ("cell", [0, 9], InputError, r"there is no head 9 in this sweep; .*0, 1, 2"),
    "minus": ("cell", [-1, 0], InputError, r"there is no layer -1"),
    "name": ("cell", [0, "end"], InputError, r"there is no head 'end'"),
    "half": ("cell", [0.5, 0], KindError, r"a cell's layer is a whole number; 0.5 came"),
    "true": ("cell", [True, 0], KindError, r"True came"),
    "pair": ("pair", 4, InputError, r"there is no pair 4: pairs go from 0 to 3, and -1 is all of them"),
    "pair below": ("pair", -2, InputError, r"there is no pair -2"),
    "show": ("show", "efect", InputError, r"show is 'efect'; the nearest are: effect"),
    "slice": ("slice", 0, InputError, r"no third axis, and its slice is -1; 0 came"),
    "selection": ("selection", [(0, 3)], InputError, r"there is no head 3"),
    "selected": ("selection", [3], KindError, r"a selection is a list of pairs \(layer, head\)"),
}


@pytest.mark.parametrize(("name", "given", "kind", "says"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_chosen_is_said(name, given, kind, says):
    r = sweep(("layer", "head"))
    with pytest.raises(kind, match=says):
        PatchingDashboard(r, **{name: given})
    widget = PatchingDashboard(r, cell=[1, 1])
    with pytest.raises(kind, match=says):
        setattr(widget, name, given)
    assert (widget.cell, widget.pair, widget.show, widget.slice, widget.selection) == ([1, 1], -1, "effect", -1, [])


def test_what_a_sweep_has_not_got():
    with pytest.raises(InputError, match=r"no \(layer, head\) to select: its axes are layer, pos"):
        PatchingDashboard(sweep(("layer", "pos")), selection=[(0, 0)])
    with pytest.raises(InputError, match="there is no head 5"):
        PatchingDashboard(sweep(("layer", "pos", "head")), slice=5)
    with pytest.raises(InputError, match="this sweep is one cell, which is not chosen"):
        PatchingDashboard(sweep(()), cell=[0])
    with pytest.raises(InputError, match="at most 3 axes, and this one has layer, head, query, key"):
        PatchingDashboard(sweep(("layer", "head", "query", "key")))
    with pytest.raises(KindError, match=r"a PatchingDashboard shows a sweep, .* not Tensor"):
        PatchingDashboard(torch.zeros(2, 2))  # type: ignore[arg-type]
    with pytest.raises(KindError, match=r"model is what wb.load .* not str"):
        PatchingDashboard(sweep(("layer", "pos")), "smollm2-135m")  # type: ignore[arg-type]
    for wrong in (3, "ab", {0: 1}):
        with pytest.raises(KindError, match=r"a cell is a list \[layer, pos\]"):
            PatchingDashboard(sweep(("layer", "pos")), cell=wrong)  # type: ignore[arg-type]
    with pytest.raises(KindError, match=r"no argument 'cel'; the nearest are: cell"):
        PatchingDashboard(sweep(("layer", "pos")), cel=[0, 0])  # type: ignore[call-arg]


def test_a_state_is_taken_back_by_the_same_sweep_only():
    r = sweep(("layer", "head"))
    first = PatchingDashboard(r, cell=[1, 2], pair=3, show="value", selection=[(0, 1)])
    state = json.loads(json.dumps(first.state))
    again = PatchingDashboard(r, state=state)
    assert again.state == first.state
    assert (again.cell, again.pair, again.show, again.selection) == ([1, 2], 3, "value", [(0, 1)])
    third = PatchingDashboard(r)
    third.state = state
    assert (third.cell, third.selection, third.state) == ([1, 2], [(0, 1)], first.state)
    for other in (sweep(("layer", "head"), n=5), sweep(("layer", "head"), direction="noise"), sweep(("layer", "pos"))):
        with pytest.raises(InputError, match="state is of another sweep"):
            PatchingDashboard(other, state=state)
    with pytest.raises(KindError, match="state is list; that of a PatchingDashboard is wanted"):
        PatchingDashboard(r, state=[1])  # type: ignore[arg-type]
    with pytest.raises(KindError, match=r"state is \['cell'\]"):
        third.state = {"cell": []}
    with pytest.raises(InputError, match="there is no pair 77"):
        third.state = {**state, "pair": 77}
    assert third.state == first.state


def test_what_is_selected_can_be_ablated(model):
    r = wb.ablate(model, CLEAN, METRIC, progress=False)
    widget = PatchingDashboard(r, selection=list(r.top(3)[["layer", "head"]].itertuples(index=False)))
    together = wb.ablate(model, CLEAN, METRIC, selection=widget.selection, progress=False)
    assert together.values.shape == (2,)
    assert together.effect.isfinite()


# ---- the texts of a sweep, and their attention ---------------------------------------------------------


def test_tokens_of_each_pair_are_named(model):
    widget = PatchingDashboard(patched(model), model)
    word = lambda token: chr(ord("a") + token)  # noqa: E731
    for pair, texts in enumerate(widget._texts):
        for name, ids in (("clean", CLEAN), ("corrupted", CORRUPTED)):
            wanted = [word(int(t)) if real else "" for t, real in zip(ids[pair], MASK[pair], strict=True)]
            assert texts[name] == wanted
    assert PatchingDashboard(patched(model))._texts == [{}, {}]
    assert PatchingDashboard(patched(model, "z"), model)._texts == [{}, {}]  # heads are named by no token


def test_a_locked_cell_opens_where_it_stands(model):
    widget = PatchingDashboard(patched(model), model)
    assert widget.attention is None
    widget.cell = [2, 3]
    view = widget.attention
    assert (view.layer, view.query) == (2, 1)  # the second of three tokens after two of padding
    assert widget._opened == 0
    assert view._tokens == [chr(ord("a") + int(t)) for t in CLEAN[0, 2:]]
    assert view._against == [chr(ord("a") + int(t)) for t in CORRUPTED[0, 2:]]
    widget.cell = [1, 4]
    assert widget.attention is view
    assert (view.layer, view.query) == (1, 2)
    widget.cell = [0, 1]  # padding
    assert (view.layer, view.query) == (0, -1)
    widget.cell = []
    assert widget.attention is view
    widget.cell = [2, 3]
    widget.pair = 1
    assert widget.attention is not view
    assert (widget.attention.layer, widget.attention.query, widget._opened) == (2, 3, 1)
    assert len(widget.attention._tokens) == 5


def test_a_label_opens_where_it_stands_in_each_text(model, tmp_path):
    r = patched(model, positions={"first": [0, 1], "last": -1})
    r.save(tmp_path / "r.safetensors")
    for result in (r, wb.SweepResult.load(tmp_path / "r.safetensors")):
        assert result.label_positions.tolist() == [[0, 2], [1, 4]]
        widget = PatchingDashboard(result, model, cell=[2, "last"])
        assert (widget.attention.layer, widget.attention.query) == (2, 2)
        widget.pair = 1
        assert widget.attention.query == 4
        widget.cell = [1, "first"]
        assert (widget.attention.layer, widget.attention.query) == (1, 1)
    assert patched(model).label_positions is None


@pytest.mark.parametrize(
    ("site", "over", "cell", "wanted"),
    [
        ("z", None, [2, 3], (2, 3)),
        ("k", ("layer", "kv_head"), [1, 1], (1, 2)),  # four heads share two: the second's first
        ("z", ("layer", "pos", "head"), [1, 4, 2], (1, 2)),
        ("pattern", ("layer", "head", "query"), [2, 1, 4], (2, 1)),
    ],
)
def test_heads_open_themselves(model, site, over, cell, wanted):
    widget = PatchingDashboard(patched(model, site, over=over), model, cell=cell)
    assert (widget.attention.layer, widget.attention.head) == wanted
    assert widget.attention.query == (2 if len(cell) == 3 else -1)


def test_groups_may_differ_from_layer_to_layer():
    layer = plain_spec().layers[0]
    model = powered(plain_spec(layers=(layer, replace(layer, attn=replace(layer.attn, n_heads=8)))))
    widget = PatchingDashboard(patched(model, "k", over=("layer", "kv_head")), model, cell=[1, 1])
    assert (widget.attention.layer, widget.attention.head) == (1, 4)


def test_of_a_long_text_a_part_is_opened(model, monkeypatch):
    monkeypatch.setattr("workbench.widgets.sweep_texts.MAX_TOKENS", 3)
    widget = PatchingDashboard(patched(model), model, pair=1, cell=[1, 4])
    view = widget.attention
    assert (view.positions, view.query) == ([2, 3, 4], 4)
    widget.cell = [2, 3]
    assert widget.attention is view
    widget.cell = [2, 1]
    assert (widget.attention.positions, widget.attention.query) == ([0, 1, 2], 1)


def test_an_ablation_opens_its_only_text(model):
    widget = PatchingDashboard(wb.ablate(model, CLEAN, METRIC, progress=False), model, cell=[1, 2], pair=1)
    assert (widget.attention.layer, widget.attention.head) == (1, 2)
    assert widget.attention._against == []


def test_without_a_model_or_texts_nothing_opens(model):
    assert PatchingDashboard(patched(model), cell=[2, 3]).attention is None
    old = replace(patched(model), clean_tokens=None, corrupted_tokens=None)
    widget = PatchingDashboard(old, model, cell=[2, 3])
    assert widget.attention is None
    assert "does not hold its texts" in widget._failed
    assert PatchingDashboard(old, cell=[2, 3])._failed == ""
    assert widget._texts == [{}, {}]


def test_attention_that_cannot_be_had_is_told(model):
    r = patched(model)
    other = replace(r, places={**r.places, "layer": (7, 8, 9)}, labels={**r.labels, "layer": ("7", "8", "9")})
    widget = PatchingDashboard(other, model)
    with pytest.raises(InputError):
        widget.cell = [9, 3]
    assert widget._failed.startswith("InputError: ")
    assert widget.attention is None
    fine = PatchingDashboard(replace(r, places={**r.places, "layer": (0, 1, 9)}), model)
    with pytest.raises(InputError):
        fine.cell = [9, 3]
    assert fine.state["cell"] == fine.cell == [9, 3]  # it is chosen, though it cannot be opened
    fine.cell = []
    assert fine._failed == ""
    fine.cell = [1, 3]
    assert fine._failed == ""
    assert fine.attention.layer == 1


# ---- what it becomes -----------------------------------------------------------------------------------


def test_a_table_of_what_is_shown():
    r = sweep(("layer", "pos", "head"))
    table = PatchingDashboard(r).to_dataframe()
    assert table.columns.tolist() == ["layer", "pos", "head", "value", "effect", "low", "high"]
    assert np.array_equal(table["effect"], r.effect.flatten())
    assert np.array_equal(table["low"], r.interval()[0].flatten())
    one = PatchingDashboard(r, pair=2, slice=1).to_dataframe()
    assert one.columns.tolist() == ["layer", "pos", "value", "effect"]
    assert np.allclose(one["effect"], r.effect_each[2, :, :, 1].flatten())
    assert len(PatchingDashboard(sweep(())).to_dataframe()) == 1


def test_the_figure_is_of_what_is_shown(model):
    r = patched(model)
    means, one = PatchingDashboard(r).figure(), PatchingDashboard(r, model, pair=1).figure()
    cells = lambda figure: np.array(figure.data[0].z, dtype=np.float32)  # noqa: E731
    assert np.allclose(cells(means), r.effect, equal_nan=True)
    assert np.allclose(cells(one), r.effect_each[1], equal_nan=True, rtol=1e-4)
    assert list(one.layout.xaxis.ticktext) == [chr(ord("a") + int(t)) for t in CLEAN[1]]
    values = PatchingDashboard(r, show="value").figure()
    assert np.allclose(cells(values), r.mean, equal_nan=True)
    third = PatchingDashboard(sweep(("layer", "pos", "head")), slice=2).figure()
    assert np.allclose(cells(third), sweep(("layer", "pos", "head")).effect[:, :, 2])


def test_saved_as_files(tmp_path):
    widget = PatchingDashboard(sweep(("layer", "head")))
    assert widget.save(tmp_path / "w.csv").read_text().startswith("layer,head,value,effect,low,high\n0,0,")
    assert "<!doctype html>" in widget.save(tmp_path / "w.html").read_text()[:20]
    with pytest.raises(InputError):
        widget.save(tmp_path / "w.txt")


def test_a_page_takes_all_pairs_along_where_they_fit():
    widget = PatchingDashboard(sweep(("layer", "pos"), sizes=(30, 14), n=32), pair=5, cell=[3, 4])
    state = widget.view().state
    assert state["traits"]["_sent"] == state["traits"]["_sweep"]["offers"] == list(range(32))
    assert state["traits"]["_sweep"]["note"] == ""
    assert (state["traits"]["pair"], state["traits"]["cell"]) == (5, [3, 4])
    assert len(widget.to_html()) < 200_000
    json.dumps(state, allow_nan=False)


def test_a_page_says_which_pairs_it_left_out():
    r = sweep(("layer", "d_mlp"), sizes=(30, 1500), n=60)
    widget = PatchingDashboard(r)
    traits = widget.view().state["traits"]
    assert traits["_sent"] == []
    assert traits["_sweep"]["note"] == "This page holds the means, and 0 of 60 pairs."
    widget.pair = 7
    traits = widget.view().state["traits"]
    assert (traits["_sent"], traits["pair"]) == ([7], 7)
    traits = widget.view(pairs=[3, 1, 3]).state["traits"]
    assert (traits["_sent"], traits["pair"]) == ([1, 3], -1)
    assert len(widget.to_html(pairs=[1, 3])) < 9_000_000
    with pytest.raises(TooLargeError, match="pass fewer pairs="):
        widget.view(pairs=range(60))
    with pytest.raises(InputError, match="there is no pair 60"):
        widget.view(pairs=[60])
    with pytest.raises(KindError, match="a list of whole numbers"):
        widget.view(pairs=3)


def test_the_attention_goes_along(model):
    widget = PatchingDashboard(patched(model), model)
    assert widget.view().state["attention"] == ""
    widget.cell = [1, 3]
    frame = widget.view().state["attention"]
    assert frame.startswith("<iframe")
    assert widget.html_fragment().count("<iframe") >= 1


def test_nothing_of_a_token_is_markup(model):
    r = replace(mixed_sweep(), labels={"layer": ("0", "1"), "pos": ("</script><script>alert(1)</script>", "b", "c")})
    assert "<script>alert" not in PatchingDashboard(r).to_html()


def test_it_says_what_it_is_of(model):
    shown = repr(PatchingDashboard(patched(model)))
    assert shown.startswith("PatchingDashboard of SweepResult of resid_pre (denoise): ")
