import json
import math

import numpy as np
import pytest
import torch

from workbench.errors import InputError, KindError
from workbench.figures import patching, themed


@pytest.mark.parametrize("axes", [("layer", "pos"), ("layer", "head"), ("layer", "kv_head"), ("pos", "layer")])
def test_layers_go_down_from_zero(sweep, axes):
    result = sweep(axes)
    fig = patching(result)
    expected = result.effect.numpy()
    np.testing.assert_array_equal(fig.data[0].z, expected if axes[0] == "layer" else expected.T)
    low, high = fig.layout.yaxis.range
    assert low > high
    assert fig.layout.yaxis.ticktext[0] == "0"
    assert fig.layout.yaxis.title.text == "layer"


def test_zero_is_in_the_middle(sweep):
    axis = patching(sweep(("layer", "pos"))).layout.coloraxis
    assert (axis.cmin, axis.cmax) == (-1, 1)
    scale = axis.colorscale
    assert scale[len(scale) // 2][0] == 0.5


def test_nan_stays_nan_and_does_not_set_the_scale(sweep):
    result = sweep(("layer", "pos"))
    result.effect = 2 * result.effect
    result.effect[1, 2], result.effect[0, 0] = math.nan, math.inf
    fig = patching(result)
    assert np.isnan(fig.data[0].z[1, 2])
    assert fig.layout.coloraxis.cmax == 2


def test_no_effect_at_all_is_drawn_and_said(sweep):
    fig = patching(sweep(("layer", "pos"), effect=torch.full((5, 14), math.nan)))
    assert "score alike" in fig.layout.title.text
    assert fig.layout.coloraxis.cmax == 1


def test_the_same_token_twice_is_two_columns(sweep):
    fig = patching(sweep(("layer", "pos")))
    assert fig.layout.xaxis.tickvals == tuple(range(14))
    assert fig.layout.xaxis.ticktext[3] == fig.layout.xaxis.ticktext[9] == "␣John"
    assert "%{x:d}" in fig.data[0].hovertemplate


def test_one_axis_makes_bars(sweep):
    result = sweep(("layer",))
    below, above = patching(result).data
    assert below.type == above.type == "bar"
    np.testing.assert_array_equal(np.nan_to_num(below.x) + np.nan_to_num(above.x), result.effect.numpy())
    assert list(above.y) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("axes", [("layer", "pos", "head"), ("layer", "head", "pos")])
def test_a_third_axis_makes_panels(sweep, axes):
    result = sweep(axes)
    fig = patching(result)
    assert [note.text for note in fig.layout.annotations] == ["head 0", "head 1", "head 2"]
    values = result.effect.numpy() if axes[2] == "head" else result.effect.numpy().transpose(0, 2, 1)
    for head, trace in enumerate(fig.data):
        np.testing.assert_array_equal(trace.z, values[:, :, head])


def test_the_mean_can_be_shown(sweep):
    result = sweep(("layer", "pos"))
    fig = patching(result, show="mean")
    np.testing.assert_array_equal(fig.data[0].z, result.mean.numpy())
    assert "5.50 clean, −5.50 corrupted" in fig.layout.title.text


@pytest.mark.parametrize(
    ("changes", "title"),
    [
        ({"site": "z"}, "z (head output), clean into corrupted"),
        ({"site": "mlp_in", "direction": "noise"}, "mlp_in, corrupted into clean"),
        ({"site": "z", "direction": "ablate", "corrupted": torch.empty(0)}, "z (head output), ablated"),
    ],
)
def test_the_title_says_what_was_done(sweep, changes, title):
    assert patching(sweep(("layer",), **changes)).layout.title.text.startswith(f"<b>{title}</b><br>")


def test_an_ablation_shows_a_change_of_the_metric(sweep):
    ablation = sweep(("layer", "head"), direction="ablate", corrupted=torch.empty(0))
    fig = patching(ablation)
    assert "change of the metric from 5.50" in fig.layout.title.text
    assert fig.layout.coloraxis.colorbar.title.text == "change"
    assert fig.data[0].hovertemplate.startswith("layer %{y}, head %{x}<br>change <b>")
    assert "metric: 5.50 unablated" in patching(ablation, show="mean").layout.title.text


def test_axes_are_words(sweep):
    fig = patching(sweep(("layer", "pos")))
    assert (fig.layout.xaxis.title.text, fig.layout.yaxis.title.text) == ("position", "layer")
    assert fig.data[0].hovertemplate.startswith("layer %{y}, position %{x:d} %{x}<br>effect <b>")
    assert patching(sweep(("layer", "kv_head"))).layout.xaxis.title.text == "kv head"


def test_labels_and_site_are_literal(sweep, nasty):
    labels = {"layer": ("0",), "pos": tuple(nasty)}
    result = sweep(("layer", "pos"), site="<b>x</b>", labels=labels, effect=torch.ones(1, len(nasty)))
    fig = patching(result)
    assert "<b>x" not in fig.layout.title.text
    assert not any("<" in text for text in fig.layout.xaxis.ticktext)


def test_1024_positions(sweep):
    labels = {"layer": tuple("01234"), "pos": tuple(f" t{i}" for i in range(1024))}
    fig = patching(sweep(("layer", "pos"), labels=labels, effect=torch.rand(5, 1024)))
    assert len(fig.layout.xaxis.tickvals) <= 64
    assert len(fig.layout["xaxis" + fig.data[0].xaxis[1:]].ticktext) == 1024


def test_themes_change_nothing_but_the_look(sweep):
    light, dark = (patching(sweep(("layer", "pos")), theme=theme) for theme in ("light", "dark"))
    assert json.loads(themed(light, "dark").to_json()) == json.loads(dark.to_json())
    assert light.layout.coloraxis.colorscale != dark.layout.coloraxis.colorscale


@pytest.mark.parametrize(
    ("axes", "changes", "error", "says"),
    [
        (("layer", "pos"), {"effect": torch.ones(5)}, InputError, r"effect of 1 has \(layer, pos\)"),
        (("layer", "pos"), {"effect": torch.ones(5, 13)}, InputError, "'pos' has 14 labels for 13 cells"),
        (("layer", "pos"), {"labels": {"layer": tuple("01234")}}, InputError, "no labels for its axis 'pos'"),
        (("layer", "pos"), {"direction": "up"}, KindError, "direction is 'up'; 'denoise', 'noise', 'ablate'"),
        (("layer", "pos"), {"effect": "much"}, KindError, "not str"),
        (("layer",), {"effect": torch.ones(0), "labels": {"layer": ()}}, InputError, "no cells"),
    ],
)
def test_what_does_not_fit_is_said(sweep, axes, changes, error, says):
    with pytest.raises(error, match=says):
        patching(sweep(axes, **changes))


def test_an_unknown_quantity_is_refused(sweep):
    with pytest.raises(InputError, match="'efect', the nearest are: effect"):
        patching(sweep(("layer",)), show="efect")
