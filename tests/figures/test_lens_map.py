import numpy as np
import pytest

from workbench.errors import InputError
from workbench.figures import lens as lens_figure


def test_the_final_row_is_at_the_bottom_and_colour_is_the_top_probability(lens):
    fig = lens_figure(lens())
    heat = fig.data[0]
    np.testing.assert_allclose(heat.z, 0.5, rtol=1e-6)
    low, high = fig.layout.yaxis.range
    assert low > high
    assert fig.layout.yaxis.ticktext == ("before 0", "before 1", "before 2", "final")
    assert heat.text[3][13] == "␣w3.1…"  # as much as 14 columns leave room for


def test_the_hover_lists_the_top_k(lens):
    hover = lens_figure(lens()).data[0].customdata[2][9]
    assert [line.split() for line in hover.split("<br>")] == [
        ["␣John", "9"],
        ["50.0%", "␣w2.9.0"],
        ["25.0%", "␣w2.9.1"],
        ["12.5%", "␣w2.9.2"],
    ]


def test_guesses_and_prompt_are_literal(lens, nasty):
    result = lens(nasty)
    result.texts[0][0] = [[token] * 3 for token in nasty]
    heat = lens_figure(result).data[0]
    cells = [cell for row in heat.text for cell in row]
    hovers = [cell.replace("<br>", "") for row in heat.customdata for cell in row]
    assert not any(set("<>${") & set(text) for text in cells + hovers)


def test_more_cells_than_one_can_read_are_only_coloured(lens):
    fig = lens_figure(lens([f" t{i}" for i in range(1024)], rows=31))
    assert fig.data[0].text is None
    assert fig.data[0].customdata[0][1023].startswith("␣t1023 1023<br>")
    assert len(fig.layout.xaxis.tickvals) <= 64


def test_64_by_64_still_has_words(lens):
    assert lens_figure(lens(["a"] * 64, rows=64)).data[0].text is not None
    assert lens_figure(lens(["a"] * 65, rows=4)).data[0].text is None


def test_padding_is_blank(lens):
    result = lens()
    result.logprobs = result.logprobs.clone()
    result.logprobs[0, :, 0] = float("nan")
    assert np.isnan(lens_figure(result).data[0].z[:, 0]).all()


def test_what_does_not_fit_is_said(lens):
    with pytest.raises(InputError, match="no example 1: the lens has 1 example"):
        lens_figure(lens(), example=1)
    short = lens()
    short.labels = ("final",)
    with pytest.raises(InputError, match="4 rows and 1 label"):
        lens_figure(short)
    flat = lens()
    flat.logprobs = flat.logprobs[0]
    with pytest.raises(InputError, match=r"\[example, row, pos, k\]"):
        lens_figure(flat)
