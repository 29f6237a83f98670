"""Mean, resample and freeze: against sums written out over the real tokens of a reference set."""

import pytest
import torch
from random_models import close, powered, some_tokens
from test_cache import plain_spec

import workbench as wb

errors = wb.errors
TOKENS = some_tokens(2, 5)
REFERENCE = some_tokens(3, 7, seed=5)
MASK = torch.tensor([[0, 0, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 0, 0], [1] * 7])  # 5, 5 and 7 tokens
SITE = ("z", 1)


@pytest.fixture(scope="module")
def model():
    return powered(plain_spec())


@pytest.fixture(scope="module")
def reference(model):
    return model.run_with_cache(REFERENCE, attention_mask=MASK)[1]


def real_rows(reference, site=SITE):
    """The values of each text, its padding cut off."""
    return [rows[mask.bool()] for rows, mask in zip(reference[site], MASK, strict=True)]


def edited(model, change, tokens=TOKENS, site=SITE, **options):
    return model.run_with_cache(tokens, site, hooks=[change], **options)[1][site]


def test_the_mean_at_each_position(model, reference):
    texts = real_rows(reference)
    wanted = torch.stack([torch.stack([text[pos] for text in texts if len(text) > pos]).mean(0) for pos in range(7)])
    assert close(edited(model, wb.mean(reference, "z")), wanted[:5].expand(2, -1, -1, -1), 1e-5)
    one_head = edited(model, wb.mean(reference, "z", layers=1, heads=2, positions=[0, -1]))
    plain = model.run_with_cache(TOKENS, SITE)[1][SITE].clone()
    plain[:, [0, 4], 2] = wanted[[0, 4], 2]
    assert close(one_head, plain, 1e-5)
    longer = some_tokens(2, 7, seed=8)
    padded = edited(model, wb.mean(reference, "z"), longer, attention_mask=MASK[:2])
    for row, mask in zip(padded, MASK, strict=False):  # by position and not by column
        assert close(row[mask.bool()], wanted[:5], 1e-5)


def test_the_mean_over_positions(model, reference):
    texts = real_rows(reference)
    over_all = edited(model, wb.mean(reference, "z", per_position=False))
    assert close(over_all, torch.cat(texts).mean(0).expand_as(over_all), 1e-5)
    without_first = edited(model, wb.mean(reference, "z", per_position=False, skip_first=True))
    assert close(without_first, torch.cat([text[1:] for text in texts]).mean(0).expand_as(over_all), 1e-5)
    assert not close(without_first, over_all, 1e-2)


def test_resampling_takes_one_text_for_each_example(model, reference):
    drawn = torch.randint(3, (2,), generator=torch.Generator().manual_seed(4))
    texts = real_rows(reference)
    wanted = torch.stack([texts[index][:5] for index in drawn])
    assert close(edited(model, wb.resample(reference, "z", seed=4)), wanted, 1e-6)
    others = {tuple(wb.resample(reference, "z", seed=seed).drawn(2).tolist()) for seed in range(30)}
    assert len(others) > 3
    assert close(edited(model, wb.resample(reference, "mlp_out", seed=4), site=("mlp_out", 0)), torch.stack(
        [real_rows(reference, ("mlp_out", 0))[index][:5] for index in drawn]), 1e-6)  # fmt: skip


def test_patterns_of_texts_of_one_length(model, reference):
    other = some_tokens(3, 5, seed=9)
    _, cache = model.run_with_cache(other)
    mean = edited(model, wb.mean(cache, "pattern", layers=1), site=("pattern", 1))
    assert close(mean, cache["pattern", 1].mean(0).expand(2, -1, -1, -1), 1e-6)
    drawn = wb.resample(cache, "pattern", seed=1).drawn(2)
    assert close(
        edited(model, wb.resample(cache, "pattern", seed=1), site=("pattern", 1)), cache["pattern", 1][drawn], 1e-6
    )
    for change in (wb.mean(reference, "pattern"), wb.resample(reference, "attn_scores")):
        with pytest.raises(errors.InterventionError, match="among texts of one length"):
            model(TOKENS, hooks=[change])
    with pytest.raises(errors.InterventionError, match="no pattern"):
        model(TOKENS, hooks=[wb.mean(cache, "pattern", per_position=False)])


def test_a_frozen_site_stays_as_it_was(model):
    _, own = model.run_with_cache(TOKENS)
    cut = wb.zero("resid_pre", layers=0, positions=2)
    _, cache = model.run_with_cache(TOKENS, hooks=[wb.freeze(own, "pattern"), cut])
    for layer in range(model.spec.n_layers):
        assert torch.equal(cache["pattern", layer], own["pattern", layer])
        assert not close(cache["z", layer], own["z", layer], 1e-3)
    assert not close(model.run_with_cache(TOKENS, hooks=[cut])[1]["pattern", 1], own["pattern", 1], 1e-3)


def test_a_mean_while_tokens_are_generated(model, reference):
    """Each step is what the whole text would have at that position."""
    change = wb.mean(reference, "mlp_out", layers=1)
    made = model.generate(TOKENS[:, :3], 3, hooks=[change])
    assert torch.equal(made, model.generate(TOKENS[:, :3], 3, hooks=[change], use_kv_cache=False))
    with pytest.raises(errors.InterventionError, match=r"position 8 .* has values of 7 positions; give a longer"):
        model.generate(TOKENS[:, :3], 7, hooks=[change], on_step=lambda _: pytest.fail("a token was made"))
    model.generate(TOKENS[:, :3], 7, hooks=[wb.on_prompt(change)])
    model.generate(TOKENS[:, :3], 7, hooks=[wb.mean(reference, "mlp_out", per_position=False)])


def test_a_reference_that_does_not_fit(model, reference):
    long = some_tokens(2, 9)
    for change in (wb.mean(reference, "z"), wb.resample(reference, "z", seed=4)):
        with pytest.raises(errors.InterventionError, match=r"position 8 of example 0 .* give a longer reference"):
            model(long, hooks=[change])
        model(long, hooks=[type(change)(**{**vars(change), "positions": [0, 4]})])
    _, some = model.run_with_cache(REFERENCE, "z")
    with pytest.raises(errors.InterventionError, match=r"reference set has not recorded blocks.0.attn.hook_q"):
        model(TOKENS, hooks=[wb.mean(some, "q")])
    with pytest.raises(errors.InterventionError, match="without a batch axis"):
        model(TOKENS, hooks=[wb.mean(model.run_with_cache(TOKENS[:1])[1].remove_batch_dim(), "z")])
    with pytest.raises(errors.InterventionError, match="per_position=False"):
        wb.mean(some, "z", skip_first=True)
    with pytest.raises(errors.InterventionError, match="first tokens only"):
        wb.mean(model.run_with_cache(TOKENS[:, :1])[1], "z", per_position=False, skip_first=True)
    for make in (wb.mean, wb.resample, wb.freeze):
        with pytest.raises(errors.KindError, match="takes a cache"):
            make(TOKENS, "z")
    for seed in (0.5, True, None, -1, 2**70):
        with pytest.raises(errors.KindError, match="seed"):
            wb.resample(some, "z", seed=seed)


def test_neurons(model):
    before = model.run_with_cache(TOKENS, ("post", 0))[1]["post", 0]
    after = edited(model, wb.zero("post", layers=0, neurons=[1, -1], positions=2), site=("post", 0))
    wanted = before.clone()
    wanted[:, 2, [1, -1]] = 0
    assert torch.equal(after, wanted)
    with pytest.raises(errors.InterventionError, match="no d_mlp axis"):
        model(TOKENS, hooks=[wb.zero("z", neurons=0)])
    with pytest.raises(errors.InterventionError, match="no head axis"):
        model(TOKENS, hooks=[wb.zero("post", heads=0)])
