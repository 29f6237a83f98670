"""Every sweep is the naive one: for each cell a full forward of a transformers model, with plain PyTorch hooks."""

import pytest
import torch
from exactness import (
    CLEAN,
    CORRUPTED,
    METRICS,
    OTHERS,
    SITES,
    TABLES,
    both,
    case,
    check_patching,
    close,
    forms,
    in_place_of,
    in_turn,
    measured,
    something_moves,
)
from plain_places import FAMILIES

import workbench as wb

# Of the sites that a sweep may be about, those that no module takes or gives, and no softmax.
BEYOND_HOOKS = {
    f"{norm}.{value}"
    for norm in ("ln1", "ln2", "ln1_post", "ln2_post", "ln_final")
    for value in ("scale", "normalized")
} | {"attn.rot_q", "attn.rot_k", "attn.sink"}
BEYOND_HOOKS_OF = {
    "gptj": {"attn_in", "mlp_in"},
    "gpt_oss": {"attn.attn_scores", "mlp.router_logits"},
    "deepseek_v2": {"mlp.router_logits"},
    "deepseek_v3": {"mlp.router_logits"},
}


@pytest.mark.parametrize("family", FAMILIES)
def test_every_site_is_here(family):
    """A new site needs a place in the tables."""
    model, plain = both(family)
    here = {model.sites.select(site)[0].short for site in (*plain.places.inside, *plain.places.outside)}
    beyond = BEYOND_HOOKS | BEYOND_HOOKS_OF.get(family.partition(":")[0], set())
    assert not here & beyond
    assert {site.short for site in model.sites} - beyond == here


def patchings():
    """Of each site the finest form and another, each in another direction and with another metric."""
    for number, (family, site) in enumerate(SITES):
        every = forms(TABLES[family], site)
        for place, over in enumerate([in_turn(every[:-1], number), every[-1]]):
            direction = ("denoise", "noise")[(number + place) % 2]
            yield case(family, site, over, direction, in_turn(METRICS, number + 3 * place))


@pytest.mark.parametrize(("family", "site", "over", "direction", "metric"), list(patchings()))
def test_patching(family, site, over, direction, metric):
    check_patching(family, site, over, metric, direction)


@pytest.mark.parametrize("family", ["mistral: sliding", "gpt_oss: windows in turn, yarn that is not truncated"])
def test_patterns_entry_by_entry(family):
    check_patching(family, "pattern", ("layer", "head", "query", "key"), "log probability")


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(("site", "over"), [("resid_pre", ("layer", "pos")), ("v", ("layer", "kv_head"))])
@pytest.mark.parametrize("family", ["gpt2: tied", "gemma2: capped, a window in the first of two layers"])
def test_metrics(family, site, over, metric):
    check_patching(family, site, over, metric, memory=100_000)


def ablations():
    """To patch whole vectors before a norm is to patch them behind it, but a mean is not, so every site sees one."""
    for number, (family, site) in enumerate(SITES):
        for place, kind in enumerate(["mean", *{0: ["zero"], 2: ["resample"]}.get(number % 5, [])]):
            kind = "resample" if (site, kind) == ("attn_scores", "zero") else kind  # which would let the future in
            over = in_turn(forms(TABLES[family], site), number // 3 + place)
            yield case(family, site, over, kind, in_turn(METRICS, number + place))


@pytest.mark.parametrize(("family", "site", "over", "kind", "metric"), list(ablations()))
def test_ablation(family, site, over, kind, metric):
    model, plain = both(family)
    ours, by_hand = METRICS[metric]
    reference = None if kind == "zero" else OTHERS
    r = wb.ablate(model, CLEAN, ours, site, kind, reference, over, progress=False, seed=3)
    values = measured(by_hand, plain.sweep(CLEAN, site, over, in_place_of(plain, site, kind)))
    clean = by_hand(plain.run(CLEAN))
    assert r.axes == over
    assert close(r.values, values)
    assert close(r.clean, clean)
    assert something_moves(values, clean)


# Sites in no layer

OUTSIDE = [(family, site) for family, table in TABLES.items() for site in table.outside]


def in_no_layer():
    kinds = ["denoise", "mean", "noise", "zero", "resample"]
    for number, (family, site) in enumerate(OUTSIDE):
        for place, over in enumerate([("pos",), ()]):
            yield case(family, site, over, in_turn(kinds, number + 3 * place), in_turn(METRICS, number + 5 * place))


@pytest.mark.parametrize(("family", "site", "over", "kind", "metric"), list(in_no_layer()))
def test_sites_in_no_layer(family, site, over, kind, metric):
    model, plain = both(family)
    ours, by_hand = METRICS[metric]
    if kind in ("denoise", "noise"):
        base, other = (CORRUPTED, CLEAN) if kind == "denoise" else (CLEAN, CORRUPTED)
        r = wb.activation_patching(model, CLEAN, CORRUPTED, ours, site, over, kind, progress=False)
        new = plain.values(other, site)
    else:
        base, new = CLEAN, in_place_of(plain, site, kind)
        r = wb.ablate(model, CLEAN, ours, site, kind, None if kind == "zero" else OTHERS, over, progress=False, seed=3)
    values = measured(by_hand, plain.sweep(base, site, over, new))
    assert r.axes == over
    assert close(r.values, values)
    if kind == "zero":
        assert something_moves(values, r.clean)


@pytest.mark.parametrize(("family", "site"), OUTSIDE)
def test_a_site_in_no_layer_is_swept_over_positions(family, site):
    model, _ = both(family)
    r = wb.activation_patching(model, CLEAN, CORRUPTED, METRICS["difference"][0], site, progress=False)
    assert r.axes == ("pos",)
    if site == "embed":
        assert r.unchanged.tolist() == (CLEAN == CORRUPTED).all(0).tolist()
    if site == "pos_embed":
        assert r.unchanged.all()


# Without some directions


@pytest.mark.parametrize("n_directions", [1, 2])
@pytest.mark.parametrize("family", ["gpt2: tied", "olmo2: grouped, tied, wide heads, biases, gelu"])
@pytest.mark.parametrize(("site", "over"), [("resid_mid", ("layer", "pos")), ("z", ("layer", "head")), ("v", ("pos",))])
def test_projecting_out(family, site, over, n_directions):
    """By the shares of the directions that fit best. In all layers at once, each from what it has by then."""
    model, plain = both(family)
    width = next(iter(plain.values(CLEAN, site).values())).shape[-1]
    directions = torch.randn(n_directions, width, generator=torch.Generator().manual_seed(6))

    def without(value):
        shares = torch.linalg.lstsq(directions.T, value.reshape(-1, width).T).solution
        return value - (directions.T @ shares).T.view(value.shape)

    ours, by_hand = METRICS["log probability"]
    given = directions if n_directions > 1 else directions[0]
    r = wb.ablate(model, CLEAN, ours, site, "project", given, over, progress=False)
    values = measured(by_hand, plain.sweep(CLEAN, site, over, dict.fromkeys(plain.layers(site), without)))
    assert close(r.values, values)
    assert something_moves(values, r.clean)
