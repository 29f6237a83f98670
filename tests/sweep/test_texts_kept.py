"""A sweep's result knows the texts that it was made from, by column, padding told apart from tokens."""

from dataclasses import replace

import pytest
import torch
from random_models import powered, some_tokens
from test_cache import plain_spec
from words import word_tokenizer

import workbench as wb

METRIC = wb.logit_diff(3, 4)
CLEAN, CORRUPTED = some_tokens(2, 5, seed=1), some_tokens(2, 5, seed=2)
MASK = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 0]])


@pytest.fixture(scope="module")
def model():
    return powered(plain_spec())


def by_hand(tokens):
    return [[int(t) if real else -1 for t, real in zip(*row, strict=True)] for row in zip(tokens, MASK, strict=True)]


@pytest.mark.parametrize("direction", ["denoise", "noise"])
def test_patching_keeps_both(model, direction):
    r = wb.activation_patching(
        model, CLEAN, CORRUPTED, METRIC, direction=direction, attention_mask=MASK, progress=False
    )
    assert r.clean_tokens.tolist() == by_hand(CLEAN)
    assert r.corrupted_tokens.tolist() == by_hand(CORRUPTED)


def test_ablation_has_one(model):
    r = wb.ablate(model, CLEAN, METRIC, attention_mask=MASK, progress=False)
    assert r.clean_tokens.tolist() == by_hand(CLEAN)
    assert r.corrupted_tokens is None


def test_saved_and_read_back_with_and_without(model, tmp_path):
    both = wb.activation_patching(model, CLEAN, CORRUPTED, METRIC, progress=False)
    for r in (both, replace(both, corrupted_tokens=None), replace(both, clean_tokens=None, corrupted_tokens=None)):
        r.save(tmp_path / "r")
        back = wb.SweepResult.load(tmp_path / "r")
        for ours, theirs in ((r.clean_tokens, back.clean_tokens), (r.corrupted_tokens, back.corrupted_tokens)):
            assert (ours is None) == (theirs is None)
            assert ours is None or (torch.equal(ours, theirs) and ours.dtype == theirs.dtype)


def test_texts_that_are_padded_by_the_tokenizer():
    worded = powered(plain_spec())
    worded.tokenizer = word_tokenizer()
    r = wb.activation_patching(worded, ["a b c", "d e"], ["a b d", "d f"], METRIC, progress=False)
    assert r.clean_tokens.tolist() == [[0, 1, 2], [-1, 3, 4]]
    assert r.corrupted_tokens.tolist() == [[0, 1, 3], [-1, 3, 5]]
