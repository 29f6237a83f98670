"""What training builds on: hidden states for heads of one's own, and the loss of each token."""

import pytest
import torch
from hypothesis import given
from random_models import close, powered, some_tokens, specs
from torch.nn import functional as F

import workbench as wb

PADDED = torch.tensor([[0, 0, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 0, 0]])


@given(specs(adds=False))
def test_hidden_states_are_the_last_stream_and_its_norm(spec):
    model, tokens = powered(spec), some_tokens()
    logits, cache = model.run_with_cache(tokens)
    assert torch.equal(model.forward_hidden(tokens, final_norm=False), cache["resid_post", -1])
    assert torch.equal(model.unembedding(model.forward_hidden(tokens)), logits)
    hooks = [wb.zero("attn_out", layers=0)]
    _, edited = model.run_with_cache(tokens, hooks=hooks)
    assert torch.equal(model.forward_hidden(tokens, final_norm=False, hooks=hooks), edited["resid_post", -1])


def test_a_hook_that_would_never_be_called_is_an_error():
    model = powered(wb.ModelSpec.preset("kamui-nano"))
    hooks = [("ln_final.out", lambda value, at: value)]
    with pytest.raises(wb.errors.SiteError, match="never be called"):
        model.forward_hidden(some_tokens(), final_norm=False, hooks=hooks)
    model.forward_hidden(some_tokens(), hooks=hooks)


def test_a_head_trains_on_the_backbone():
    model = wb.HookedTransformer(wb.ModelSpec.preset("kamui-nano"))
    value_head = torch.nn.Linear(model.spec.d_model, 1)
    value_head(model.forward_hidden(some_tokens())).sum().backward()
    assert model.blocks[0].attn.q.weight.grad.abs().sum() > 0
    assert value_head.weight.grad.abs().sum() > 0


def test_loss_is_cross_entropy_over_what_follows_real_tokens():
    """Against torch row by row, each row without its padding."""
    model, tokens = powered(wb.ModelSpec.preset("kamui-nano")), some_tokens()
    each = model.loss(tokens, per_token=True, attention_mask=PADDED)
    assert each.shape == (2, 6)
    expected = []
    for row in range(2):
        alone = tokens[row, PADDED[row].bool()][None]
        wanted = F.cross_entropy(model(alone)[0][0, :-1], alone[0, 1:], reduction="none")
        counted = each[row][~each[row].isnan()]
        assert close(counted, wanted, 1e-5)
        expected.append(wanted)
    assert close(model.loss(tokens, attention_mask=PADDED), torch.cat(expected).mean(), 1e-5)
    logits = model(tokens)[0]
    assert close(wb.lm_cross_entropy_loss(logits, tokens), model.loss(tokens), 1e-6)


def test_the_loss_of_texts_knows_their_padding(smollm):
    texts = ["Paris is the capital of France", "Two", "One, two, three"]
    each = smollm.loss(texts, per_token=True)
    assert each[1].isnan().all()
    assert close(smollm.loss(texts[0]), each[0].nanmean(), 1e-5)
    assert smollm.loss(texts[0]) < smollm.loss("capital Paris of the France is")


def test_gradients_of_a_padded_loss_are_finite():
    model, tokens = wb.HookedTransformer(wb.ModelSpec.preset("kamui-nano")), some_tokens()
    model.loss(tokens, attention_mask=PADDED).backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


@given(specs(adds=False))
def test_gradients_through_padded_rows_are_finite(spec):
    """In the explicit kernel too: a padded query sees nothing, and softmax over nothing is NaN."""
    model, tokens = powered(spec).requires_grad_(True), some_tokens()
    for hooks in ((), [("pattern", lambda value, at: value * 0.9)], [("attn_scores", lambda value, at: value * 0.9)]):
        model.zero_grad()
        model.loss(tokens, attention_mask=PADDED, hooks=hooks).backward()
        assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize(
    ("logits", "tokens", "mask", "said"),
    [
        (torch.zeros(1, 4, 5), torch.zeros(1, 3, dtype=torch.long), None, r"\[1, 4, 5\] and tokens \[1, 3\]"),
        (torch.zeros(1, 1, 5), torch.zeros(1, 1, dtype=torch.long), None, "no token follows another"),
        (torch.zeros(1, 3, 5), torch.zeros(1, 3, dtype=torch.long), torch.ones(1, 2), r"attention_mask is \[1, 2\]"),
        (torch.zeros(1, 3, 5), torch.zeros(1, 3, dtype=torch.long), torch.tensor([[1, 0, 1]]), "no token follows"),
    ],
)
def test_what_has_no_loss_is_refused(logits, tokens, mask, said):
    with pytest.raises(wb.errors.MetricError, match=said):
        wb.lm_cross_entropy_loss(logits, tokens, mask)
