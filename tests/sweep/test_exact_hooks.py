"""What is changed beside the cell, in every run: hooks, of a view of the model or given to the sweep, act first."""

import pytest
import torch
from exactness import (
    CLEAN,
    METRICS,
    N_EXAMPLES,
    OTHERS,
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

import workbench as wb

# Functions: the site, and what its value becomes

FUNCTIONS = {
    "a longer stream": [("resid_pre", lambda value: 1.5 * value)],
    "rows apart": [("mlp_out", lambda value: value * torch.arange(1.0, len(value) + 1).view(-1, 1, 1))],
    "heads in reverse": [("z", lambda value: value.flip(2))],
    "the other way round": [("embed", lambda value: -value)],
    "a look at the future": [("pattern", lambda value: (value + value.flip(-1)) / 2)],
    "two": [("resid_post", lambda value: value.roll(1, 1)), ("q", lambda value: value.tanh())],
}
SWEPT = ["z", "resid_pre", "v", "pattern", "embed", "attn_out"]


def given(hooks):
    """As ours take them."""
    return [(site, lambda value, at, change=change: change(value)) for site, change in hooks]


def edits(plain, hooks):
    """As plain hooks do, in every layer that has the site."""
    return [
        (site, layer, lambda value, change=change: value.copy_(change(value.clone())))
        for site, change in hooks
        for layer in plain.layers(site)
    ]


def axes_of(table, site, number):
    return in_turn([("pos",), ()] if site in table.outside else forms(table, site), number)


def axes_by_layer(table, site, number):
    every = [over for over in forms(table, site) if "layer" in over]
    return in_turn([("pos",), ()] if site in table.outside else every, number)


def functions():
    """Three of them in each family, at sites in turn."""
    for number, (family, table) in enumerate(TABLES.items()):
        for place, name in list(enumerate(FUNCTIONS))[number % 2 :: 2]:
            site = in_turn([s for s in SWEPT if s in (*table.inside, *table.outside)], number + place)
            over = axes_by_layer(table, site, number + place)
            yield case(family, site, over, name, in_turn(METRICS, number + place))


@pytest.mark.parametrize(("family", "site", "over", "name", "metric"), list(functions()))
def test_functions(family, site, over, name, metric):
    _, plain = both(family)
    direction = in_turn(["denoise", "noise"], len(name))
    hooks, same = given(FUNCTIONS[name]), edits(plain, FUNCTIONS[name])
    check_patching(family, site, over, metric, direction, edits=same, hooks=hooks)


@pytest.mark.parametrize(
    "over", [("layer", "key"), ("head", "key"), ("query", "layer"), ("layer", "head", "query", "key")]
)
@pytest.mark.parametrize("family", ["mistral: sliding"])
def test_patterns_of_a_view(family, over):
    hooks = FUNCTIONS["a longer stream"]
    same = edits(both(family)[1], hooks)
    check_patching(family, "pattern", over, "log probability", edits=same, hooks=given(hooks))


@pytest.mark.parametrize("kind", ["zero", "mean", "resample"])
@pytest.mark.parametrize("name", ["a longer stream", "a look at the future", "two"])
@pytest.mark.parametrize(
    ("family", "site", "over"),
    [
        ("mistral: sliding", "z", ("layer", "head")),
        ("olmo2: grouped, tied, wide heads, biases, gelu", "mlp_out", ("layer", "pos")),
        ("mixtral: sliding", "k", ("pos", "kv_head")),
    ],
)
def test_ablation_of_a_view(family, site, over, kind, name):
    model, plain = both(family)
    ours, by_hand = METRICS["difference of sets"]
    hooks, same = given(FUNCTIONS[name]), edits(plain, FUNCTIONS[name])
    reference = None if kind == "zero" else OTHERS
    r = wb.ablate(model.with_hooks(hooks), CLEAN, ours, site, kind, reference, over, progress=False, seed=3)
    new = in_place_of(plain, site, kind, same)
    values = measured(by_hand, plain.sweep(CLEAN, site, over, new, *same))
    assert close(r.values, values)
    assert close(r.clean, by_hand(plain.run(CLEAN, *same)))
    assert something_moves(values, r.clean)


# Interventions: declared, so that a cell is still no more than what it reaches

THIRD = OTHERS[:N_EXAMPLES]
DIRECTION = torch.randn(24, generator=torch.Generator().manual_seed(8))
DRAWN = torch.randint(len(OTHERS), (N_EXAMPLES,), generator=torch.Generator().manual_seed(5))


def every(plain, site, change):
    return [(site, layer, change) for layer in plain.layers(site)]


def at(positions, change):
    def edit(value):
        value[:, positions] = change(value[:, positions])

    return edit


def along(value):
    """The part of vectors along the direction."""
    return (value @ DIRECTION)[..., None] / (DIRECTION @ DIRECTION) * DIRECTION


def put(plain, site, layer, tokens, where):
    """A change to what a run of other tokens has there."""
    source = plain.values(tokens, site)[layer]

    def change(value):
        value[where] = source[where]

    return (site, layer, change)


def means(plain, site, layer):
    source = plain.values(OTHERS, site)[layer].mean(0)
    return lambda value: value[:, :, 0].copy_(source[:, 0].expand_as(value[:, :, 0]))


INTERVENTIONS = {
    "a head zeroed": (
        lambda model: [wb.zero("z", layers=0, heads=[1])],
        lambda plain: [("z", 0, lambda value: value[:, :, 1].zero_())],
    ),
    "some positions halved": (
        lambda model: [wb.scale("mlp_out", 0.5, positions=[1, -1])],
        lambda plain: every(plain, "mlp_out", at([1, -1], lambda value: 0.5 * value)),
    ),
    "steered": (
        lambda model: [wb.steer("resid_post", DIRECTION, 2.0, layers=0)],
        lambda plain: [("resid_post", 0, lambda value: value.add_(2 * DIRECTION))],
    ),
    "without a direction": (
        lambda model: [wb.project_out("resid_pre", DIRECTION, layers=-1)],
        lambda plain: [("resid_pre", len(plain.blocks) - 1, lambda value: value.sub_(along(value)))],
    ),
    "patched": (
        lambda model: [wb.patch(model.run_with_cache(THIRD)[1], "attn_out", layers=0, positions=[3, 4])],
        lambda plain: [put(plain, "attn_out", 0, THIRD, (slice(None), [3, 4]))],
    ),
    "a frozen pattern": (
        lambda model: [wb.freeze(model.run_with_cache(CLEAN)[1], "pattern", layers=1, heads=0)],
        lambda plain: [put(plain, "pattern", 1, CLEAN, (slice(None), 0))],
    ),
    "a usual head": (
        lambda model: [wb.mean(model.run_with_cache(OTHERS)[1], "z", layers=1, heads=0)],
        lambda plain: [("z", 1, means(plain, "z", 1))],
    ),
    "another text's keys": (
        lambda model: [wb.resample(model.run_with_cache(OTHERS)[1], "attn_in", layers=1, seed=5)],
        lambda plain: [put(plain, "attn_in", 1, OTHERS[DRAWN], slice(None))],
    ),
    "an embedding steered": (
        lambda model: [wb.steer("embed", DIRECTION, 0.5, positions=[0, 3])],
        lambda plain: [("embed", None, at([0, 3], lambda value: value + 0.5 * DIRECTION))],
    ),
    "one after the other": (
        lambda model: [wb.scale("z", 3.0, heads=0), wb.zero("z", positions=2), wb.steer("mlp_out", DIRECTION)],
        lambda plain: [
            *every(plain, "z", lambda value: value[:, :, 0].mul_(3.0)),
            *every(plain, "z", lambda value: value[:, 2].zero_()),
            *every(plain, "mlp_out", lambda value: value.add_(DIRECTION)),
        ],
    ),
}


def interventions():
    families = [name for name, table in TABLES.items() if {"attn_in", "mlp_out"} <= {*table.inside}]
    families = [name for name in families if not name.startswith("phi3")]  # which is wider than the direction
    for number, family in enumerate(families):
        table = TABLES[family]
        for place, name in list(enumerate(INTERVENTIONS))[number % 3 :: 3]:
            site = in_turn([s for s in SWEPT if s in (*table.inside, *table.outside)], number + place)
            over = axes_of(table, site, number + place)
            yield case(family, site, over, name, in_turn(METRICS, number + place))


@pytest.mark.parametrize(("family", "site", "over", "name", "metric"), list(interventions()))
def test_interventions(family, site, over, name, metric):
    model, plain = both(family)
    hooks, same = INTERVENTIONS[name]
    direction = in_turn(["denoise", "noise"], len(name) + len(site))
    check_patching(family, site, over, metric, direction, edits=same(plain), hooks=hooks(model))


def test_a_pattern_of_a_run_that_looked_ahead():
    """A declared intervention, with weights on what is to come: what a change reaches lies before it, too."""
    model, plain = both("gpt2: tied")
    ahead = [("pattern", lambda value: value.flip(-1))]
    _, cache = model.run_with_cache(THIRD, "pattern", hooks=given(ahead))
    source = plain.values(THIRD, "pattern", *edits(plain, ahead))[1]
    same, hooks = [("pattern", 1, lambda value: value.copy_(source))], [wb.patch(cache, "pattern", layers=1)]
    for metric in ("difference at other positions", "any function"):
        check_patching("gpt2: tied", "resid_pre", ("layer", "pos"), metric, edits=same, hooks=hooks)
