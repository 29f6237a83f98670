"""How much the engine computes, counted by torch around the call, on SmolLM2 and a pair of 14 tokens."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import workbench as wb

CLEAN = "When Mary and John went to the store, John gave a drink to"
CORRUPTED = "When Mary and John went to the store, Mary gave a drink to"


def counted(run):
    with FlopCounterMode(display=False) as counter:
        returned = run()
    return counter.get_total_flops(), returned


@pytest.fixture(scope="module")
def forward(smollm):
    tokens = smollm.to_tokens(CLEAN)
    return counted(lambda: smollm(tokens))[0]


@pytest.mark.parametrize(
    ("options", "differs_at", "share"),
    [
        ({"site": "resid_pre"}, 9, 1 / 25),
        ({"site": "resid_pre"}, 0, 1 / 4),
        ({"site": "z"}, 9, 1 / 6),
    ],
)
def test_multiply_adds_beside_a_whole_run_for_each_cell(smollm, forward, options, differs_at, share):
    clean, corrupted = smollm.to_tokens(CLEAN), smollm.to_tokens(CORRUPTED)
    if differs_at == 0:
        corrupted = torch.randint(1000, 40_000, clean.shape, generator=torch.Generator().manual_seed(0))
    metric = wb.logit_diff(" Mary", " John")
    flops, r = counted(lambda: wb.activation_patching(smollm, clean, corrupted, metric, progress=False, **options))
    of_naive = flops / (r.values[0].numel() * forward)
    assert of_naive <= share
    assert r.work.computed / r.work.naive == pytest.approx(of_naive, rel=0.3)  # the counter sees logits too
