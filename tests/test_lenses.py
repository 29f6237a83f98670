"""The logit lens, against plain torch on what a transformers model says of its hidden states."""

import math
import subprocess
import sys
from importlib import import_module

import pytest
import torch
from cases import ALL
from hypothesis import given
from hypothesis import strategies as st
from parity import VOCAB, padded_batch, tiny
from random_models import powered, some_tokens, specs
from test_cache import plain_spec
from torch.utils._python_dispatch import TorchDispatchMode
from tqdm.auto import tqdm
from words import WORDS, word_tokenizer

import workbench as wb
from workbench.model.embedding import TokenEmbeddingSpec, UnembeddingSpec

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
    model = powered(plain_spec())
    model.tokenizer = word_tokenizer()
    return model


def test_low_precision_gives_float32():
    model = wb.from_huggingface(tiny(ALL["gpt2: tied"], dtype=torch.bfloat16))
    lens = wb.logit_lens(model, TOKENS)
    assert lens.logprobs.dtype == torch.float32
    logits, _ = model(TOKENS)
    assert torch.equal(lens.logprobs[:, -1], logits.float().log_softmax(-1).topk(10).values)


def test_tokens_without_a_mask_are_all_real():
    tokens, _ = padded_batch("right")
    model = wb.from_huggingface(tiny(ALL["gpt2: tied"]))
    assert wb.logit_lens(model, tokens).logprobs.isfinite().all()


# What is read off each place


QUANTITIES = ("entropy", "kl", "next_logprobs", "next_ranks", "target_logprobs", "target_ranks")


def by_hand(logits, final, token):
    """Of one place, number by number in double precision: entropy, KL from the final output, log p and rank."""

    def logprobs(of):
        total = math.log(sum(math.exp(value) for value in of))
        return [value - total for value in of]

    ours, theirs = logprobs(logits), logprobs(final)
    entropy = -sum(math.exp(value) * value for value in ours)
    kl = sum(math.exp(q) * (q - p) for p, q in zip(ours, theirs, strict=True))
    return entropy, kl, ours[token], sum(value > logits[token] for value in logits)


@plain_cases
def test_every_quantity_by_hand(config):
    """Each place in plain Python, from the hidden states of the transformers model."""
    theirs = tiny(config)
    found, final = streams_of(theirs, TOKENS)
    with torch.no_grad():
        logits = [(final(stream) @ theirs.lm_head.weight.T).double() for stream in found]
    targets = [7, 0]
    lens = wb.logit_lens(wb.from_huggingface(theirs), TOKENS, top_k=2, targets=targets)
    for example in range(2):
        for row, of_row in enumerate(logits):
            for pos in (0, 3, 7, 8):
                place, said = (example, row, pos), of_row[example, pos].tolist()
                last = logits[-1][example, pos].tolist()
                for at, target in enumerate(targets):
                    entropy, kl, logprob, rank = by_hand(said, last, target)
                    assert lens.target_logprobs[place][at].item() == pytest.approx(logprob, abs=1e-3, rel=1e-4)
                    assert lens.target_ranks[place][at] == rank
                assert lens.entropy[place].item() == pytest.approx(entropy, abs=1e-3, rel=1e-4)
                assert lens.kl[place].item() == pytest.approx(kl, abs=1e-3, rel=1e-4)
                if pos == 8:
                    assert lens.next_ranks[place] == -1
                    assert lens.next_logprobs[place].isnan()
                    assert not lens.right[place]
                    continue
                following = int(TOKENS[example, pos + 1])
                _, _, logprob, rank = by_hand(said, last, following)
                assert lens.next_logprobs[place].item() == pytest.approx(logprob, abs=1e-3, rel=1e-4)
                assert lens.next_ranks[place] == rank
                assert bool(lens.right[place]) == (rank == 0)
    assert lens.target_tokens == (7, 0)
    assert torch.equal(lens.next_tokens, torch.cat([TOKENS[:, 1:], torch.full((2, 1), -1)], 1))
    assert {getattr(lens, name).dtype for name in QUANTITIES} == {torch.float32, torch.int64}


@given(specs(adds=False), st.sampled_from([1, 5]))
def test_every_row_of_any_wiring_is_its_stream_through_norm_and_unembedding(spec, top_k):
    """Post-norm, softcaps, scaled and projected unembeddings: a run that resumes at the end from each stream."""
    model, tokens = powered(spec), some_tokens()
    logits, cache = model.run_with_cache(tokens, names_filter="resid_pre")
    lens = wb.logit_lens(model, tokens, top_k, targets=3)
    rows = [*(model.resume(cache[name], spec.n_layers)[0] for name in cache), logits]
    rows = torch.stack(rows, 1).double().log_softmax(-1)
    assert torch.allclose(lens.logprobs.double(), rows.gather(-1, lens.tokens), atol=1e-3, rtol=1e-4)
    assert torch.allclose(lens.logprobs[..., 0].double(), rows.amax(-1), atol=1e-3, rtol=1e-4)
    assert torch.allclose(lens.entropy.double(), -(rows.exp() * rows).sum(-1), atol=1e-3, rtol=1e-4)
    reference = rows[:, -1:]
    kl = torch.nn.functional.kl_div(rows, reference.expand_as(rows), log_target=True, reduction="none").sum(-1)
    assert torch.allclose(lens.kl.double(), kl, atol=1e-3, rtol=1e-4)
    assert torch.allclose(lens.target_logprobs[..., 0].double(), rows[..., 3], atol=1e-3, rtol=1e-4)
    assert (lens.kl >= 0).all()
    assert (lens.entropy >= 0).all()
    assert (lens.kl[:, -1] == 0).all()


@given(specs(adds=False))
def test_the_last_row_is_the_logits(spec):
    """Exactly: what the model says, as metrics read it."""
    model, tokens = powered(spec), some_tokens()
    logits, _ = model(tokens)
    vocab_size = spec.vocab_size
    lens = wb.logit_lens(model, tokens, vocab_size, targets=[4])
    assert torch.equal(lens.logprobs[:, -1], logits.log_softmax(-1).topk(vocab_size).values)
    for pos in (0, 3, -1):
        assert torch.equal(lens.target_ranks[:, -1, pos, 0].float(), wb.rank(4, pos=pos)(logits))
        assert torch.allclose(lens.target_logprobs[:, -1, pos, 0], wb.logprob(4, pos=pos)(logits))
    following = tokens[:, 3].tolist()
    assert torch.equal(lens.next_ranks[:, -1, 2].float(), wb.rank(following, pos=2)(logits))
    assert torch.equal(lens.kl[:, -1], torch.zeros(2, 7))


def test_divergence_is_from_the_output_and_not_to_it():
    model = powered(plain_spec())
    logits, cache = model.run_with_cache(some_tokens(), names_filter="resid_pre")
    run, _ = model.resume(cache["resid_pre", 1], 3)
    lens = wb.logit_lens(model, some_tokens())
    for pos in range(7):
        assert torch.allclose(lens.kl[:, 1, pos], wb.kl_from(logits, pos=pos)(run), atol=1e-5, rtol=1e-4)
    other_way = wb.kl_from(run, pos=2)(logits)
    assert (lens.kl[:, 1, 2] - other_way).abs().min() > 0.05


def test_a_rank_counts_larger_logits_and_ties_are_no_worse():
    model = powered(plain_spec())
    with torch.no_grad():
        model.unembedding.weight[5] = model.unembedding.weight[4]
        model.unembedding.bias[5] = model.unembedding.bias[4]
    lens = wb.logit_lens(model, some_tokens(), targets=[4, 5])
    assert torch.equal(lens.target_ranks[..., 0], lens.target_ranks[..., 1])


def test_followed_tokens_agree_with_the_list_of_the_best():
    model = powered(plain_spec())
    lens = wb.logit_lens(model, some_tokens(), top_k=23, targets=list(range(23)))
    order = lens.target_logprobs.argsort(-1, descending=True)
    assert torch.equal(order, lens.tokens)
    assert torch.equal(lens.target_ranks.gather(-1, lens.tokens), torch.arange(23).expand_as(lens.tokens))
    assert torch.equal(lens.right[:, :, :-1], lens.next_ranks[:, :, :-1] == 0)
    assert lens.right.any()
    assert not lens.right[:, :, -1].any()


@pytest.mark.parametrize("rows", [1, 2, 3, 13, 30])
def test_the_size_of_a_chunk_changes_nothing(rows, monkeypatch):
    """Fewer rows at a time than the texts have tokens, or several layers at once with a rest."""
    model, module = powered(plain_spec()), import_module("workbench.lenses.logit_lens")
    tokens, mask = some_tokens(3, 6), torch.tensor([[1, 1, 1, 1, 1, 1], [0, 0, 0, 1, 1, 1], [1, 1, 0, 0, 0, 0]])
    whole = wb.logit_lens(model, tokens, 4, [2, 9], attention_mask=mask)
    monkeypatch.setattr(module, "LOGITS", 23 * rows)
    parts = wb.logit_lens(model, tokens, 4, [2, 9], attention_mask=mask)
    assert torch.equal(whole.tokens, parts.tokens)
    assert torch.equal(whole.next_ranks, parts.next_ranks)
    for name in ("logprobs", *QUANTITIES):
        assert torch.allclose(getattr(whole, name), getattr(parts, name), atol=1e-5, equal_nan=True), name


class Largest(TorchDispatchMode):
    """How many numbers the largest tensor has that any operation makes."""

    numel = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        for one in made if isinstance(made, (tuple, list)) else (made,):
            self.numel = max(self.numel, one.numel() if isinstance(one, torch.Tensor) else 0)
        return made


def test_logits_in_memory_are_bounded(monkeypatch):
    """An eighth of what one layer's logits of all places would be; a plain run has them all."""
    spec = plain_spec(embed=TokenEmbeddingSpec(401), unembed=UnembeddingSpec(401, bias=True))
    model, tokens = powered(spec), some_tokens(240, 1, 401)
    monkeypatch.setattr(import_module("workbench.lenses.logit_lens"), "LOGITS", 401 * 20)
    with Largest() as of_lens:
        wb.logit_lens(model, tokens, 2, targets=[4])
    with Largest() as of_run:
        model(tokens)
    assert of_lens.numel < 240 * 401 / 8
    assert of_run.numel == 240 * 401


# Texts, masks, hooks


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_padded_row_is_its_own_unpadded_run(side):
    model = powered(plain_spec())
    tokens, lengths = some_tokens(3, 8), (8, 1, 5)
    column, length = torch.arange(8), torch.tensor(lengths)[:, None]
    mask = column >= 8 - length if side == "left" else column < length
    lens = wb.logit_lens(model, tokens, 3, [6], attention_mask=mask)
    for row in range(3):
        real = mask[row]
        alone = wb.logit_lens(model, tokens[row : row + 1, real], 3, [6])
        assert torch.equal(lens.tokens[row][:, real], alone.tokens[0])
        assert torch.equal(lens.next_tokens[row, real], alone.next_tokens[0])
        assert torch.equal(lens.right[row][:, real], alone.right[0])
        for name in ("logprobs", *QUANTITIES):
            ours, wanted = getattr(lens, name)[row], getattr(alone, name)[0]
            assert torch.allclose(ours[:, real], wanted, atol=1e-4, rtol=1e-4, equal_nan=True), name
            nothing = ours[:, ~real]
            assert (nothing.isnan() if nothing.is_floating_point() else nothing == -1).all(), name
        assert (lens.next_tokens[row, ~real] == -1).all()
        assert not lens.right[row][:, ~real].any()
        assert [text == "" for text in lens.str_tokens[row]] == (~real).tolist()


def test_the_next_token_is_the_next_real_one():
    model, tokens = powered(plain_spec()), torch.tensor([[3, 8, 5, 9], [1, 2, 6, 7]])
    mask = torch.tensor([[1, 0, 1, 1], [0, 1, 1, 0]])
    lens = wb.logit_lens(model, tokens, attention_mask=mask)
    assert lens.next_tokens.tolist() == [[5, -1, 9, -1], [-1, 6, -1, -1]]
    assert (lens.next_ranks[0, 0] >= 0).tolist() == [True, False, True, False]


def test_a_text_of_one_token():
    lens = wb.logit_lens(powered(plain_spec()), torch.tensor([4]), targets=[1])
    assert lens.next_tokens.tolist() == [[-1]]
    assert lens.next_logprobs.isnan().all()
    assert lens.target_logprobs.isfinite().all()


@pytest.mark.parametrize("view", [True, False])
def test_hooks_are_part_of_the_run_that_is_read(view):
    """What is edited in a block is seen from there on; what is edited at the final norm is in the output alone."""
    model, tokens = powered(plain_spec()), some_tokens()
    hooks = [wb.zero("attn_out", layers=1), ("ln_final.hook_normalized", lambda value, at: -value)]
    edited, _ = model(tokens, hooks=hooks)
    lens = (
        wb.logit_lens(model.with_hooks(hooks), tokens, targets=[2])
        if view
        else wb.logit_lens(model, tokens, targets=[2], hooks=hooks)
    )
    plain = wb.logit_lens(model, tokens, targets=[2])
    assert torch.equal(lens.logprobs[:, -1], edited.log_softmax(-1).topk(10).values)
    assert torch.equal(lens.target_logprobs[:, :2], plain.target_logprobs[:, :2])
    assert not torch.allclose(lens.target_logprobs[:, 2], plain.target_logprobs[:, 2], atol=1e-2)
    assert not torch.allclose(lens.kl[:, :2], plain.kl[:, :2], atol=1e-2)
    assert (lens.kl[:, -1] == 0).all()


def test_a_hook_that_fits_nothing_is_said_before_the_run():
    with pytest.raises(errors.SiteError, match="resid_pre"):
        wb.logit_lens(powered(plain_spec()), some_tokens(), hooks=[("resid_prr", lambda value, at: None)])


def test_no_graph_is_kept():
    model = wb.HookedTransformer(plain_spec(), seed=0)
    lens = wb.logit_lens(model, some_tokens(), targets=[1])
    assert not any(getattr(lens, name).requires_grad for name in ("logprobs", *QUANTITIES))


# Targets


def test_targets_are_ids_or_texts(model_of_words):
    by_text = wb.logit_lens(model_of_words, "c a f", targets=["b", 5])
    assert by_text.target_tokens == (1, 5)
    assert by_text.target_texts == ("b", "f")
    for alike in ([1, "f"], (1, 5), torch.tensor([1, 5])):
        assert torch.equal(wb.logit_lens(model_of_words, "c a f", targets=alike).target_ranks, by_text.target_ranks)
    for one in ("b", 1, torch.tensor(1)):
        lens = wb.logit_lens(model_of_words, "c a f", targets=one)
        assert torch.equal(lens.target_logprobs, by_text.target_logprobs[..., :1])
    none = wb.logit_lens(model_of_words, "c a f")
    assert (none.target_tokens, none.target_texts) == ((), ())
    assert none.target_ranks.shape == (1, 4, 3, 0)


@pytest.mark.parametrize(
    ("targets", "said"),
    [
        (["b c"], "'b c' is not one token: it splits into 'b', 'c'"),
        ([1, "b"], "targets name 1 twice"),
        ([23], "the target 23 is token 23; the vocabulary is 0 to 22"),
        ([-1], "the target -1 is token -1"),
    ],
)
def test_targets_that_are_no_token(model_of_words, targets, said):
    with pytest.raises(errors.WorkbenchError, match=said):
        wb.logit_lens(model_of_words, "c a f", targets=targets)


def test_a_text_as_target_wants_a_tokenizer():
    with pytest.raises(errors.InputError, match="no tokenizer"):
        wb.logit_lens(powered(plain_spec()), some_tokens(), targets=["b"])


WRONG = r"""
import re, pytest, torch, workbench as wb
from random_models import powered, some_tokens
from test_cache import plain_spec

model, tokens, KIND = powered(plain_spec()), some_tokens(), wb.errors.KindError
for says, wrong in [
    ("a lens is of a model that wb.load or HookedTransformer gives, not str", lambda: wb.logit_lens("gpt2", tokens)),
    ("top_k is '4'; a whole number is wanted", lambda: wb.logit_lens(model, tokens, "4")),
    ("targets are 1.5; a list of ids and texts is wanted", lambda: wb.logit_lens(model, tokens, targets=1.5)),
    ("targets are None; a list of ids", lambda: wb.logit_lens(model, tokens, targets=None)),
    ("a target is 1.5; the id of a token or its text", lambda: wb.logit_lens(model, tokens, targets=[1.5])),
    ("a target is True; the id of a token or its text", lambda: wb.logit_lens(model, tokens, targets=[True])),
    ("a target is True; the id of a token or its text", lambda: wb.logit_lens(model, tokens, targets=True)),
    ("a target is 1.0; the id of a token", lambda: wb.logit_lens(model, tokens, targets=torch.tensor([1.0]))),
    ("logit_lens has no argument 'target'; the nearest are: targets", lambda: wb.logit_lens(model, tokens, target=1)),
    ("hooks are a sequence", lambda: wb.logit_lens(model, tokens, hooks="z")),
]:
    with pytest.raises(KIND, match=re.escape(says)) as caught:
        wrong()
    assert "\n" not in str(caught.value)
print("refused")
"""


def test_arguments_of_the_wrong_kind_where_shapes_are_not_checked():
    code = f"import sys; sys.path[:0] = {[path for path in sys.path if path]!r}\n{WRONG}"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "refused\n")


# The result


def test_the_table_has_a_row_for_each_real_place(model_of_words):
    lens = wb.logit_lens(model_of_words, ["c a f", "e b"], targets=["b", "a"])
    table = lens.to_dataframe()
    assert len(table) == 4 * (3 + 2)
    assert list(table.columns) == [
        *("example", "layer", "pos", "token", "top", "logprob", "entropy", "kl", "next_logprob", "next_rank"),
        *("logprob of b", "rank of b", "logprob of a", "rank of a"),
    ]
    row = table[(table.example == 1) & (table.layer == "2_pre") & (table.pos == 1)].iloc[0]
    assert row.token == "e"
    assert row.top == lens.texts[1][2][1][0]
    assert row.logprob == lens.logprobs[1, 2, 1, 0].item()
    assert row.kl == lens.kl[1, 2, 1].item()
    assert row.next_rank == lens.next_ranks[1, 2, 1].item()
    assert row["rank of a"] == lens.target_ranks[1, 2, 1, 1].item()
    assert table[table.pos == 2].next_logprob.isna().all()


@pytest.mark.parametrize("show", ["prob", "rank", "entropy", "kl", "target"])
def test_a_lens_draws_itself(model_of_words, show):
    lens = wb.logit_lens(model_of_words, ["c a f", "e b"], targets=["b", "a"])
    figure = lens.figure(1, show=show, target=1)
    assert figure.data[0].z.shape == (4, 3)
    assert repr(lens) == "Lens of 2 texts: 4 layers x 3 positions, 10 tokens each"


def test_a_bar_counts_every_place(monkeypatch):
    module, seen = import_module("workbench.lenses.logit_lens"), []

    class Bar(tqdm):
        def __init__(self, **options):
            super().__init__(**options | {"disable": True})
            seen.append([options["total"], options["disable"], 0])

        def update(self, n=1):
            seen[-1][2] += n

    monkeypatch.setattr(module, "tqdm", Bar)
    monkeypatch.setattr(module, "LOGITS", 23 * 4)
    model = powered(plain_spec())
    wb.logit_lens(model, some_tokens(2, 7), attention_mask=torch.ones(2, 7).tril(4))
    wb.logit_lens(model, some_tokens(2, 7), progress=False)
    n_real = int(torch.ones(2, 7).tril(4).sum())
    assert seen == [[4 * n_real, False, 4 * n_real], [4 * 14, True, 4 * 14]]
