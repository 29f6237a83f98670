import json
import math
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from workbench.errors import InputError, KindError
from workbench.figures import head_scores, themed

KINDS = ("previous_token", "duplicate_token", "induction", "first_token")
NATS = ("entropy",)


@pytest.fixture
def scores():
    """(kinds=KINDS, layers=3, heads=4, **changes) -> what `wb.figures.head_scores` takes; entropy is in nats."""

    def make(kinds=KINDS, layers=3, heads=4, **changes):
        nats = torch.tensor([kind in NATS for kind in kinds])
        values = torch.linspace(0, 1, len(kinds) * layers * heads).reshape(-1, layers, heads)
        values = values * torch.where(nats, 3.0, 1.0)[:, None, None]
        given = {
            "values": values,
            "kinds": kinds,
            "chance": torch.where(nats, 4.0, 0.0125),
            "units": tuple("nats" if kind in NATS else "share" for kind in kinds),
        }
        return SimpleNamespace(**(given | changes))

    return make


def test_a_panel_for_each_kind_on_one_scale(scores):
    given = scores()
    fig = head_scores(given)
    maps = [trace for trace in fig.data if trace.type == "heatmap"]
    assert len(maps) == 4
    for trace, values in zip(maps, given.values, strict=True):
        np.testing.assert_array_equal(trace.z, values.numpy())
        assert trace.coloraxis == "coloraxis"
    assert (fig.layout.coloraxis.cmin, fig.layout.coloraxis.cmax) == (0, 1)


def test_layers_go_down_from_zero_and_heads_to_the_right(scores):
    fig = head_scores(scores())
    low, high = fig.layout.yaxis.range
    assert low > high
    assert fig.layout.yaxis.ticktext == ("0", "1", "2")
    assert fig.layout.xaxis.ticktext == ("0", "1", "2", "3")
    assert (fig.layout.xaxis.title.text, fig.layout.yaxis.title.text) == ("head", "layer")


def test_headings_and_hovers_say_what_chance_is(scores):
    fig = head_scores(scores(chance=torch.tensor([0.0376, 0.000123, math.nan, 0.5])))
    headings = [note.text for note in fig.layout.annotations]
    assert headings == [
        "previous token (chance 0.038)",
        "duplicate token (chance 0.00012)",
        "induction (no places)",
        "first token (chance 0.5)",
    ]
    for trace, heading in zip(fig.data, headings, strict=True):
        assert trace.hovertemplate == (
            f"<b>{heading}</b><br>layer %{{y}}, head %{{x}}<br>score <b>%{{z:.3f}}</b><extra></extra>"
        )


def test_entropy_is_coloured_by_its_share_of_chance_and_told_in_nats(scores):
    given = scores(("induction", "entropy"))
    share, entropy = head_scores(given).data
    np.testing.assert_array_equal(share.z, given.values[0].numpy())
    np.testing.assert_allclose(entropy.z, given.values[1].numpy() / 4)
    np.testing.assert_array_equal(entropy.customdata, given.values[1].numpy())
    assert share.customdata is None
    assert entropy.hovertemplate == (
        "<b>entropy (chance 4 nats)</b><br>layer %{y}, head %{x}<br>"
        "score <b>%{customdata:.3f} nats</b><br>%{z:.0%} of chance<extra></extra>"
    )
    assert "entropy is coloured" in head_scores(given).layout.title.text
    assert "entropy" not in head_scores(scores()).layout.title.text


def test_entropy_that_cannot_be_above_0_is_blank(scores):
    """Texts of rows with a single key: chance is 0 and says nothing."""
    fig = head_scores(scores(("entropy",), values=torch.zeros(1, 3, 4), chance=torch.zeros(1)))
    assert np.isnan(fig.data[0].z).all()
    assert (fig.data[0].customdata == 0).all()


def test_entropy_is_found_among_the_panels_that_carry_axes_too(scores):
    """Where not every head has a tick there are traces beside the maps."""
    fig = head_scores(scores(("entropy", "induction"), 32, 32))
    entropy, share = (trace for trace in fig.data if trace.type == "heatmap")
    assert "nats" in entropy.hovertemplate
    assert "nats" not in share.hovertemplate


def test_nan_stays_nan(scores):
    given = scores()
    given.values[2], given.values[0, 1, 3] = math.nan, math.nan
    fig = head_scores(given)
    assert np.isnan(fig.data[2].z).all()
    assert np.isnan(fig.data[0].z).sum() == 1
    assert fig.data[0].hoverongaps is False


@pytest.mark.parametrize(("layers", "heads"), [(30, 9), (32, 32), (12, 12), (2, 2), (80, 64), (1, 1), (61, 128)])
@pytest.mark.parametrize("kinds", [KINDS, (*KINDS, "entropy"), ("induction",), ("much_longer_than_the_house_has",) * 2])
def test_panels_fit_a_page_and_headings_their_panels(scores, kinds, layers, heads):
    fig = head_scores(scores(kinds, layers, heads))
    assert fig.layout.width <= 1024
    plot = fig.layout.width - fig.layout.margin.l - fig.layout.margin.r
    tops = {}
    for note in fig.layout.annotations:
        tops.setdefault(note.y, []).append((note.x * plot, len(note.text)))
    for row in tops.values():
        for (left, letters), (right, _) in pairwise(row):
            assert left + 5.8 * letters < right  # a letter as wide as it was measured in a browser


def test_32_by_32_stand_side_by_side(scores):
    notes = head_scores(scores(KINDS, 32, 32)).layout.annotations
    assert len({note.y for note in notes}) == 1


def test_names_are_literal(scores):
    given = scores(("<b>x</b>", "entropy"), units=("share", "<i>nats</i>"))
    fig = head_scores(given)
    assert "<b>x" not in fig.layout.annotations[0].text
    assert "<b>x" not in fig.data[0].hovertemplate
    assert "<i>" not in fig.layout.annotations[1].text + fig.data[1].hovertemplate


def test_themes_change_nothing_but_the_look(scores):
    light, dark = (head_scores(scores(), theme=theme) for theme in ("light", "dark"))
    assert json.loads(themed(light, "dark").to_json()) == json.loads(dark.to_json())
    assert light.layout.coloraxis.colorscale != dark.layout.coloraxis.colorscale


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"values": torch.ones(3, 4)}, InputError, r"\[kind, layer, head\].*\[3, 4\] came"),
        ({"values": torch.ones(4, 0, 4)}, InputError, r"\[4, 0, 4\] came"),
        ({"values": "much"}, KindError, "not str"),
        ({"values": torch.ones(3, 3, 4)}, InputError, "of 3 kinds, and 4 names came"),
        ({"chance": torch.ones(1)}, InputError, "of 4 kinds, and 1 chance came"),
        ({"units": ("share",) * 5}, InputError, "of 4 kinds, and 5 units came"),
    ],
)
def test_what_does_not_fit_is_said(scores, changes, error, says):
    with pytest.raises(error, match=says):
        head_scores(scores(**changes))


def test_an_unknown_theme_is_refused(scores):
    with pytest.raises(InputError, match="no theme 'drak'"):
        head_scores(scores(), theme="drak")
