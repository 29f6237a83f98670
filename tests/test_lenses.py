"""The logit lens, against plain torch on what a transformers model says of its hidden states."""

import pytest
import torch
from cases import ALL
from parity import VOCAB, padded_batch, tiny
from random_models import some_tokens
from words import WORDS, word_tokenizer

import workbench as wb

errors = wb.errors
cases = pytest.mark.parametrize("config", ALL.values(), ids=ALL.keys())
PLAIN = {name: config for name, config in ALL.items() if name.startswith(("gpt2:", "llama:", "olmo2:"))}
plain_cases = pytest.mark.parametrize("config", PLAIN.values(), ids=PLAIN.keys())
TOKENS = some_tokens(2, 9, VOCAB)


@torch.no_grad()
def streams_of(theirs, tokens):
    """What enters each block, and what leaves the last, by plain hooks."""
    base = theirs.base_model
    blocks = base.h if hasattr(base, "h") else base.layers
    found = []
    handles = [block.register_forward_pre_hook(lambda module, args: found.append(args[0])) for block in blocks]
    final = base.ln_f if hasattr(base, "ln_f") else base.norm
    handles.append(final.register_forward_pre_hook(lambda module, args: found.append(args[0])))
    theirs(tokens)
    for handle in handles:
        handle.remove()
    return found, final


@torch.no_grad()
def lens_by_hand(theirs, tokens):
    found, final = streams_of(theirs, tokens)
    return torch.stack([(final(stream) @ theirs.lm_head.weight.T).log_softmax(-1) for stream in found], dim=1)


@plain_cases
def test_every_row_is_the_final_norm_and_the_unembedding_of_its_stream(config):
    theirs = tiny(config)
    lens = wb.logit_lens(wb.from_huggingface(theirs), TOKENS, top_k=VOCAB)
    wanted = lens_by_hand(theirs, TOKENS)
    n_layers = theirs.config.num_hidden_layers
    assert lens.tokens.shape == lens.logprobs.shape == (2, n_layers + 1, 9, VOCAB)
    assert torch.allclose(lens.logprobs, wanted.gather(-1, lens.tokens), atol=2e-4, rtol=1e-4)
    assert (lens.logprobs.diff(dim=-1) <= 0).all()
    assert torch.equal(lens.tokens.sort(-1).values, torch.arange(VOCAB).expand_as(lens.tokens))
    assert lens.labels == (*(f"{layer}_pre" for layer in range(n_layers)), "final")


@cases
def test_the_last_row_is_the_model(config):
    model = wb.from_huggingface(tiny(config))
    logits, _ = model(TOKENS)
    best = logits.log_softmax(-1).topk(4)
    lens = wb.logit_lens(model, TOKENS, top_k=4)
    assert torch.equal(lens.tokens[:, -1], best.indices)
    assert torch.allclose(lens.logprobs[:, -1], best.values, atol=1e-5)


def test_the_last_row_is_the_model_also_with_hooks():
    model = wb.from_huggingface(tiny(ALL["llama: grouped, untied"]))
    view = model.with_hooks([("ln_final.normalized", lambda value, at: value.flip(-1)), wb.zero(("z", 1), heads=0)])
    best = view(TOKENS)[0].log_softmax(-1).topk(4)
    assert torch.equal(wb.logit_lens(view, TOKENS, top_k=4).tokens[:, -1], best.indices)
    assert not torch.equal(wb.logit_lens(model, TOKENS, top_k=4).tokens[:, -1], best.indices)


def test_each_row_has_its_own_statistics():
    """Rows scaled by the last stream's scale would order tokens alike but give other probabilities."""
    theirs = tiny(ALL["llama: grouped, untied"])
    lens = wb.logit_lens(wb.from_huggingface(theirs), TOKENS, top_k=VOCAB)
    found, final = streams_of(theirs, TOKENS)
    last = (found[-1].pow(2).mean(-1, keepdim=True) + final.variance_epsilon).sqrt()
    frozen = (found[0] / last * final.weight @ theirs.lm_head.weight.T).log_softmax(-1)
    assert (lens.logprobs[:, 0] - frozen.gather(-1, lens.tokens[:, 0])).abs().max() > 0.1


@pytest.mark.parametrize("top_k", [1, 2, VOCAB])
def test_top_k(top_k):
    model = wb.from_huggingface(tiny(ALL["gpt2: tied"]))
    lens, whole = wb.logit_lens(model, TOKENS, top_k), wb.logit_lens(model, TOKENS, VOCAB)
    assert torch.equal(lens.tokens, whole.tokens[..., :top_k])
    assert torch.equal(lens.logprobs, whole.logprobs[..., :top_k])
    assert [[len(pos) for pos in row] for row in lens.texts[1]] == [[top_k] * 9] * 4


def test_top_k_that_is_no_number_of_tokens():
    model = wb.from_huggingface(tiny(ALL["gpt2: tied"]))
    for wrong in (0, -1, VOCAB + 1):
        with pytest.raises(errors.InputError, match=f"top_k is {wrong}; a number from 1 to {VOCAB}"):
            wb.logit_lens(model, TOKENS, top_k=wrong)
    for wrong in ("4", 1.5, True, None):
        with pytest.raises(TypeError):
            wb.logit_lens(model, TOKENS, top_k=wrong)
    with pytest.raises(TypeError, match="k"):
        wb.logit_lens(model, TOKENS, k=3)


def test_a_model_without_a_tokenizer_names_tokens_by_number():
    model = wb.from_huggingface(tiny(ALL["gpt2: tied"]))
    lens = wb.logit_lens(model, TOKENS[:1, :3], top_k=2)
    assert lens.str_tokens == [[str(token) for token in TOKENS[0, :3].tolist()]]
    assert lens.texts[0][2][1] == [str(token) for token in lens.tokens[0, 2, 1].tolist()]
    with pytest.raises(errors.InputError, match="no tokenizer"):
        wb.logit_lens(model, "a b")


def test_tokens_that_the_tokenizer_does_not_know_are_numbers_in_brackets():
    """A vocabulary padded to a round number: the model may say what no text is."""
    model = wb.from_huggingface(tiny(ALL["gpt2: tied"]))
    model.tokenizer = word_tokenizer()
    assert model.tokenizer.vocab_size < VOCAB
    lens = wb.logit_lens(model, "a b c", top_k=VOCAB)
    for token, text in zip(lens.tokens[0, 0, 0].tolist(), lens.texts[0][0][0], strict=True):
        assert text == (WORDS[token] if token < len(WORDS) else f"<{token}>")


def test_texts_of_unequal_length(model_of_words):
    """Each text's places are those of the text alone; where there is none, nothing is said."""
    texts = ["c a f d b", "e b"]
    lens = wb.logit_lens(model_of_words, texts, top_k=3)
    alone = [wb.logit_lens(model_of_words, text, top_k=3) for text in texts]
    assert lens.str_tokens == [[*"cafdb"], ["", "", "", "e", "b"]]
    for row, one in enumerate(alone):
        n_pos = one.tokens.shape[2]
        assert torch.equal(lens.tokens[row, :, -n_pos:], one.tokens[0])
        assert torch.allclose(lens.logprobs[row, :, -n_pos:], one.logprobs[0], atol=1e-5)
        assert [places[-n_pos:] for places in lens.texts[row]] == one.texts[0]
    assert lens.logprobs[1, :, :3].isnan().all()
    assert (lens.tokens[1, :, :3] == -1).all()
    assert {text for row in lens.texts[1] for place in row[:3] for text in place} == {""}
    assert not lens.logprobs[0].isnan().any()
    assert all(lens.figure(example).data for example in (0, 1))


@pytest.fixture
def model_of_words():
    from random_models import powered
    from test_cache import plain_spec

    model = powered(plain_spec())
    model.tokenizer = word_tokenizer()
    return model


def test_low_precision_gives_float32():
    model = wb.from_huggingface(tiny(ALL["gpt2: tied"], dtype=torch.bfloat16))
    lens = wb.logit_lens(model, TOKENS)
    assert lens.logprobs.dtype == torch.float32
    logits, _ = model(TOKENS)
    assert torch.equal(lens.logprobs[:, -1], logits.float().log_softmax(-1).topk(10).values)


def test_padding_by_hand_is_left_to_the_caller():
    """Tokens have no mask here: a padded batch of tokens is read as it is."""
    tokens, _ = padded_batch("right")
    model = wb.from_huggingface(tiny(ALL["gpt2: tied"]))
    assert wb.logit_lens(model, tokens).logprobs.isfinite().all()
