"""Texts of unequal length: in a padded batch each is a sweep of its own, of the unpadded text alone."""

import pytest
import torch
from exactness import (
    CLEAN,
    CORRUPTED,
    EACH,
    LOGITS,
    N_EXAMPLES,
    N_POS,
    OTHERS,
    SETS,
    SITES,
    TABLES,
    both,
    case,
    close,
    forms,
    in_turn,
    measured,
    something_moves,
)
from words import WORDS, word_tokenizer

import workbench as wb

LENGTHS = (6, 4, 5)
READ = (-1, 2, -2)  # where a metric reads each text
LABELS = {"changed": [2, -1, 3], "second": 1}


def padded(tokens, side, lengths=LENGTHS):
    """[text, column], and a mask; what stands where there is no token must not matter."""
    batch, mask = torch.full((len(tokens), N_POS), 11), torch.zeros(len(tokens), N_POS, dtype=torch.long)
    for row, length in enumerate(lengths):
        batch[row, columns_of(length, side)] = tokens[row, :length]
        mask[row, columns_of(length, side)] = 1
    return batch, mask


def columns_of(length, side):
    return torch.arange(length) + (N_POS - length if side == "left" else 0)


def columns_read(side):
    return [int(columns_of(length, side)[read]) for length, read in zip(LENGTHS, READ, strict=True)]


def surprise(logits, row, tokens):
    return torch.nn.functional.cross_entropy(logits[:-1], tokens[row, 1 : LENGTHS[row]])


# Ours, for a side of padding; and written out over the logits [pos, vocab] of one text alone.
METRICS = {
    "difference": (
        lambda side: wb.logit_diff([3, 4, 5], 7, pos=READ),
        lambda logits, row, side: logits[READ[row], 3 + row] - logits[READ[row], 7],
    ),
    "log probability of a set": (
        lambda side: wb.logprob(SETS[0]),
        lambda logits, row, side: logits[-1].softmax(-1)[SETS[0][row]].sum().log(),
    ),
    "divergence": (
        lambda side: wb.kl_from(LOGITS, pos=READ),
        lambda logits, row, side: torch.nn.functional.kl_div(
            logits[READ[row]].log_softmax(-1),
            LOGITS[row, columns_read(side)[row]].log_softmax(-1),
            log_target=True,
            reduction="sum",
        ),
    ),
    "any function": (
        lambda side: lambda logits: logits[EACH, columns_read(side)].log_softmax(-1)[:, 5],
        lambda logits, row, side: logits[READ[row]].log_softmax(-1)[5],
    ),
}
LOSS = (lambda side: wb.loss(*padded(CLEAN, side)), lambda logits, row, side: surprise(logits, row, CLEAN))


def check(r, over, side, runs, by_hand):
    """runs: of a text, by number, the logits of the base run and of the cells [1, *axes, pos, vocab]."""
    moves = []
    for row, length in enumerate(LENGTHS):

        def measure(logits, row=row):
            return by_hand(logits[0], row, side)[None]

        base, cells = runs(row, length)
        values = measured(measure, cells)
        assert close(r.values[row], in_columns(values[0], over, columns_of(length, side)))
        moves.append(something_moves(values, measure(base)))
    assert any(moves)


def in_columns(values, over, columns):
    """Values of one text [*axes] as those of a batch, NaN where the text has no token."""
    for axis, word in enumerate(over):
        if word in ("pos", "query", "key"):
            shape = list(values.shape)
            shape[axis] = N_POS
            values = values.new_full(shape, torch.nan).index_copy(axis, columns, values)
    return values


def alone(tokens, row):
    return tokens[row : row + 1, : LENGTHS[row]]


# What is changed in every run: of ours, and the same with plain hooks.
HOOKS = {
    "as it is": ([], lambda plain: []),
    "a function": (
        [("resid_pre", lambda value, at: value.tanh())],
        lambda plain: [("resid_pre", layer, torch.tanh_) for layer in plain.layers("resid_pre")],
    ),
    "an intervention": (
        [wb.zero("z", layers=0, heads=1), wb.scale("resid_post", 2.0)],
        lambda plain: [
            ("z", 0, lambda value: value[:, :, 1].zero_()),
            *[("resid_post", layer, lambda value: value.mul_(2.0)) for layer in plain.layers("resid_post")],
        ],
    ),
}
SOME = ["resid_pre", "attn_in", "attn_out", "k", "kv_latent", "pattern", "z", "mlp_in", "expert_weights"]


def patchings():
    here = [(family, site) for family, site in SITES if site in SOME][::2]
    for number, (family, site) in enumerate(here):
        over, direction = in_turn(forms(TABLES[family], site), number), in_turn(["denoise", "noise"], number // 2)
        side = in_turn(["left", "right"], number + number // 5)
        hooks = in_turn(HOOKS if "layer" in over else ["as it is", "an intervention"], number // 3)
        yield case(family, site, over, direction, side, in_turn(METRICS, number), hooks)


@pytest.mark.parametrize(("family", "site", "over", "direction", "side", "metric", "hooks"), list(patchings()))
def test_patching(family, site, over, direction, side, metric, hooks):
    model, plain = both(family)
    same = HOOKS[hooks][1](plain)
    ours, by_hand = METRICS[metric]
    (clean, mask), (corrupted, _) = padded(CLEAN, side), padded(CORRUPTED, side)
    options = {"attention_mask": mask, "progress": False, "hooks": HOOKS[hooks][0]}
    r = wb.activation_patching(model, clean, corrupted, ours(side), site, over, direction, **options)
    base, other = (CORRUPTED, CLEAN) if direction == "denoise" else (CLEAN, CORRUPTED)

    def runs(row, length):
        text, new = alone(base, row), plain.values(alone(other, row), site, *same)
        return plain.run(text, *same), plain.sweep(text, site, over, new, *same)

    check(r, over, side, runs, by_hand)
    for values, tokens in ((r.clean, CLEAN), (r.corrupted, CORRUPTED)):
        own = [by_hand(plain.run(alone(tokens, row), *same)[0], row, side) for row in range(N_EXAMPLES)]
        assert close(values, torch.stack(own))


def labelled():
    for number, family in enumerate(family for family, table in TABLES.items() if "resid_mid" in table.inside):
        site, direction = in_turn(["resid_mid", "z", "mlp_out"], number), in_turn(["denoise", "noise"], number // 2)
        yield case(family, site, direction, in_turn(["left", "right"], number))


@pytest.mark.parametrize(("family", "site", "direction", "side"), list(labelled()))
def test_labels_count_real_tokens(family, site, direction, side):
    model, plain = both(family)
    (clean, mask), (corrupted, _) = padded(CLEAN, side), padded(CORRUPTED, side)
    over = ("layer", "label")
    options = {"positions": LABELS, "attention_mask": mask, "progress": False}
    metric = wb.logit_diff(4, 7, pos="changed")
    r = wb.activation_patching(model, clean, corrupted, metric, site, over, direction, **options)
    base, other = (CORRUPTED, CLEAN) if direction == "denoise" else (CLEAN, CORRUPTED)

    def runs(row, length):
        text, new = alone(base, row), plain.values(alone(other, row), site)
        labels = [torch.tensor([LABELS["changed"][row] % length]), torch.tensor([1])]
        return plain.run(text), plain.sweep(text, site, over, new, label=labels)

    check(r, over, side, runs, lambda logits, row, side: (logits[:, 4] - logits[:, 7])[LABELS["changed"][row]])


# Ablation, by what stands at the same positions in a reference set whose texts differ in length too

OF_OTHERS = (6, 5, 6, 4, 6)
SPOKEN = OTHERS % len(WORDS)


def drawn(seed):
    return torch.randint(len(OTHERS), (N_EXAMPLES,), generator=torch.Generator().manual_seed(seed)).tolist()


def long_enough(texts):
    return all(OF_OTHERS[text] >= length for text, length in zip(texts, LENGTHS, strict=True))


SEED = next(seed for seed in range(100) if long_enough(drawn(seed)) and len(set(drawn(seed))) == N_EXAMPLES)


def ablations():
    here = [(family, site) for family, site in SITES if site in SOME and site != "pattern"][1::2]
    for number, (family, site) in enumerate(here):
        over, kind = in_turn(forms(TABLES[family], site), number // 2), in_turn(["zero", "mean", "resample"], number)
        side = in_turn(["left", "right"], number // 3)
        yield case(family, site, over, kind, side, in_turn([*METRICS, "loss"], number + number // 5))


@pytest.mark.parametrize(("family", "site", "over", "kind", "side", "metric"), list(ablations()))
def test_ablation(family, site, over, kind, side, metric, monkeypatch):
    model, plain = both(family)
    monkeypatch.setattr(model, "tokenizer", word_tokenizer())  # which pads texts on the left
    others = [" ".join(WORDS[i] for i in text[:n]) for text, n in zip(SPOKEN.tolist(), OF_OTHERS, strict=True)]
    ours, by_hand = METRICS.get(metric, LOSS)
    clean, mask = padded(CLEAN, side)
    options = {"attention_mask": mask, "progress": False, "seed": SEED}
    r = wb.ablate(model, clean, ours(side), site, kind, None if kind == "zero" else others, over, **options)

    def runs(row, length):
        text = alone(CLEAN, row)
        return plain.run(text), plain.sweep(text, site, over, in_place_of(plain, site, kind, row))

    check(r, over, side, runs, by_hand)


def in_place_of(plain, site, kind, row):
    """By layer, what an ablation of one text puts at a site [1 pos ...]."""
    length = LENGTHS[row]
    if kind == "zero":
        return dict.fromkeys(plain.layers(site), torch.zeros_like)
    texts = [SPOKEN[text : text + 1, :n] for text, n in enumerate(OF_OTHERS)]
    if kind == "resample":
        return {layer: value[:, :length] for layer, value in plain.values(texts[drawn(SEED)[row]], site).items()}
    each = [plain.values(text, site) for text in texts]
    return {
        layer: torch.stack(
            [
                torch.stack([values[layer][0, pos] for values in each if values[layer].shape[1] > pos]).mean(0)
                for pos in range(length)
            ]
        )[None]
        for layer in each[0]
    }
