"""Greedy tokens of every family: with our cache, without it, and transformers'.

Prompts of unequal length go through ours as one padded batch. Their 20 new tokens take them past every window, and past
the length at which a rotation that depends on it switches, where a cache (theirs and ours) keeps what it has.
"""

import pytest
import torch
from cases import ALL
from parity import padded_batch, tiny

import workbench as wb

NEW = 20
cases = pytest.mark.parametrize("config", ALL.values(), ids=ALL.keys())


def depends_on_length(model: wb.HookedTransformer) -> bool:
    text = str(model.spec.to_dict())
    return "DynamicNTK" in text or "LongRoPE" in text


@cases
@pytest.mark.parametrize(("side", "penalty"), [("left", 1.0), ("right", 4.0)])
def test_greedy_tokens_are_those_of_transformers(config, side, penalty):
    """With a penalty a model cannot just say one token again and again."""
    theirs = tiny(config)
    theirs.generation_config.eos_token_id = None
    ours = wb.from_huggingface(theirs)
    tokens, mask = padded_batch(side, (3, 7, 12))
    new = min(NEW, ours.spec.n_ctx - 12)
    options = {"attention_mask": mask, "repetition_penalty": penalty}
    cached = ours.generate(tokens, new, **options)
    without = ours.generate(tokens, new, use_kv_cache=False, **options)
    assert torch.equal(cached[:, :12], tokens)
    assert penalty == 1.0 or len(cached[:, 12:].unique()) > new / 2
    greedy = {"do_sample": False, "max_new_tokens": new, "pad_token_id": 0, "repetition_penalty": penalty}
    for row in range(len(tokens)):
        prompt = tokens[row : row + 1, mask[row].bool()]
        greedy["attention_mask"] = torch.ones_like(prompt)  # or they take every pad_token_id of the prompt for padding
        wanted = theirs.generate(prompt, use_cache=False, **greedy)[0, -new:]
        assert torch.equal(without[row, -new:], wanted)
        if not depends_on_length(ours):
            assert torch.equal(theirs.generate(prompt, **greedy)[0, -new:], wanted)
            assert torch.equal(cached[row, -new:], wanted)
