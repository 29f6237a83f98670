import html

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from workbench.errors import InputError, KindError, TooLargeError, WorkbenchError
from workbench.figures import attention
from workbench.figures.pooling import strongest
from workbench.figures.tokens import visible


def texts(axis):
    return [html.unescape(text).strip("\u2068\u2069") for text in axis.ticktext]


def test_the_weights_themselves_are_drawn_and_queries_go_down(causal, ioi):
    weights = causal(1, 14)[0]
    fig = attention(weights, ioi)
    z = fig.data[0].z
    seen = np.tril(np.ones((14, 14), dtype=bool))
    np.testing.assert_array_equal(z[seen], weights.numpy()[seen])
    assert np.isnan(z[~seen]).all()  # the future is blank, not 0
    low, high = fig.layout.yaxis.range
    assert low > high
    assert "%{z" in fig.data[0].hovertemplate


def test_colour_follows_the_square_root(causal, ioi):
    scale = attention(causal(1, 14)[0], ioi, theme="light").layout.coloraxis.colorscale
    colours = dict(scale)
    ends = [next(c for t, c in scale if t == at) for at in (0.0, 1.0)]
    assert ends == ["rgb(244,243,239)", "rgb(13,53,99)"]
    assert colours[0.2**2] == "rgb(207,223,235)"  # the second of six colours stands at 0.2 squared


def test_repeated_tokens_stay_apart(causal, ioi):
    axis = attention(causal(1, 14)[0], ioi).layout.xaxis
    assert axis.tickvals == tuple(range(14))
    assert axis.ticktext[3] == axis.ticktext[9] == "␣John"


def test_token_text_is_literal(causal, nasty):
    axis = attention(causal(1, len(nasty))[0], nasty).layout.yaxis
    assert not any("<" in text or "$" in text or "%" in text for text in axis.ticktext)
    shown = [visible(token) for token in nasty]
    assert [t[:13] for t in texts(axis)] == [t[:13] for t in shown]


def test_several_heads_are_panels_on_one_scale(causal, ioi):
    fig = attention(causal(9, 14), ioi)
    assert [trace.type for trace in fig.data] == ["heatmap"] * 9
    assert {trace.coloraxis for trace in fig.data} == {"coloraxis"}
    assert len({(trace.xaxis, trace.yaxis) for trace in fig.data}) == 9
    assert [note.text for note in fig.layout.annotations] == [f"head {h}" for h in range(9)]


def test_1024_tokens_get_few_ticks_and_a_hover_for_each(causal):
    tokens = [f" t{i}" for i in range(1024)]
    fig = attention(causal(1, 1024)[0], tokens)
    assert len(fig.layout.xaxis.tickvals) <= 64
    on = fig.layout["xaxis" + fig.data[0].xaxis[1:]]
    assert on.showticklabels is False
    assert on.ticktext == tuple(f"␣t{i} … ␣t{i + 1}" for i in range(0, 1024, 2))
    assert fig.layout.xaxis.ticktext[:2] == ("␣t0", "␣t40")
    assert len(fig.to_json()) < 7_000_000


@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("n", [521, 1024])
def test_no_cell_is_left_out_where_there_are_more_than_pixels(heads, n):
    """A cell takes a pixel at least, so that a browser draws each; it is the strongest of those that it stands for."""
    weights = torch.zeros(heads, n, n)
    alone = [(7, 5), (n - 1, 0), (n - 1, n - 1), (n // 2, n // 3), (n // 2 + 1, n // 3 + 1)]
    for head in range(heads):
        for q, k in alone:
            weights[head, q, k] = 0.25 + 0.125 * head
    fig = attention(weights if heads > 1 else weights[0], ["a"] * n)
    for head in range(heads):
        z, where = fig.data[head].z, fig.data[head].customdata
        assert z.shape[0] <= fig.layout.height - fig.layout.margin.t - fig.layout.margin.b
        bright = {tuple(at) for at in where[z > 0].tolist()}
        assert bright <= set(alone)
        assert len(bright) >= 4  # two may be neighbours
        assert set(np.unique(z[~np.isnan(z)]).tolist()) == {0.0, 0.25 + 0.125 * head}


@given(st.integers(1, 4), st.integers(1, 23), st.integers(1, 23), st.randoms())
def test_the_strongest_of_a_block_is_named(block, rows, columns, random):
    values = [random.choice([0.0, -0.5, 0.25, -2.0, float("nan"), random.random()]) for _ in range(rows * columns)]
    panel = np.array(values, np.float32).reshape(1, rows, columns)
    z, where = strongest(panel, block)
    for down in range(z.shape[1]):
        for across in range(z.shape[2]):
            cells = panel[0, down * block : (down + 1) * block, across * block : (across + 1) * block]
            sizes = np.abs(cells[~np.isnan(cells)])
            assert np.isnan(z[0, down, across]) == (sizes.size == 0)
            if sizes.size:
                assert abs(z[0, down, across]) == sizes.max()
                assert panel[0][tuple(where[0, down, across])] == z[0, down, across]


def test_a_pattern_without_a_mask_is_drawn_whole(ioi):
    weights = np.full((14, 14), 1 / 14, dtype=np.float32)
    assert not np.isnan(attention(weights, ioi).data[0].z).any()


def test_nan_and_weights_beyond_one_are_drawn(ioi):
    weights = torch.eye(14)
    weights[3, 1], weights[4, 2] = torch.nan, 2.5
    fig = attention(weights, ioi)
    assert np.isnan(fig.data[0].z[3, 1])
    assert fig.layout.coloraxis.cmax == 2.5


def test_bfloat16_and_gradients_are_no_trouble(ioi):
    attention(torch.eye(14, dtype=torch.bfloat16, requires_grad=True), ioi)


@pytest.mark.parametrize(
    ("weights", "tokens", "error", "says"),
    [
        (torch.eye(3), ["a", "b"], InputError, "3 positions and 2 tokens came"),
        (torch.ones(3), ["a"] * 3, InputError, r"not \[3\]"),
        (torch.ones(2, 2, 3), ["a"] * 3, InputError, "as many keys as queries"),
        (torch.ones(0, 0), [], InputError, r"not \[0, 0\]"),
        (torch.empty(9, 1024, 1024), ["a"] * 1024, TooLargeError, "pass fewer heads"),
        ("weights", ["a"], KindError, "not str"),
        (torch.eye(2), ["a", 2], KindError, "one of them is int"),
    ],
)
def test_what_does_not_fit_is_said(weights, tokens, error, says):
    with pytest.raises(error, match=says) as caught:
        attention(weights, tokens)
    assert isinstance(caught.value, WorkbenchError)


def test_an_unknown_theme_is_refused(ioi):
    with pytest.raises(InputError, match="'drak', the nearest are: dark"):
        attention(torch.eye(14), ioi, theme="drak")
