"""What people hand to a run, right and wrong."""

import pytest
import torch
from random_models import powered, some_tokens

import workbench as wb
from workbench.errors import InputError, KindError
from workbench.model.attention import AttentionSpec
from workbench.model.block import PreNorm
from workbench.model.embedding import TiedUnembeddingSpec, TokenEmbeddingSpec
from workbench.model.mlp import GatedMLPSpec
from workbench.model.norms import RMSNormSpec
from workbench.model.rotary import RotarySpec


@pytest.fixture(scope="module")
def model():
    norm = RMSNormSpec()
    layer = PreNorm(AttentionSpec(4, 2, 4, rotary=RotarySpec()), GatedMLPSpec(12), norm, norm)
    return powered(wb.ModelSpec(8, 10, TokenEmbeddingSpec(23), None, (layer,) * 2, norm, TiedUnembeddingSpec()))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.uint8])
def test_tokens_of_one_text_or_many(model, dtype):
    one = some_tokens(1, 4)[0].to(dtype)
    assert torch.equal(model(one)[0], model(one[None])[0])
    assert model(one)[0].shape == (1, 4, 23)


@pytest.mark.parametrize(
    ("tokens", "error", "says"),
    [
        (torch.tensor([1, 23]), InputError, "token id 23 is out of range; this model's vocabulary is 0 to 22"),
        (torch.tensor([-1, 2]), InputError, "token id -1"),
        (torch.tensor([], dtype=torch.long), InputError, "empty prompt"),
        (torch.zeros(2, 0, dtype=torch.long), InputError, "empty prompt"),
        (torch.zeros(1, 2, 3, dtype=torch.long), InputError, r"\[pos\] or \[batch, pos\]"),
        (torch.zeros(11, dtype=torch.long), InputError, "11 tokens; this model's context is 10"),
        (torch.zeros(4), KindError, "integers"),
        (torch.zeros(4, dtype=torch.bool), KindError, "integers"),
        ([1, 2, 3], KindError, "a list holding int"),
        (7, KindError, "int"),
        (None, KindError, "NoneType"),
        ("text", InputError, "no tokenizer"),
    ],
)
def test_what_is_no_text_of_this_model(model, tokens, error, says):
    for run in (model, model.run_with_cache, model.run_with_hooks, model.to_tokens):
        with pytest.raises(error, match=says):
            run(tokens)


@pytest.mark.parametrize(
    ("mask", "says"),
    [
        (torch.ones(2, 3), "shape"),
        (torch.tensor([[1, 1, 1, 2], [1, 1, 1, 1]]), "other than 0 and 1"),
        (torch.tensor([[0, 0, 0, 0], [1, 1, 1, 1]]), "row 0 of the attention mask holds no token"),
        ([[1, 1, 1, 1]], "list"),
    ],
)
def test_masks_are_checked(model, mask, says):
    with pytest.raises(InputError, match=says):
        model(some_tokens(2, 4), attention_mask=mask)


def test_padding_does_not_count_towards_the_context(model):
    mask = torch.zeros(1, 14, dtype=torch.long)
    mask[:, 6:] = 1
    model(some_tokens(1, 14), attention_mask=mask)
    mask[:, 3:] = 1
    with pytest.raises(InputError, match="11 tokens"):
        model(some_tokens(1, 14), attention_mask=mask)


def test_text_is_padded_left_and_each_row_is_its_own_run(smollm):
    texts = ["Paris is the capital of", "Two and two make", "Yes"]
    logits, attention = smollm(texts)
    assert smollm.to_tokens(texts).shape == logits.shape[:2]
    for row, text in enumerate(texts):
        alone, alone_attention = smollm(text)
        n = alone.shape[1]
        assert torch.allclose(logits[row, -n:], alone[0], atol=1e-5 * float(alone.abs().max()))
        assert torch.allclose(attention[7][row, :, -n:, -n:], alone_attention[7][0], atol=1e-5)


def test_text_and_tokens_each_have_their_own_arguments(smollm):
    with pytest.raises(InputError, match="prepend_bos is for text"):
        smollm(torch.tensor([1, 2]), prepend_bos=True)
    with pytest.raises(InputError, match="attention_mask is for tokens"):
        smollm("Hello", attention_mask=torch.ones(1, 1))
    with pytest.raises(InputError, match="no tokens"):
        smollm("")
    with pytest.raises(InputError, match="no tokens"):
        smollm(["Hello", ""])
    with pytest.raises(InputError, match="empty list"):
        smollm([])


def test_words_and_tokens(smollm):
    text = " Mary went"
    ids = smollm.to_tokens(text)
    assert smollm.to_str_tokens(text) == [" Mary", " went"]
    assert smollm.to_string(ids) == [text]
    assert smollm.to_string(ids[0]) == text
    assert smollm.to_single_token(" Mary") == int(ids[0, 0])
    assert smollm.to_tokens(text, prepend_bos=True)[0, 0] == smollm.tokenizer.bos_id
    with pytest.raises(wb.errors.MetricError, match="'Mary', 'land', 'ish'"):
        smollm.to_single_token("Marylandish")
