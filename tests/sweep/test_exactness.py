"""Every sweep is the naive one: for each cell a full forward of a transformers model, with plain PyTorch hooks."""

from functools import cache

import pytest
import torch
from cases import ALL
from parity import VOCAB, tiny
from plain_hooks import PlainHooks
from plain_places import FAMILIES
from random_models import some_tokens

import workbench as wb

N_EXAMPLES, N_POS = 3, 6
SHARED = (0, 1, 3)  # how many tokens the two texts of each pair begin with alike
CLEAN, CORRUPTED = some_tokens(N_EXAMPLES, N_POS, VOCAB, seed=1), some_tokens(N_EXAMPLES, N_POS, VOCAB, seed=2)
for example, shared in enumerate(SHARED):
    CORRUPTED[example, :shared] = CLEAN[example, :shared]
    CORRUPTED[example, shared] = (CLEAN[example, shared] + 1) % VOCAB
REFERENCE = 3 * torch.randn(N_EXAMPLES, N_POS, VOCAB, generator=torch.Generator().manual_seed(4))
TABLES = {name: places(ALL[name]) for name, places in FAMILIES.items()}


@cache
def both(family):
    """A model of ours and the same one of transformers."""
    theirs = tiny(ALL[family])
    return wb.from_huggingface(theirs), PlainHooks(theirs, TABLES[family])


# Metrics, ours and written out over the logits [example, pos, vocab] of a run.

EACH = torch.arange(N_EXAMPLES)
SETS = ([[3, 8], [4], [5, 9, 11]], [[7], [1, 2], [6]])


def mean_logit(logits, pos, sets):
    return torch.stack([logits[i, pos[i], answers].mean() for i, answers in enumerate(sets)])


def divergence(logits, pos):
    expected = REFERENCE[:, pos].log_softmax(-1)
    return (expected.exp() * (expected - logits[:, pos].log_softmax(-1))).sum(-1)


METRICS = {
    "difference": (
        wb.logit_diff([3, 4, 5], 7),
        lambda logits: logits[EACH, -1, [3, 4, 5]] - logits[:, -1, 7],
    ),
    "difference at other positions": (
        wb.logit_diff(9, [3, 4, 5], pos=[3, -1, 4]),
        lambda logits: logits[EACH, [3, 5, 4], 9] - logits[EACH, [3, 5, 4], [3, 4, 5]],
    ),
    "difference of sets": (
        wb.logit_diff(*SETS, pos=[-1, -2, -1]),
        lambda logits: mean_logit(logits, [-1, -2, -1], SETS[0]) - mean_logit(logits, [-1, -2, -1], SETS[1]),
    ),
    "log probability": (
        wb.logprob([3, 4, 5], pos=[-1, 4, 5]),
        lambda logits: logits.log_softmax(-1)[EACH, [5, 4, 5], [3, 4, 5]],
    ),
    "probability of a set": (
        wb.logprob(SETS[0]),
        lambda logits: mean_logit(logits.softmax(-1), [-1] * 3, SETS[0]).mul(torch.tensor([2, 1, 3])).log(),
    ),
    "divergence": (wb.kl_from(REFERENCE, pos=-2), lambda logits: divergence(logits, -2)),
    "any function": (
        lambda logits: logits.log_softmax(-1)[:, 1:, 5].sum(1),
        lambda logits: logits.log_softmax(-1)[:, 1:, 5].sum(1),
    ),
}


def measured(by_hand, logits):
    """[example, *axes] of logits [example, *axes, pos, vocab]."""
    cells = logits.flatten(1, -3)
    return torch.stack([by_hand(cells[:, cell]) for cell in range(cells.shape[1])], 1).unflatten(1, logits.shape[1:-2])


def close(ours, theirs):
    """Within 1e-4, of the largest value where that is large; NaN where the other is."""
    assert ours.shape == theirs.shape
    assert torch.equal(ours.isnan(), theirs.isnan())
    largest = theirs.nan_to_num().abs().max().clamp(min=1.0)
    return bool(((ours - theirs).nan_to_num().abs() <= 1e-4 * largest).all())


def something_moves(values, base):
    """Far more than what is let pass."""
    moved = (values - base.view(-1, *[1] * (values.ndim - 1))).nan_to_num().abs().max()
    return bool(moved > 1e-2 * values.nan_to_num().abs().max())


# Every site that hooks reach, in every family


# Of the sites that a sweep may be about, those that no module takes or gives, and no softmax.
BEYOND_HOOKS = {
    *(f"{norm}.{inside}" for norm in ("ln1", "ln2", "ln1_post", "ln2_post") for inside in ("scale", "normalized")),
    *("attn.rot_q", "attn.rot_k", "attn.sink"),
}
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
    here = {model.sites.select(site)[0].short for site in plain.places.inside}
    beyond = BEYOND_HOOKS | BEYOND_HOOKS_OF.get(family.partition(":")[0], set())
    assert not here & beyond
    assert {site.short for site in model.sites if site.layer is not None} - beyond == here


def forms(table, site):
    """Axes that a site may be swept over, the finest last."""
    words = table[site].view.axes
    along = "query" if "query" in words else "pos"
    unit = next((word for word in words if word in ("head", "kv_head", "expert", "d_mlp")), None)
    if along == "query":
        others = [("layer", "head"), ("layer", "key"), ("head", "key"), ("head",), ("query",), ("layer",)]
        return [*others, ("layer", "head", "query")]
    if unit == "d_mlp":
        return [("layer",), ("pos",), ("layer", unit), ("layer", "pos")]
    if unit:
        others = [("layer", unit), ("layer", "pos"), ("pos", unit), (unit,), ("pos",), ("layer",)]
        return [*others, ("layer", "pos", unit)]
    return [("layer",), ("pos",), ("layer", "pos")]


def in_turn(choices, number):
    return list(choices)[number % len(choices)]


def case(*values):
    """Its name is what it is about."""
    return pytest.param(*values, id=", ".join(" x ".join(v) if isinstance(v, tuple) else v for v in values))


INSIDE = [(family, site) for family, table in TABLES.items() for site in table.inside]


def grids():
    """Of each site the finest form and another, each in another direction and with another metric."""
    for number, (family, site) in enumerate(INSIDE):
        every = forms(TABLES[family], site)
        for place, over in enumerate([in_turn(every[:-1], number), every[-1]]):
            direction = ("denoise", "noise")[(number + place) % 2]
            yield case(family, site, over, direction, in_turn(METRICS, number + 2 * place))


@pytest.mark.parametrize(("family", "site", "over", "direction", "metric"), list(grids()))
def test_patching(family, site, over, direction, metric):
    check_patching(family, site, over, metric, direction)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(("site", "over"), [("resid_pre", ("layer", "pos")), ("v", ("layer", "kv_head"))])
@pytest.mark.parametrize("family", ["gpt2: tied", "gemma2: capped, a window in the first of two layers"])
def test_metrics(family, site, over, metric):
    check_patching(family, site, over, metric)


def check_patching(family, site, over, metric, direction="denoise", before=(), only=None, **options):
    """Against the runs of both texts and of every cell.

    before: hooks, each (site, function of the value).
    only:   what is changed at most, by axis; options say the same to ours.
    """
    model, plain = both(family)
    ours, by_hand = METRICS[metric]
    earlier = edits(plain, before)
    base, other = (CORRUPTED, CLEAN) if direction == "denoise" else (CLEAN, CORRUPTED)
    view = with_functions(model, before)
    r = wb.activation_patching(view, CLEAN, CORRUPTED, ours, site, over, direction, progress=False, **options)
    new = plain.values(other, site, *earlier)
    values = measured(by_hand, plain.sweep(base, site, over, new, *earlier, **(only or {})))
    assert r.axes == over
    assert close(r.values, values)
    assert close(r.clean, by_hand(plain.run(CLEAN, *earlier)))
    assert close(r.corrupted, by_hand(plain.run(CORRUPTED, *earlier)))
    assert something_moves(values, by_hand(plain.run(base, *earlier)))


def with_functions(model, hooks):
    return model.with_hooks([(site, lambda value, at, change=change: change(value)) for site, change in hooks])


def edits(plain, hooks):
    """The same for transformers, in every layer that has the site."""
    return [
        (site, layer, lambda value, change=change: value.copy_(change(value.clone())))
        for site, change in hooks
        for layer in plain.layers(site)
    ]


PARTS = [
    ("llama: grouped, untied", "resid_mid", ("layer", "pos"), {"layer": [2, 0], "pos": [5, 1]}),
    ("llama: grouped, untied", "k", ("layer", "kv_head"), {"kv_head": [1], "pos": [2, 3, 5]}),
    ("llama: grouped, untied", "z", ("layer",), {"head": [5, 0, 2], "pos": [1, 4]}),
    ("llama: grouped, untied", "q", ("layer", "pos"), {"head": [1, 3], "pos": [5, 4, 3]}),
    ("mistral: sliding", "v", ("layer", "pos", "kv_head"), {"layer": [0], "pos": [2, 3]}),
    ("mistral: sliding", "pattern", ("layer", "head"), {"head": [3, 0], "query": [3, 5]}),
    ("olmo2: grouped, tied, wide heads, biases, gelu", "q", ("head",), {"layer": [1], "pos": [3, 5]}),
    ("gpt_neox: parallel, a quarter turns", "mlp_in", ("layer",), {"pos": [0, 4]}),
    ("deepseek_v3: neighbours turn, the best groups, yarn", "kv_latent", ("pos",), {"layer": [1], "pos": [4, 0]}),
]


@pytest.mark.parametrize(("family", "site", "over", "only"), PARTS)
def test_parts_of_a_grid(family, site, over, only):
    words = {"layer": "layers", "pos": "positions", "query": "positions", "head": "heads", "kv_head": "heads"}
    options = {words[axis]: chosen for axis, chosen in only.items()}
    options |= {"layers": sorted(options["layers"])} if "layers" in options else {}
    in_order = only | ({"layer": sorted(only["layer"])} if "layer" in only else {})
    check_patching(family, site, over, "difference", only=in_order, **options)


# Ablation


REFERENCE_TEXTS = some_tokens(5, N_POS, VOCAB, seed=9)


def ablations():
    for number, (family, site) in enumerate(INSIDE):
        kind = in_turn(["zero", "mean", "resample"], number)
        kind = "mean" if (site, kind) == ("attn_scores", "zero") else kind  # which would let the future in
        yield case(family, site, in_turn(forms(TABLES[family], site), number // 3), kind, in_turn(METRICS, number))


@pytest.mark.parametrize(("family", "site", "over", "kind", "metric"), list(ablations()))
def test_ablation(family, site, over, kind, metric):
    model, plain = both(family)
    ours, by_hand = METRICS[metric]
    reference = None if kind == "zero" else REFERENCE_TEXTS
    r = wb.ablate(model, CLEAN, ours, site, kind, reference, over, progress=False, seed=3)
    values = measured(by_hand, plain.sweep(CLEAN, site, over, in_place_of(plain, site, kind)))
    clean = by_hand(plain.run(CLEAN))
    assert r.axes == over
    assert close(r.values, values)
    assert close(r.clean, clean)
    assert something_moves(values, clean)


def in_place_of(plain, site, kind):
    """By layer, what an ablation puts at a site."""
    if kind == "zero":
        return {layer: torch.zeros_like(value) for layer, value in plain.values(CLEAN, site).items()}
    found = plain.values(REFERENCE_TEXTS, site)
    if kind == "mean":
        return {layer: value.mean(0).expand(N_EXAMPLES, *value.shape[1:]) for layer, value in found.items()}
    drawn = torch.randint(5, (N_EXAMPLES,), generator=torch.Generator().manual_seed(3))
    return {layer: value[drawn] for layer, value in found.items()}


# Texts of unequal length


LENGTHS = (6, 4, 5)
READ = (-1, 2, -2)  # where a metric reads each text


def padded(tokens, side):
    """[example, column], and a mask; what stands where there is no token must not matter."""
    columns = [columns_of(length, side) for length in LENGTHS]
    batch, mask = torch.full((N_EXAMPLES, N_POS), 11), torch.zeros(N_EXAMPLES, N_POS, dtype=torch.long)
    for row, text, column in zip(range(N_EXAMPLES), tokens, columns, strict=True):
        batch[row, column] = text[: len(column)]
        mask[row, column] = 1
    return batch, mask


def columns_of(length, side):
    return torch.arange(length) + (N_POS - length if side == "left" else 0)


def columns_read(side):
    return [int(columns_of(length, side)[read]) for length, read in zip(LENGTHS, READ, strict=True)]


# For a side, ours; and what it is of the logits [pos, vocab] of one text alone.
METRICS_OF_A_TEXT = {
    "difference": (
        lambda side: wb.logit_diff([3, 4, 5], 7, pos=READ),
        lambda logits, row, side: logits[READ[row], 3 + row] - logits[READ[row], 7],
    ),
    "log probability of a set": (
        lambda side: wb.logprob(SETS[0]),
        lambda logits, row, side: logits[-1].softmax(-1)[SETS[0][row]].sum().log(),
    ),
    "divergence": (
        lambda side: wb.kl_from(REFERENCE, pos=READ),
        lambda logits, row, side: torch.nn.functional.kl_div(
            logits[READ[row]].log_softmax(-1),
            REFERENCE[row, columns_read(side)[row]].log_softmax(-1),
            log_target=True,
            reduction="sum",
        ),
    ),
    "any function": (
        lambda side: lambda logits: logits[EACH, columns_read(side)].log_softmax(-1)[:, 5],
        lambda logits, row, side: logits[READ[row]].log_softmax(-1)[5],
    ),
}
SITES_OF_TEXTS = ["resid_pre", "attn_in", "attn_out", "k", "kv_latent", "pattern", "z", "mlp_in", "expert_weights"]


def texts():
    here = [(family, site) for family, site in INSIDE if site in SITES_OF_TEXTS]
    for number, (family, site) in enumerate(here):
        over, kind = in_turn(forms(TABLES[family], site), number), in_turn(["denoise", "noise", "zero"], number // 2)
        side = in_turn(["left", "right"], number + number // 6)
        yield case(family, site, over, kind, side, in_turn(METRICS_OF_A_TEXT, number))


@pytest.mark.parametrize(("family", "site", "over", "kind", "side", "metric"), list(texts()))
def test_each_text_of_a_padded_batch_is_a_sweep_of_its_own(family, site, over, kind, side, metric):
    model, plain = both(family)
    ours, by_hand = METRICS_OF_A_TEXT[metric]
    (clean, mask), (corrupted, _) = padded(CLEAN, side), padded(CORRUPTED, side)
    options = {"site": site, "over": over, "progress": False, "attention_mask": mask}
    if kind == "zero":
        r = wb.ablate(model, clean, ours(side), **options)
    else:
        r = wb.activation_patching(model, clean, corrupted, ours(side), direction=kind, **options)
    moves = []
    for row, length in enumerate(LENGTHS):

        def measure(logits, row=row):
            return by_hand(logits[0], row, side)[None]

        of_clean, of_corrupted = CLEAN[row : row + 1, :length], CORRUPTED[row : row + 1, :length]
        base, other = (of_corrupted, of_clean) if kind == "denoise" else (of_clean, of_corrupted)
        new = plain.values(other, site)
        new = {layer: torch.zeros_like(value) for layer, value in new.items()} if kind == "zero" else new
        values = measured(measure, plain.sweep(base, site, over, new))
        moves.append(something_moves(values, measure(plain.run(base))))
        assert close(r.values[row], in_columns(values[0], over, columns_of(length, side)))
        assert close(r.clean[[row]], measure(plain.run(of_clean)))
        if kind != "zero":
            assert close(r.corrupted[[row]], measure(plain.run(of_corrupted)))
    assert any(moves)


def in_columns(values, over, columns):
    """Values of one text [*axes] as those of a batch, NaN where the text has no token."""
    for axis, word in enumerate(over):
        if word in ("pos", "query", "key"):
            shape = list(values.shape)
            shape[axis] = N_POS
            values = values.new_full(shape, torch.nan).index_copy(axis, columns, values)
    return values


# Views: functions of a person's own act first in every run


FUNCTIONS = {
    "a longer stream": [("resid_pre", lambda value: 1.5 * value)],
    "rows apart": [("mlp_out", lambda value: value * torch.arange(1.0, len(value) + 1).view(-1, 1, 1))],
    "heads in reverse": [("z", lambda value: value.flip(2))],
    "the other way round": [("embed", lambda value: -value)],
    "a look at the future": [("pattern", lambda value: (value + value.flip(-1)) / 2)],
    "two": [("resid_post", lambda value: value.roll(1, 1)), ("q", lambda value: value.tanh())],
}


def views():
    for number, family in enumerate(FAMILIES):
        table = TABLES[family]
        for place, name in enumerate(FUNCTIONS):
            site = in_turn([s for s in ("z", "resid_pre", "v", "pattern", "attn_out") if s in table.inside], place)
            over = in_turn(forms(table, site), number + place)
            yield case(family, site, over, name, in_turn(METRICS, number))


@pytest.mark.parametrize(("family", "site", "over", "name", "metric"), list(views()))
def test_views(family, site, over, name, metric):
    check_patching(family, site, over, metric, before=FUNCTIONS[name])
