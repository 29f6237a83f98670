"""A metric taken apart, drawn: what stands where, what is told, and what does not fit."""

import json
import re
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from workbench.errors import InputError, KindError
from workbench.figures import attribution, themed


def made(entries, n_examples=3, by="component", **changes):
    """Parts from (label, kind, layer, unit); values differ in sign and size."""
    labels, kinds, layers, units = zip(*entries, strict=True)
    values = torch.randn(n_examples, len(labels), generator=torch.Generator().manual_seed(0))
    given = {
        "values": values,
        "labels": labels,
        "kinds": kinds,
        "layers": torch.tensor(layers),
        "units": torch.tensor(units),
        "total": values.sum(1),
        "by": by,
        "of": "logit_diff",
        "softcapped": False,
    }
    return SimpleNamespace(**(given | changes))


def components(n_layers=2, **changes):
    inside = [(f"{layer}_{name}", name, layer, -1) for layer in range(n_layers) for name in ("attn_out", "mlp_out")]
    return made([("embed", "embed", -1, -1), *inside, ("ln_final_bias", "bias", -1, -1)], **changes)


def heads(n_layers=2, n_heads=3, **changes):
    inside = [
        part
        for layer in range(n_layers)
        for part in (
            *((f"L{layer}H{head}", "head", layer, head) for head in range(n_heads)),
            (f"{layer}_b_O", "bias", layer, -1),
            (f"{layer}_mlp_out", "mlp_out", layer, -1),
        )
    ]
    return made([("embed", "embed", -1, -1), *inside, ("ln_final_bias", "bias", -1, -1)], by="head", **changes)


def neurons(n_neurons=100, **changes):
    inside = [(f"L0N{neuron}", "neuron", 0, neuron) for neuron in range(n_neurons)]
    whole = [("0_attn_out", "attn_out", 0, -1), ("1_attn_out", "attn_out", 1, -1)]
    return made([("embed", "embed", -1, -1), *whole, *inside], by="neuron", **changes)


def drawn(fig):
    """The lengths of a figure's bars, those below 0 and those above together."""
    below, above = fig.data
    return np.nan_to_num(below.x) + np.nan_to_num(above.x)


def numbers(text):
    return [float(number.replace("−", "-")) for number in re.findall(r"[+−]?\d+\.\d+", text)]


# Components


def test_components_are_bars_in_order_of_depth():
    parts = components()
    fig = attribution(parts)
    np.testing.assert_allclose(drawn(fig), parts.values.mean(0), rtol=1e-5)
    assert fig.layout.yaxis.ticktext == parts.labels
    low, high = fig.layout.yaxis.range
    assert low > high
    start, end = fig.layout.xaxis.range
    assert -start == end >= parts.values.mean(0).abs().max()


def test_the_hover_names_a_part_and_says_that_it_is_a_mean():
    parts = components()
    hovers = attribution(parts).data[0].customdata
    assert len(hovers) == len(parts.labels)
    name, mean, spread = hovers[2].split("<br>")
    assert name == "0_mlp_out"
    assert mean.endswith("mean of 3 examples")
    values = parts.values[:, 2]
    assert numbers(mean) == pytest.approx([float(values.mean())], abs=5.1e-5)
    assert numbers(spread) == pytest.approx([float(values.min()), float(values.max())], abs=5.1e-3)


def test_one_example_is_no_mean():
    parts = components()
    fig = attribution(parts, example=1)
    np.testing.assert_allclose(drawn(fig), parts.values[1], rtol=1e-5)
    assert "mean" not in fig.layout.title.text
    assert "mean" not in "".join(fig.data[0].customdata)
    assert numbers(fig.layout.title.text.split(" = ")[0])[-1] == pytest.approx(float(parts.total[1]), abs=5.1e-3)
    assert "mean" not in attribution(components(n_examples=1)).layout.title.text


def test_the_title_says_what_the_sum_is_made_of():
    parts = components()
    title = attribution(parts).layout.title.text
    assert "direct attribution of the logit difference" in title
    assert "(mean of 3 examples) = attention " in title
    total, *told = numbers(title.rpartition("px")[2])
    assert total == pytest.approx(float(parts.total.mean()), abs=5.1e-3)
    kinds = np.array(parts.kinds)
    wanted = [float(parts.values[:, kinds == kind].sum(1).mean()) for kind in ("attn_out", "mlp_out", "embed", "bias")]
    assert told == pytest.approx(wanted, abs=5.1e-3)
    assert "of the logit<" in attribution(components(of="logit")).layout.title.text


def test_a_softcap_is_said():
    assert "softcap" not in attribution(components()).layout.title.text
    assert "examples), before the softcap = " in attribution(components(softcapped=True)).layout.title.text


def test_80_layers_of_components():
    fig = attribution(components(80))
    assert len(drawn(fig)) == 162
    assert len(fig.layout.yaxis.tickvals) <= 64
    assert fig.data[0].customdata[160].startswith("79_mlp_out<br>")
    assert fig.layout.height < 1200


def test_a_rounded_nothing_has_no_sign():
    parts = components()
    parts.values[:, 0] = -1e-4
    assert "embedding 0.00" in attribution(parts).layout.title.text


def test_all_zero_is_drawn():
    fig = attribution(components(values=torch.zeros(1, 6), total=torch.zeros(1)))
    assert fig.layout.xaxis.range[1] > 0


def test_long_labels_have_room():
    longer = made([("embed", "embed", -1, -1), ("12_resid_post_edit", "edit", 12, -1)])
    assert attribution(longer).layout.margin.l >= len("12_resid_post_edit") * 6.6 + 20  # 6.6 px a letter
    assert attribution(longer).layout.yaxis.ticktext[1] == "12_resid_post_edit"


# Heads


def test_heads_are_a_map_of_layers_and_heads():
    parts = heads()
    fig = attribution(parts)
    mean = dict(zip(parts.labels, parts.values.mean(0).tolist(), strict=True))
    wanted = [[mean[f"L{layer}H{head}"] for head in range(3)] for layer in range(2)]
    np.testing.assert_allclose(fig.data[0].z, wanted, rtol=1e-5)
    axis = fig.layout.coloraxis
    assert -axis.cmin == axis.cmax == pytest.approx(np.abs(wanted).max(), rel=1e-5)
    hover = fig.data[0].customdata[1][2]
    assert numbers(hover)[0] == pytest.approx(mean["L1H2"], abs=5.1e-5)
    assert "mean of 3 examples" in hover


def test_what_else_a_layer_adds_stands_beside():
    parts = heads()
    fig = attribution(parts)
    mean = dict(zip(parts.labels, parts.values.mean(0).tolist(), strict=True))
    bar = next(trace for trace in fig.data if trace.type == "bar")
    wanted = [mean[f"{layer}_b_O"] + mean[f"{layer}_mlp_out"] for layer in range(2)]
    np.testing.assert_allclose(bar.x, wanted, rtol=1e-5)
    assert np.sign(bar.marker.color).tolist() == np.sign(wanted).tolist()
    assert bar.customdata[1].startswith("layer 1<br>1_b_O <b>")
    assert "<br>1_mlp_out <b>" in bar.customdata[1]
    assert fig.layout.yaxis9.matches == "y"
    assert fig.layout.yaxis9.range == fig.layout.yaxis.range
    assert fig.layout.xaxis.domain[1] < fig.layout.xaxis9.domain[0]
    assert max(map(abs, wanted)) < fig.layout.xaxis9.range[1]


def test_heads_that_a_layer_has_not_got_are_blank():
    parts = made([("L0H0", "head", 0, 0), ("L1H0", "head", 1, 0), ("L1H1", "head", 1, 1)], by="head")
    assert np.isnan(attribution(parts).data[0].z).tolist() == [[False, True], [False, False]]


def test_80_layers_of_64_heads():
    fig = attribution(heads(80, 64, n_examples=1))
    assert fig.data[0].z.shape == (80, 64)
    assert fig.layout.width < 1200
    assert fig.layout.height < 1000
    for axis in ("xaxis", "xaxis2"):
        assert fig.layout[axis].domain[1] < fig.layout.xaxis9.domain[0]


# Neurons


def test_the_strongest_neurons_and_the_others_together():
    parts = neurons()
    fig = attribution(parts)
    mean = parts.values.mean(0)
    strongest = mean[3:].abs().argsort(descending=True)[:30]
    labels = [f"L0N{neuron}" for neuron in strongest.tolist()]
    assert list(fig.layout.yaxis.ticktext) == [*labels, "other neurons", "attention", "embedding"]
    rest = float(mean[3:].sum() - mean[3:][strongest].sum())
    wanted = [*mean[3:][strongest].tolist(), rest, float(mean[1] + mean[2]), float(mean[0])]
    np.testing.assert_allclose(drawn(fig), wanted, rtol=1e-4, atol=1e-6)
    assert fig.data[0].customdata[30].startswith("70 other neurons<br>")
    assert drawn(fig).sum() == pytest.approx(float(parts.total.mean()), abs=1e-4)


def test_few_neurons_leave_no_others():
    labels = attribution(neurons(4)).layout.yaxis.ticktext
    assert len(labels) == 6
    assert "other neurons" not in labels


def test_experts_are_drawn_as_neurons_are():
    parts = made(
        [(f"L0E{e}", "expert", 0, e) for e in range(40)] + [("0_shared_out", "shared_out", 0, -1)], by="neuron"
    )
    labels = attribution(parts).layout.yaxis.ticktext
    assert labels[0].startswith("L0E")
    assert labels[30:] == ("other experts", "shared experts")


# All of them


@pytest.mark.parametrize("make", [components, heads, neurons])
def test_themes_change_nothing_but_the_look(make):
    light, dark = (attribution(make(), theme=theme) for theme in ("light", "dark"))
    assert json.loads(themed(light, "dark").to_json()) == json.loads(dark.to_json())
    assert json.loads(light.to_json()) != json.loads(dark.to_json())


@pytest.mark.parametrize("make", [components, heads, neurons])
@pytest.mark.parametrize("token", ["<b>bold", "<script>alert", '<a href="https://example.org">'])
def test_names_are_literal(make, token):
    parts = make(of=token)
    parts.labels = (token,) * len(parts.labels)
    shown = json.dumps(json.loads(attribution(parts).to_json()), ensure_ascii=False)
    assert json.dumps(token, ensure_ascii=False)[1:-1] not in shown


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"values": torch.ones(6)}, InputError, r"\[example, part\], with something on each; \[6\] came"),
        ({"values": torch.ones(0, 6)}, InputError, r"\[0, 6\] came"),
        ({"values": torch.ones(3, 5)}, InputError, "there are 5 parts and 6 labels"),
        ({"kinds": ("embed",)}, InputError, "there are 6 parts and 1 kind$"),
        ({"layers": torch.ones(2)}, InputError, "6 parts and 2 layers"),
        ({"values": "many"}, KindError, "not str"),
    ],
)
def test_what_does_not_fit_is_said(changes, error, says):
    with pytest.raises(error, match=says):
        attribution(components(**changes))


def test_examples_that_there_are_not():
    for wrong in (3, -1):
        with pytest.raises(InputError, match=f"no example {wrong}: 3 examples came"):
            attribution(components(), example=wrong)
    for wrong in (True, 1.0, "first"):
        with pytest.raises(KindError, match="its number is wanted"):
            attribution(components(), example=wrong)
