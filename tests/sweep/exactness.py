"""What the tests of exactness share: models of both kinds, pairs of texts, metrics written out, and the comparison."""

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
DIFFER = ([0, 2, 3], [1, 3], [3])  # where the two texts of each pair do
CLEAN, CORRUPTED = some_tokens(N_EXAMPLES, N_POS, VOCAB, seed=1), some_tokens(N_EXAMPLES, N_POS, VOCAB, seed=1)
for example, places in enumerate(DIFFER):
    CORRUPTED[example, places] = (CLEAN[example, places] + 1 + torch.arange(len(places))) % VOCAB
OTHERS = some_tokens(5, N_POS, VOCAB, seed=9)  # a reference set
LOGITS = 3 * torch.randn(N_EXAMPLES, N_POS, VOCAB, generator=torch.Generator().manual_seed(4))
EACH = torch.arange(N_EXAMPLES)
SETS = ([[3, 8], [4], [5, 9, 11]], [[7], [1, 2], [6]])
ENDING = [CLEAN[0, -2:].tolist(), CLEAN[1, -1:].tolist(), CLEAN[2, -2:].tolist()]  # of both texts of a pair
TABLES = {name: table(ALL[name]) for name, table in FAMILIES.items()}
SITES = [(family, site) for family, table in TABLES.items() for site in table.inside]


@cache
def both(family):
    """A model of ours and the same one of transformers."""
    theirs = tiny(ALL[family])
    return wb.from_huggingface(theirs), PlainHooks(theirs, TABLES[family])


# Metrics: ours, and written out over the logits [example, pos, vocab] of a run


def mean_logit(logits, pos, sets):
    return torch.stack([logits[i, pos[i], answers].mean() for i, answers in enumerate(sets)])


def set_probability(logits, pos, sets):
    return torch.stack([logits[i, pos[i]].softmax(-1)[answers].sum() for i, answers in enumerate(sets)])


def divergence(logits, pos):
    expected = LOGITS[:, pos].log_softmax(-1)
    return (expected.exp() * (expected - logits[:, pos].log_softmax(-1))).sum(-1)


def ending_logprob(logits):
    """Each token is foreseen at the position before it."""
    values = []
    for row, ending in enumerate(ENDING):
        foreseen = logits[row, N_POS - len(ending) - 1 : N_POS - 1].log_softmax(-1)
        each = torch.stack([here[token] for here, token in zip(foreseen, ending, strict=True)])
        values.append(each.sum())
    return torch.stack(values)


def any_function(logits):
    return logits.log_softmax(-1)[:, 1:, 5].sum(1)


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
    "log probability of sets": (
        wb.logprob(SETS[0], pos=-2),
        lambda logits: set_probability(logits, [-2] * 3, SETS[0]).log(),
    ),
    "difference of probabilities": (
        wb.prob_diff([[9, 10], [3], [4]], SETS[1]),
        lambda logits: (
            set_probability(logits, [-1] * 3, [[9, 10], [3], [4]]) - set_probability(logits, [-1] * 3, SETS[1])
        ),
    ),
    "divergence": (wb.kl_from(LOGITS, pos=-2), lambda logits: divergence(logits, -2)),
    "several tokens": (wb.answer_logprob(ENDING), ending_logprob),
    "any function": (any_function, any_function),
}


def measured(by_hand, logits):
    """[example, *axes] of logits [example, *axes, pos, vocab]."""
    if logits.ndim == 3:
        return by_hand(logits)
    cells = logits.flatten(1, -3)
    return torch.stack([by_hand(cells[:, cell]) for cell in range(cells.shape[1])], 1).unflatten(1, logits.shape[1:-2])


# The comparison


def close(ours, theirs):
    """Within 1e-4, of the largest value where that is large; NaN where the other is."""
    assert ours.shape == theirs.shape
    assert torch.equal(ours.isnan(), theirs.isnan())
    largest = theirs.nan_to_num().abs().max().clamp(min=1.0)
    return bool(((ours - theirs).nan_to_num().abs() <= 1e-4 * largest).all())


def something_moves(values, base):
    """Far more than what is let pass."""
    moved = (values - base.view(-1, *[1] * (values.ndim - 1))).nan_to_num().abs().max()
    return bool(moved > 3e-3 * values.nan_to_num().abs().max())


def check_patching(family, site, over, metric, direction="denoise", edits=(), places=None, **options):
    """A sweep of ours and the naive one: the runs of both texts, and of every cell.

    edits:  of transformers' model in every run;  places: on the axes of its sweep. Options say the same to ours.
    """
    model, plain = both(family)
    ours, by_hand = METRICS[metric]
    base, other = (CORRUPTED, CLEAN) if direction == "denoise" else (CLEAN, CORRUPTED)
    r = wb.activation_patching(model, CLEAN, CORRUPTED, ours, site, over, direction, progress=False, **options)
    values = measured(by_hand, plain.sweep(base, site, over, plain.values(other, site, *edits), *edits, **places or {}))
    assert r.axes == over
    assert close(r.values, values)
    assert close(r.clean, by_hand(plain.run(CLEAN, *edits)))
    assert close(r.corrupted, by_hand(plain.run(CORRUPTED, *edits)))
    assert something_moves(values, by_hand(plain.run(base, *edits)))


def in_place_of(plain, site, kind, edits=(), seed=3):
    """By layer, what an ablation of the clean texts puts at a site; edits of every run come first."""
    if kind == "zero":
        return dict.fromkeys(plain.layers(site), torch.zeros_like)
    found = plain.values(OTHERS, site, *edits)
    if kind == "mean":
        return {layer: value.mean(0).expand(N_EXAMPLES, *value.shape[1:]) for layer, value in found.items()}
    drawn = torch.randint(len(OTHERS), (N_EXAMPLES,), generator=torch.Generator().manual_seed(seed))
    return {layer: value[drawn] for layer, value in found.items()}


# Cases, one after another


def forms(table, site):
    """Axes that a site may be swept over, the finest last."""
    words = table[site].view.axes
    along = "query" if "query" in words else "pos"
    unit = next((word for word in words if word in ("head", "kv_head", "expert", "d_mlp")), None)
    if along == "query":
        others = [("layer", "head"), ("layer", "key"), ("head", "key"), ("head",), ("query",), ("layer",), ()]
        return [*others, ("layer", "head", "query")]
    if unit == "d_mlp":
        return [("layer",), ("pos",), ("layer", unit), (), ("layer", "pos")]
    if unit:
        others = [("layer", unit), ("layer", "pos"), ("pos", unit), (unit,), ("pos",), ("layer",), ()]
        return [*others, (unit, "pos", "layer"), ("layer", "pos", unit)]
    return [("layer",), ("pos",), ("pos", "layer"), (), ("layer", "pos")]


def in_turn(choices, number):
    """So that all of one kind meet all of another."""
    return list(choices)[number % len(choices)]


def case(*values):
    """Its name is what it is about."""
    names = [" x ".join(v) or "all at once" if isinstance(v, tuple) else v for v in values]
    return pytest.param(*values, id=", ".join(names))
