"""LensDashboard without a browser: what it sends, what it takes and refuses, what it becomes."""

import base64
import json
from dataclasses import fields, replace
from io import StringIO
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from bridge import Line, everything
from lens_stand_in import large_lens, made_lens

import workbench as wb
from workbench.errors import InputError, KindError, TooLargeError
from workbench.figures.tokens import visible
from workbench.widgets import LensDashboard, lens_packing

WORDS = [f" w{i}" for i in range(17)]


@pytest.fixture
def lens():
    return made_lens(WORDS, batch=2, targets=(3, 11), padding=(0, 2))


def read(page, n_rows):
    """A page as its description has it: {name: [row, pos, ...]}, words as texts."""
    n_pos, k, targets = len(page["positions"]), page["k"], len(page["targets"])
    each = {"logprobs": k, "entropy": 1, "kl": 1, "next_logprobs": 1, "target_logprobs": targets}
    each |= {"next_ranks": 1, "target_ranks": targets, "top": k}
    kinds = {"next_ranks": "<i4", "target_ranks": "<i4", "top": {"uint16": "<u2", "uint32": "<u4"}[page["index"]]}
    start, found = 0, {}
    for name, width in each.items():
        dtype = np.dtype(kinds.get(name, "<f4"))
        count = n_rows * n_pos * width
        values = np.frombuffer(page["data"], dtype, count, start)
        found[name] = values.reshape(n_rows, n_pos, width)
        start += count * dtype.itemsize
    assert start == len(page["data"])
    found["top"] = [[[page["words"][i] for i in place] for place in row] for row in found["top"]]
    return found


def check_page(page, lens, example, positions):
    found = read(page, len(lens.labels))
    assert page["example"] == example
    assert page["positions"] == positions
    assert page["prompt"] == [visible(lens.str_tokens[example][p]) for p in positions]
    for name in ("logprobs", "entropy", "kl", "next_logprobs", "target_logprobs", "next_ranks", "target_ranks"):
        wanted = getattr(lens, name)[example][:, positions].numpy()
        np.testing.assert_array_equal(found[name].reshape(wanted.shape), wanted, err_msg=name)
    for row, places in enumerate(found["top"]):
        for column, pos in enumerate(positions):
            assert places[column] == [visible(text) for text in lens.texts[example][row][pos]]
    for column, pos in enumerate(positions):
        follows = lens.next_tokens[example, pos].item()
        assert (
            page["next"][column] == -1
            if follows < 0
            else page["words"][page["next"][column]] == visible(WORDS[follows])
        )
    assert [page["words"][i] for i in page["targets"]] == [visible(text) for text in lens.target_texts]


@pytest.mark.parametrize("example", [0, 1])
def test_a_page_holds_what_the_lens_knows_of_real_tokens(lens, example):
    widget = LensDashboard(lens, example=example)
    check_page(widget._page, lens, example, [[0, 1, 2, 3, 4], [2, 3, 4]][example])
    assert widget._labels == ["0_pre", "1_pre", "2_pre", "final"]
    assert widget._targets == ["␣w3", "␣w11"]
    assert [number for number, _ in widget._examples] == [0, 1]
    assert widget._examples[1][1] == "".join(lens.str_tokens[1][2:]).strip()


def test_only_the_positions_that_were_asked_for(lens):
    check_page(LensDashboard(lens, positions=range(1, 4))._page, lens, 0, [1, 2, 3])
    check_page(LensDashboard(lens, positions=(3, 1, 3), example=1)._page, lens, 1, [3])


def test_a_lens_of_a_model():
    from random_models import powered, some_tokens
    from test_cache import plain_spec

    lens = wb.logit_lens(powered(plain_spec()), some_tokens(2, 6), top_k=4)
    widget = wb.LensDashboard(lens)
    found = read(widget._page, len(lens.labels))
    np.testing.assert_array_equal(found["logprobs"], lens.logprobs[0].numpy())
    assert found["top"] == [[[visible(text) for text in place] for place in row] for row in lens.texts[0]]
    assert widget._targets == []


def test_many_words_take_wider_numbers():
    lens = large_lens(rows=4, pos=2500, k=12, vocab=200_000)
    page = LensDashboard(lens)._page
    assert page["index"] == "uint32"
    assert read(page, 4)["top"][3][2499] == [visible(text) for text in lens.texts[0][3][2499]]


# ---- what is sent


def test_a_long_text_opens_with_few_bytes():
    widget = LensDashboard(large_lens())
    page = dict(everything(widget)["_page"])
    numbers = page.pop("data")
    assert len(numbers) + len(json.dumps(page)) < 3_000_000


def test_an_example_is_one_page_in_one_message(lens):
    widget = LensDashboard(lens)
    line = Line(widget)
    widget.example = 1
    with_bytes = [(message, buffers) for message, buffers in line.messages if buffers]
    assert len(with_bytes) == 1
    assert with_bytes[0][0]["buffer_paths"] == [["_page", "data"]]
    check_page({**widget._page}, lens, 1, [2, 3, 4])


def test_choices_are_small(lens):
    widget = LensDashboard(lens)
    line = Line(widget)
    widget.show, widget.target, widget.layer, widget.pos = "kl", 1, 2, 3
    assert [message["state"] for message, _ in line.messages] == [
        {"show": "kl"},
        {"target": 1},
        {"layer": 2},
        {"pos": 3},
    ]
    assert line.bytes < 1000


def test_a_lock_stays_where_the_other_text_has_the_position(lens):
    widget = LensDashboard(lens, layer=1, pos=3)
    widget.example = 1
    assert (widget.layer, widget.pos) == (1, 3)
    widget = LensDashboard(lens, layer=1, pos=1)
    widget.example = 1
    assert (widget.layer, widget.pos) == (-1, -1)
    assert widget.state["pos"] == -1


def test_two_dashboards_share_nothing(lens):
    one, two = LensDashboard(lens), LensDashboard(lens)
    one.example, one.show, one.layer, one.pos = 1, "kl", 0, 4
    assert (two.example, two.show, two.layer, two.pos) == (0, "prob", -1, -1)
    assert two._page["example"] == 0


# ---- choices


REFUSED = [
    ({"example": 2}, InputError, "example is 2; 0 to 1 can be chosen"),
    ({"example": -1}, InputError, "example is -1"),
    ({"example": True}, KindError, "example is True; a whole number is wanted"),
    ({"example": "a"}, KindError, "example is 'a'"),
    ({"show": "kll"}, InputError, "show is 'kll'; the nearest are: kl"),
    ({"show": 3}, InputError, "show is 3; there are: prob, rank"),
    ({"target": 2}, InputError, "target is 2; 0 to 1 can be chosen"),
    ({"target": -1}, InputError, "target is -1"),
    ({"layer": 4}, InputError, "layer is 4; -1 to 3 can be chosen, -1 for none"),
    ({"layer": 1.5}, KindError, "layer is 1.5"),
    ({"pos": 5}, InputError, "pos is 5; example 0 is shown at positions 0 to 4, and -1 is none"),
    ({"pos": -2}, InputError, "pos is -2"),
    ({"example": 1, "pos": 1}, InputError, "example 1 is shown at positions 2 to 4"),
]


@pytest.mark.parametrize(("choices", "kind", "words"), REFUSED)
def test_choices_that_do_not_exist_are_refused(lens, choices, kind, words):
    with pytest.raises(kind, match=words):
        LensDashboard(lens, **choices)


@pytest.mark.parametrize(("choices", "kind", "words"), [case for case in REFUSED if len(case[0]) == 1])
def test_setting_them_is_refused_too_and_changes_nothing(lens, choices, kind, words):
    widget = LensDashboard(lens)
    ((name, value),) = choices.items()
    before = getattr(widget, name), dict(widget.state)
    with pytest.raises(Exception, match=words if kind is InputError and name != "show" else name):
        setattr(widget, name, value)
    assert (getattr(widget, name), widget.state) == before


def test_positions_are_named_in_runs():
    lens = made_lens(WORDS, pos=9)
    with pytest.raises(InputError, match="at positions 0 to 2 and 5 and 7 to 8, and -1 is none"):
        LensDashboard(lens, positions=[0, 1, 2, 5, 7, 8], pos=4)


def test_a_target_is_shown_where_one_is_followed():
    lens = made_lens(WORDS, targets=())
    with pytest.raises(InputError, match="show is 'target_rank', and the lens follows no target"):
        LensDashboard(lens, show="target_rank")
    with pytest.raises(InputError, match="target is 1; 0 alone can be chosen"):
        LensDashboard(lens, target=1)
    assert LensDashboard(lens).target == 0


@pytest.mark.parametrize(
    ("positions", "kind", "words"),
    [
        ([], InputError, "positions is empty"),
        ([5], InputError, "there is no position 5; the lens has 0 to 4"),
        ([-1], InputError, "there is no position -1"),
        ([0, 1], InputError, "positions has no token of example 1, which has 2 to 4"),
        (3, KindError, "positions is 3; a list of whole numbers or a range is wanted"),
        ([1.5], KindError, "a list of whole numbers"),
        ("ab", KindError, "a list of whole numbers"),
    ],
)
def test_positions_that_do_not_exist_are_refused(lens, positions, kind, words):
    with pytest.raises(kind, match=words):
        LensDashboard(lens, positions=positions)


def test_what_is_too_large_names_the_way_out(monkeypatch, lens):
    monkeypatch.setattr(lens_packing, "LIMIT", 4 * (8 * 3 + 16 + 16) * 3)  # three positions
    with pytest.raises(TooLargeError, match=r"5 positions of this lens: .* at most 3 of them, such as range\(3\)"):
        LensDashboard(lens)
    assert LensDashboard(lens, positions=range(3)).example == 0
    monkeypatch.setattr(lens_packing, "LIMIT", 10)
    with pytest.raises(TooLargeError, match=r"give wb\.logit_lens a smaller top_k"):
        LensDashboard(lens, positions=[3])


def test_no_keyword_is_swallowed(lens):
    with pytest.raises(TypeError, match=r"'exmaple'.*example"):
        LensDashboard(lens, exmaple=1)
    with pytest.raises(TypeError, match=r"'example'.*examples"):
        LensDashboard(lens).to_html(example=[0])


def test_what_is_no_lens_is_told_what_it_lacks(lens):
    with pytest.raises(KindError, match=r"lens is str; what wb\.logit_lens gives is wanted"):
        LensDashboard("a lens")
    whole = {field.name: getattr(lens, field.name) for field in fields(lens)}
    assert LensDashboard(SimpleNamespace(**whole))._page["positions"] == [0, 1, 2, 3, 4]
    for missing in ("kl", "next_ranks", "target_tokens"):
        with pytest.raises(KindError, match=f"lens has no {missing}; one that wb.logit_lens gives has"):
            LensDashboard(SimpleNamespace(**{name: value for name, value in whole.items() if name != missing}))
    old = {name: whole[name] for name in ("tokens", "logprobs", "labels", "str_tokens", "texts")}
    with pytest.raises(KindError, match=r"lens has no entropy, kl, .* and target_ranks; one that"):
        LensDashboard(SimpleNamespace(**old))


# ---- state


def test_state_is_taken_back(lens):
    widget = LensDashboard(lens)
    widget.example, widget.show, widget.target, widget.layer, widget.pos = 1, "rank", 1, 2, 4
    saved = json.loads(json.dumps(widget.state))
    again = LensDashboard(lens, state=saved)
    assert again.state == widget.state
    assert (again.example, again.show, again.target, again.layer, again.pos) == (1, "rank", 1, 2, 4)
    assert again._page["example"] == 1
    other = LensDashboard(lens)
    other.state = saved
    assert (other.example, other.show, other.layer, other.pos, other._page["example"]) == (1, "rank", 2, 4, 1)


def test_a_state_of_another_lens_is_refused(lens):
    state = LensDashboard(lens).state
    for other in (
        made_lens(WORDS, batch=2, targets=(3, 12), padding=(0, 2)),
        made_lens(WORDS, batch=2, targets=(3, 11), padding=(0, 1)),
        made_lens(WORDS, batch=2, rows=5, targets=(3, 11), padding=(0, 2)),
    ):
        with pytest.raises(InputError, match="state is of a lens over other texts, layers or targets"):
            LensDashboard(other, state=state)
        widget = LensDashboard(other)
        with pytest.raises(InputError, match="other texts"):
            widget.state = state
    with pytest.raises(KindError, match="state is of list; a LensDashboard's is of lens, example, show"):
        LensDashboard(lens, state=[1])
    with pytest.raises(KindError, match="state is of nothing"):
        LensDashboard(lens, state={})
    with pytest.raises(InputError, match="example is 9"):
        LensDashboard(lens, state={**state, "example": 9})
    widget = LensDashboard(lens, show="kl")
    with pytest.raises(InputError, match="layer is 8"):
        widget.state = {**state, "layer": 8}
    assert (widget.show, widget.layer) == ("kl", -1)


# ---- what it becomes


def shade(fig):
    return np.asarray(fig.data[0].z, dtype=float)


def test_the_figure_shows_what_is_shown(lens):
    widget = LensDashboard(lens)
    np.testing.assert_allclose(shade(widget.figure()), lens.logprobs[0, ..., 0].exp().numpy(), rtol=1e-6)
    widget.show = "entropy"
    np.testing.assert_allclose(shade(widget.figure()), lens.entropy[0].numpy(), rtol=1e-6)
    widget.show, widget.target = "target_rank", 1
    ranks = shade(widget.figure())
    order = lens.target_ranks[0, ..., 1].numpy()
    assert (np.diff(ranks.ravel()[order.ravel().argsort()]) <= 0).all()  # a lower rank is stronger
    widget = LensDashboard(lens, positions=[3, 4], example=1, show="entropy")
    np.testing.assert_allclose(shade(widget.figure()), lens.entropy[1, :, 3:].numpy(), rtol=1e-6)
    widget.show = "target_prob"
    assert shade(widget.figure()).shape == (4, 2)


def test_the_table_is_that_of_the_example(lens):
    widget = LensDashboard(lens, example=1, positions=[0, 1, 3, 4])
    table = widget.to_dataframe()
    assert list(table["pos"]) == [3, 4] * 4
    assert set(table["example"]) == {1}
    assert table["kl"].iloc[1] == pytest.approx(lens.kl[1, 0, 4].item())


def test_saving_by_the_ending(lens, tmp_path):
    widget = LensDashboard(lens)
    read_back = pd.read_csv(StringIO(widget.save(tmp_path / "l.csv").read_text()))
    pd.testing.assert_frame_equal(read_back, widget.to_dataframe(), check_dtype=False, rtol=1e-5)
    assert widget.save(tmp_path / "l.html").read_text() == widget.to_html()


def state_in(html):
    text = html.split('<script id="state" type="application/json">')[1].split("</script>")[0]
    return json.loads(text)


def pages_in(html):
    pages = state_in(html)["pages"]
    return {int(i): {**page, "data": base64.b64decode(page["data"])} for i, page in pages.items()}


def test_a_file_holds_all_examples_or_those_that_are_named(lens):
    widget = LensDashboard(lens, example=1, show="kl", layer=2, pos=3)
    for example, page in pages_in(widget.to_html()).items():
        check_page(page, lens, example, [[0, 1, 2, 3, 4], [2, 3, 4]][example])
    traits = state_in(widget.to_html())["traits"]
    assert (traits["example"], traits["show"], traits["layer"], traits["pos"]) == (1, "kl", 2, 3)
    assert traits["_note"] == ""
    alone = widget.to_html(examples=[0])
    assert list(pages_in(alone)) == [0]
    traits = state_in(alone)["traits"]
    assert (traits["example"], traits["layer"], traits["pos"]) == (0, -1, -1)
    assert [number for number, _ in traits["_examples"]] == [0]
    assert traits["_note"] == "This page holds 1 text of 2."


def test_a_file_of_much_holds_the_example_looked_at(monkeypatch, lens):
    monkeypatch.setattr("workbench.widgets.lens.LIMIT", 2000)
    widget = LensDashboard(lens, example=1)
    assert list(pages_in(widget.to_html())) == [1]
    assert list(pages_in(widget.to_html(examples=[0]))) == [0]
    with pytest.raises(TooLargeError, match="2 examples make a file of more than 8 MB: pass fewer examples="):
        widget.to_html(examples=[0, 1])


@pytest.mark.parametrize(
    ("examples", "kind", "words"),
    [
        ([2], InputError, "example is 2; 0 to 1 can be chosen"),
        ([], InputError, "examples is empty"),
        ("01", KindError, "examples is '01'; a list of whole numbers is wanted"),
        (1, KindError, "examples is 1"),
        ([True], KindError, "example is True"),
    ],
)
def test_examples_that_do_not_exist_are_refused(lens, examples, kind, words):
    with pytest.raises(kind, match=words):
        LensDashboard(lens).view(examples=examples)


def test_no_token_ends_the_script_of_a_file():
    words = ["</script><script>alert(1)</script>", "<!--", "\u2028", *WORDS]
    html = LensDashboard(made_lens(words, targets=(0, 1))).to_html()
    assert html.count("<script") == 2
    assert "alert(1)</script" not in html
    assert visible(words[0]) in state_in(html)["traits"]["_targets"]


def test_half_precision_and_other_integers(lens):
    other = replace(lens, logprobs=lens.logprobs.half(), next_ranks=lens.next_ranks.to(torch.int32))
    found = read(LensDashboard(other)._page, 4)
    np.testing.assert_array_equal(found["logprobs"], lens.logprobs[0].half().float().numpy())
    np.testing.assert_array_equal(found["next_ranks"][..., 0], lens.next_ranks[0].numpy())


def test_a_position_alone_is_of_the_last_row(lens):
    widget = LensDashboard(lens, pos=2)
    assert (widget.layer, widget.pos) == (3, 2)
    assert LensDashboard(lens, pos=2, layer=1).layer == 1
    assert (LensDashboard(lens).layer, LensDashboard(lens).pos) == (-1, -1)


def test_it_says_what_it_is_of(lens):
    assert repr(LensDashboard(lens)) == "LensDashboard of 4 layers x 5 positions"
