import numpy as np
import pytest
import torch

from workbench.errors import InputError, WorkbenchError
from workbench.figures import lens as lens_figure


def test_the_final_row_is_at_the_bottom_and_colour_is_the_top_probability(lens):
    fig = lens_figure(lens())
    heat = fig.data[0]
    np.testing.assert_allclose(heat.z, 0.5, rtol=1e-6)
    low, high = fig.layout.yaxis.range
    assert low > high
    assert fig.layout.yaxis.ticktext == ("before 0", "before 1", "before 2", "final")
    assert heat.text[3][13] == "␣w3.1…"  # as much as 14 columns leave room for


def hover_of(fig, row, pos):
    """What a reader sees, as lines: the template with its slots filled, as plotly fills them."""
    heat = fig.data[0]
    number = fig.layout[heat.xaxis.replace("x", "xaxis")]
    text = heat.hovertemplate.replace("%{x:d}", str(pos)).replace("%{x}", number.ticktext[pos])
    for slot, value in enumerate(heat.customdata[row][pos]):
        text = text.replace(f"%{{customdata[{slot}]}}", value)
    return [line.strip() for line in text.removesuffix("<extra></extra>").split("<br>")]


def test_the_hover_lists_the_top_k(lens):
    """A lens that has no more than tokens and probabilities."""
    first, *lines = hover_of(lens_figure(lens()), 2, 9)
    assert first == "%{y}"
    assert [line.split() for line in lines] == [
        ["after", "␣John", "9"],
        ["50.0%", "␣w2.9.0"],
        ["25.0%", "␣w2.9.1"],
        ["12.5%", "␣w2.9.2"],
    ]


def test_guesses_and_prompt_are_literal(lens, nasty):
    result = lens(nasty)
    result.texts[0][0] = [[token] * 3 for token in nasty]
    heat = lens_figure(result).data[0]
    cells = [cell for row in heat.text for cell in row]
    hovers = [part.replace("<br>", "") for row in heat.customdata for cell in row for part in cell]
    assert not any(set("<>${") & set(text) for text in cells + hovers)


def test_more_cells_than_one_can_read_are_only_coloured(lens):
    fig = lens_figure(lens([f" t{i}" for i in range(1024)], rows=31))
    assert fig.data[0].text is None
    assert hover_of(fig, 0, 1023)[1] == "after ␣t1023 1023"
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


@pytest.fixture
def full(lens):
    """(**changes) -> the lens with all that it can have: 4 rows, 14 positions, two targets; the text ends at 13."""

    def make(tokens=None, rows=4, **changes):
        result = lens(*([] if tokens is None else [tokens]), rows=rows)
        shape = (1, rows, len(result.str_tokens[0]))
        ranks = torch.arange(rows * shape[2]).reshape(shape) * 10
        ranks[:, :, -1] = -1
        right = torch.zeros(shape, dtype=torch.bool)
        right[0, 3, 5] = True
        values = {
            "entropy": torch.linspace(0, 8, ranks.numel()).reshape(shape),
            "kl": torch.linspace(99, 0, ranks.numel()).reshape(shape),
            "next_ranks": ranks,
            "next_logprobs": torch.where(ranks < 0, torch.nan, -0.5 - ranks),
            "right": right,
            "target_texts": (" Mary", " John"),
            "target_ranks": torch.stack([torch.full(shape, 999), torch.zeros(shape, dtype=torch.long)], -1),
            "target_logprobs": torch.stack([torch.full(shape, -7.25), torch.full(shape, -0.125)], -1),
        }
        for name, value in (values | changes).items():
            setattr(result, name, value)
        return result

    return make


def ticks_of(fig):
    bar = fig.layout.coloraxis.colorbar
    return dict(zip(bar.ticktext, bar.tickvals, strict=True))


def test_the_hover_says_what_is_followed_and_how_sure_the_lens_is(full):
    fig = lens_figure(full())
    assert hover_of(fig, 1, 2)[-4:] == [
        "next token: log p −160.50, rank 160",
        "␣Mary: log p −7.25, rank 999",
        "␣John: log p −0.12, rank 0",
        "entropy 2.33, KL 70.20 nats",
    ]
    assert hover_of(fig, 1, 13)[-4] == "next token: log p –, rank –"


def test_a_star_where_the_top_token_is_what_the_text_goes_on_with(full):
    text = lens_figure(full()).data[0].text
    starred = {(row, pos) for row in range(4) for pos in range(14) if "★" in text[row][pos]}
    assert starred == {(3, 5)}
    assert text[3][5] == "<b>␣w3…★</b>"


def test_a_token_that_is_a_star_is_no_star(full):
    result = full()
    result.texts[0][0][0][0] = "★"
    assert lens_figure(result).data[0].text[0][0] == "★"


def test_a_low_rank_is_strong(full):
    """-log(1 + rank): 0 at the strong end, blank where the text ends, the scale labelled with ranks."""
    result = full()
    fig = lens_figure(result, show="rank")
    wanted = -np.log1p(result.next_ranks[0, :, :-1].float().numpy())
    np.testing.assert_allclose(fig.data[0].z[:, :-1], wanted, rtol=1e-6)
    assert np.isnan(fig.data[0].z[:, -1]).all()
    assert (fig.layout.coloraxis.cmin, fig.layout.coloraxis.cmax) == pytest.approx((-np.log(541), 0))
    ticks = ticks_of(fig)
    assert list(ticks) == ["0", "1", "3", "10", "30", "100", "300"]
    assert ticks["300"] == pytest.approx(-np.log(301))


def test_a_target_is_chosen_by_number(full):
    first, second = (lens_figure(full(), show="target", target=at) for at in (0, 1))
    np.testing.assert_allclose(first.data[0].z, -np.log(1000), rtol=1e-6)
    assert (second.data[0].z == 0).all()
    assert first.layout.coloraxis.colorbar.title.text == "rank of ␣Mary"
    assert second.layout.coloraxis.cmin == pytest.approx(-np.log(10))  # a scale has room even where all are on top


def test_entropy_is_linear_and_divergence_is_not(full):
    result = full()
    entropy, kl = lens_figure(result, show="entropy"), lens_figure(result, show="kl")
    np.testing.assert_allclose(entropy.data[0].z, result.entropy[0], rtol=1e-6)
    assert (entropy.layout.coloraxis.cmin, entropy.layout.coloraxis.cmax) == (0, 8)
    np.testing.assert_allclose(kl.data[0].z, np.log1p(result.kl[0].numpy()), rtol=1e-6)
    assert kl.layout.coloraxis.cmax == pytest.approx(np.log(100))
    assert ticks_of(kl)["30"] == pytest.approx(np.log(31))


def test_a_scale_of_many_decades_has_fewer_ticks(full):
    ranks = torch.full((1, 4, 14), 200_000)
    wanted = ["0", "1", "10", "100", "1,000", "10,000", "100,000"]
    assert list(ticks_of(lens_figure(full(next_ranks=ranks), show="rank"))) == wanted


def test_targets_are_literal(full, nasty):
    for token in nasty:
        fig = lens_figure(full(target_texts=(token, "x")), show="target")
        said = fig.layout.coloraxis.colorbar.title.text + hover_of(fig, 0, 0)[-3]
        assert not set("<>${") & set(said)


def test_more_cells_than_one_can_read_make_a_small_page(full):
    fig = lens_figure(full([f" t{i}" for i in range(1024)], rows=31), show="kl")
    assert len(fig.to_json()) < 6_000_000


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"show": "ranks"}, "there is nothing to show named 'ranks', the nearest are: rank"),
        ({"show": None}, "there is nothing to show named None"),
        ({"show": "target", "target": 2}, "there is no target 2: the lens follows 2 targets"),
        ({"show": "target", "target": -1}, "there is no target -1"),
        ({"show": "target", "target": " Mary"}, "target is ' Mary'; a number is wanted"),
        ({"show": "target", "target": True}, "target is True; a number is wanted"),
        ({"example": "0"}, "example is '0'; a number is wanted"),
        ({"shows": "kl"}, "lens has no argument 'shows'; the nearest are: show"),
        ({"theme": "drak"}, "there is no theme 'drak', the nearest are: dark"),
    ],
)
def test_what_cannot_be_shown_is_said(full, options, said):
    with pytest.raises(WorkbenchError, match=said):
        lens_figure(full(), **options)


@pytest.mark.parametrize("show", ["rank", "entropy", "kl", "target"])
def test_a_lens_without_a_quantity_says_so(lens, show):
    with pytest.raises(InputError, match=r"this lens has no \w+ to show; wb\.logit_lens gives one that has"):
        lens_figure(lens(), show=show)


def test_a_part_of_another_shape_is_said(full):
    with pytest.raises(InputError, match=r"entropy is \[1, 4, 3\]; \[example, row, pos\] are \[1, 4, 14\]"):
        lens_figure(full(entropy=torch.zeros(1, 4, 3)))
