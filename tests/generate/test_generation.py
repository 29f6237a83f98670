"""Generation: one mechanism with the full forward, whatever the architecture, the padding and the hooks."""

import pytest
import tokenizers
import torch
from hypothesis import given
from hypothesis import strategies as st
from random_models import VOCAB, attentions, close, latent_attentions, powered, some_tokens, specs
from transformers import LogitsProcessorList
from transformers.generation import logits_process as theirs

import workbench as wb
from workbench.generate import Plan, Sampling, Step, Stop, generate
from workbench.generate.continuation import Continuation
from workbench.generate.passes import Passes
from workbench.generate.sampling import penalised, within_top_k, within_top_p
from workbench.model.attention import AttentionSpec
from workbench.model.block import PreNorm
from workbench.model.embedding import TokenEmbeddingSpec, UnembeddingSpec
from workbench.model.memory import Growing
from workbench.model.mlp import GatedMLPSpec
from workbench.model.norms import RMSNormSpec
from workbench.model.rotary import RotarySpec
from workbench.tokenizer import Tokenizer

PADDED = torch.tensor([[0, 0, 0, 0, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0, 0], [0, 1, 1, 0, 1, 1, 0]])


def depends_on_length(spec: wb.ModelSpec) -> bool:
    return any(word in str(spec.to_dict()) for word in ("DynamicNTK", "LongRoPE"))


any_spec = specs(adds=False).filter(lambda spec: not depends_on_length(spec))


def prompts(mask: torch.Tensor = PADDED) -> torch.Tensor:
    return some_tokens(len(mask), mask.shape[1]) * mask


def spec_of(attn, n_layers: int = 2) -> wb.ModelSpec:
    """A plain model around an attention."""
    norm = RMSNormSpec()
    layer = PreNorm(attn, GatedMLPSpec(10), norm, norm)
    return wb.ModelSpec(8, 64, TokenEmbeddingSpec(VOCAB), None, (layer,) * n_layers, norm, UnembeddingSpec(VOCAB))


def plain() -> wb.HookedTransformer:
    return powered(spec_of(AttentionSpec(2, 1, 4, rotary=RotarySpec())))


def recorded(model, tokens, hooks=(), **options):
    """What each pass saw at every site, by column: the passes put together."""
    seen: dict[str, list] = {}

    def look(value, at):
        seen.setdefault(at.name, []).append((value.clone(), at.positions.clone(), at.columns))

    out = model.generate(tokens, hooks=[*hooks, (lambda name: True, look)], **options)
    return out, seen


@given(any_spec)
def test_cached_is_uncached_and_each_row_its_own(spec):
    model = powered(spec)
    tokens = prompts()
    cached = model.generate(tokens, 6, attention_mask=PADDED)
    assert torch.equal(cached, model.generate(tokens, 6, attention_mask=PADDED, use_kv_cache=False))
    assert torch.equal(cached[:, :7], tokens)
    for row in range(len(tokens)):
        alone = model.generate(tokens[row, PADDED[row].bool()], 6)
        assert torch.equal(cached[row, -6:], alone[0, -6:])


@given(any_spec)
def test_greedy_is_the_most_probable_token_of_a_full_forward(spec):
    """The oracle is a loop over whole forwards."""
    model = powered(spec)
    text = some_tokens(1, 5)
    for _ in range(5):
        text = torch.cat([text, model(text)[0][:, -1:].argmax(-1)], 1)
    assert torch.equal(model.generate(text[:, :5], 5), text)


@given(any_spec)
def test_the_cache_of_a_generation_is_that_of_a_run_over_its_text(spec):
    model = powered(spec)
    tokens = prompts()
    out, cache = model.generate_with_cache(tokens, 6, attention_mask=PADDED)
    mask = torch.cat([PADDED, torch.ones(4, 5, dtype=torch.long)], 1)
    _, whole = model.run_with_cache(out[:, :-1], attention_mask=mask)
    assert torch.equal(cache.positions, whole.positions)
    assert list(cache) == list(whole)
    real = mask.bool()
    for site in cache.sites:
        ours, theirs = cache[site], whole[site]
        assert ours.shape == theirs.shape
        if "query" in site.axes:
            ours, theirs = ours.transpose(1, 2), theirs.transpose(1, 2)
        ours, theirs = ours[real].nan_to_num(neginf=-7.0), theirs[real].nan_to_num(neginf=-7.0)
        assert close(ours, theirs, 1e-4), site.name


@given(any_spec)
def test_hooks_see_each_column_once_with_its_position(spec):
    model = powered(spec)
    _, seen = recorded(model, prompts(), max_new_tokens=5, attention_mask=PADDED)
    assert set(seen) == set(model.sites.names)
    lengths = PADDED.sum(1)
    for site in model.sites:
        axis = next(i for i, word in enumerate(site.axes) if word in ("pos", "query"))
        assert [value.shape[axis] for value, _, _ in seen[site.name]] == [7, 1, 1, 1, 1]
        assert [columns.start for _, _, columns in seen[site.name]] == [0, 7, 8, 9, 10]
        for step, (value, positions, columns) in enumerate(seen[site.name]):
            assert (columns.prompt, columns.total, columns.generating) == (7, 11, True)
            if step:
                assert torch.equal(positions[:, 0], lengths + step - 1)
            if "key" in site.axes:  # the width grows by one a step, window or not
                assert value.shape[-1] == 7 + step


@given(any_spec, st.data())
def test_an_edit_of_a_function_counts_alike_with_and_without_memory(spec, data):
    """At a site whose rows are edited one by one."""
    model = powered(spec)
    site = data.draw(st.sampled_from([site for site in model.sites if "key" not in site.axes]))
    hooks = [(site.name, lambda value, at: 1.5 * value)]
    cached, without = (
        model.generate(prompts(), 4, attention_mask=PADDED, use_kv_cache=use, hooks=hooks) for use in (True, False)
    )
    assert torch.equal(cached, without)


@given(any_spec, st.data())
def test_interventions_count_alike_with_and_without_memory(spec, data):
    """Positions are columns of the text, negative ones from the prompt's end."""
    model = powered(spec)
    tokens = some_tokens(2, 6)
    _, cache = model.run_with_cache(some_tokens(2, 6, seed=1))
    site = data.draw(st.sampled_from([site for site in model.sites if site.layer is not None]))
    positions = data.draw(st.sampled_from([[2], [-1], [0, -2], [5, 3]]))
    function = (site, lambda value, at: value * 1.5)  # adding to a pattern would weigh what lies ahead
    for change in (
        wb.zero(site, positions=positions),
        wb.patch(cache, site, positions=positions),
        wb.zero(site, positions=[*positions, 7]),
        wb.on_generated(wb.zero(site)),
        wb.on_prompt(wb.zero(site)),
        wb.on_prompt(wb.patch(cache, site)),
        wb.on_prompt(function),
    ):
        if site.short.endswith("scale"):  # a divisor of 0
            continue
        out = [model.generate(tokens, 4, use_kv_cache=use, hooks=[change]) for use in (True, False)]
        assert torch.equal(*out), change


def test_columns_from_the_prompts_end_are_the_prompts():
    model = plain()
    tokens = some_tokens(1, 6)

    def changed(hooks):
        _, seen = recorded(model, tokens, hooks, max_new_tokens=4)
        values = torch.cat([value for value, _, _ in seen["blocks.0.hook_attn_out"]], 1)
        return [column for column in range(9) if not values[0, column].any()]

    assert changed([wb.zero("attn_out", layers=0, positions=-1)]) == [5]
    assert changed([wb.zero("attn_out", layers=0, positions=[1, 7])]) == [1, 7]
    assert changed([wb.on_prompt(wb.zero("attn_out", layers=0))]) == [0, 1, 2, 3, 4, 5]
    assert changed([wb.on_generated(wb.zero("attn_out", layers=0))]) == [6, 7, 8]
    assert changed([wb.zero("attn_out", layers=0)]) == list(range(9))
    assert changed([wb.on_prompt(("attn_out", lambda value, at: value * 0))]) == [0, 1, 2, 3, 4, 5]
    for position in (9, -7):
        with pytest.raises(
            wb.errors.InterventionError, match=r"is one of 0 to 8, or -6 to -1 from the end of the prompt"
        ):
            changed([wb.zero("attn_out", layers=0, positions=position)])


def test_a_single_new_token_is_no_generated_column():
    model, tokens = plain(), some_tokens()
    hooks = [wb.on_generated(wb.zero("attn_out"))]
    assert torch.equal(model.generate(tokens, 1, hooks=hooks), model.generate(tokens, 1))


def test_steps_are_told_as_they_come_but_for_the_first():
    """The first once a step has run, since only then is it known that hooks fit steps as well."""
    order: list[str] = []
    hooks = [("embed", lambda value, at: order.append(f"pass {at.columns.start}"))]
    plain().generate(some_tokens(), 4, hooks=hooks, on_step=lambda step: order.append(f"step {step.number}"))
    assert order == ["pass 0", "pass 7", "step 0", "step 1", "pass 8", "step 2", "pass 9", "step 3"]


def test_on_generated_is_refused_where_nothing_is_generated():
    model = plain()
    with pytest.raises(wb.errors.InterventionError, match="generated tokens only"):
        model(some_tokens(), hooks=[wb.on_generated(wb.zero("attn_out"))])
    tokens = some_tokens()
    both = [wb.on_prompt(wb.zero("attn_out"))], [wb.zero("attn_out")]
    assert torch.equal(model(tokens, hooks=both[0])[0], model(tokens, hooks=both[1])[0])


# Memory


def kept_by_hand(attn, columns: int) -> int:
    """float32 numbers that an attention keeps of so many columns."""
    if hasattr(attn, "d_latent"):
        return columns * (attn.d_latent + attn.d_rope)
    seen = columns if attn.window is None else min(columns, attn.window)
    return seen * 2 * attn.n_kv_heads * attn.d_head


@given(st.one_of(attentions(), latent_attentions()))
def test_memory_is_what_arithmetic_says(attn):
    spec = spec_of(attn)
    model = powered(spec)
    text = model._read(some_tokens(3, 5), None, None)
    passes = Passes(model, text, 12, {}, None)
    tokens, positions = text.tokens, text.positions
    for _ in range(8):
        passes.next_logits(tokens, positions)
        tokens = torch.cat([tokens, tokens[:, :1]], 1)
        positions = torch.cat([positions, positions[:, -1:] + 1], 1)
    assert passes.memory is not None
    assert passes.memory.n_bytes == 3 * 2 * 4 * kept_by_hand(attn, 12)
    assert passes.memory.n_bytes == wb.costs(spec, dtype=torch.float32, tokens=12, batch=3).memory.kv_cache


def test_memory_is_constant_under_a_window():
    memory, sizes = Growing(capacity=1000), []
    for step in range(50):
        n_new = 20 if step == 0 else 1
        start = 0 if step == 0 else 19 + step
        positions = torch.arange(start, start + n_new)[None]
        seen_positions, seen = memory.extend(0, positions, {"k": positions[..., None].float()}, window=8)
        assert torch.equal(seen_positions[0, -8:], torch.arange(start + n_new - 8, start + n_new))
        assert torch.equal(seen["k"][..., 0], seen_positions.float())
        sizes.append(memory.n_bytes)
    assert set(sizes) == {8 * 4}


def test_a_text_that_comes_in_pieces_is_seen_whole_within_the_window():
    """Each of several new queries sees a whole window before it."""
    memory = Growing(capacity=100)
    for pieces in ((0, 5), (5, 9), (9, 10), (10, 20)):
        positions = torch.arange(*pieces)[None]
        seen, _ = memory.extend(0, positions, {"k": positions[..., None].float()}, window=4)
        assert set(range(max(0, pieces[0] - 3), pieces[1])) <= set(seen[0].tolist())


# Sampling


def logits_of(seed: int = 0, rows: int = 3) -> torch.Tensor:
    return 3 * torch.randn(rows, VOCAB, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("seed", range(4))
def test_what_can_be_drawn_is_what_transformers_can_draw(seed):
    logits, tokens = logits_of(seed), some_tokens(3, 9, seed=seed)
    processors = LogitsProcessorList(
        [
            theirs.RepetitionPenaltyLogitsProcessor(1.7),
            theirs.TemperatureLogitsWarper(0.6),
            theirs.TopKLogitsWarper(9),
            theirs.TopPLogitsWarper(0.8),
        ]
    )
    ours = penalised(logits, tokens, torch.ones_like(tokens, dtype=torch.bool), 1.7) / 0.6
    ours = within_top_p(within_top_k(ours, 9), 0.8)
    wanted = processors(tokens, logits.clone())  # type: ignore[arg-type]
    assert torch.allclose(ours.softmax(-1), wanted.softmax(-1), atol=1e-6)
    assert (ours.isfinite().sum(1) < 9).any()


def test_draws_have_the_probabilities_of_the_model():
    """Against counts: 40,000 draws of one row."""
    logits = logits_of(rows=1).expand(40_000, -1)
    nothing = torch.zeros(40_000, 1, dtype=torch.long)
    drawn = Sampling(temperature=2.0, seed=0).choose(
        logits, nothing, nothing.bool(), nothing[:, 0] == 0, torch.Generator().manual_seed(0)
    )
    share = drawn.bincount(minlength=VOCAB) / len(drawn)
    assert (share - (logits[0] / 2).softmax(-1)).abs().max() < 0.01


def test_padding_is_not_a_repetition():
    sampling = Sampling(repetition_penalty=1e6)
    logits = torch.tensor([[3.0, 2.0, 1.0]])
    tokens, real = torch.tensor([[0, 1]]), torch.tensor([[False, True]])
    running = torch.tensor([True])
    assert sampling.choose(logits, tokens, real, running, None).tolist() == [0]
    assert sampling.choose(logits, tokens, ~real, running, None).tolist() == [1]


def test_a_seed_gives_the_same_and_another_seed_another():
    model = plain()
    tokens = some_tokens(2, 4)
    options = {"temperature": 1.0, "max_new_tokens": 20}
    first = model.generate(tokens, seed=1, **options)
    assert torch.equal(first, model.generate(tokens, seed=1, **options))
    assert torch.equal(first, model.generate(tokens, seed=1, use_kv_cache=False, **options))
    assert not torch.equal(first, model.generate(tokens, seed=2, **options))
    torch.manual_seed(0)
    anew = [model.generate(tokens, **options) for _ in range(2)]
    assert not torch.equal(*anew)


def test_a_tiny_temperature_is_greedy_and_one_token_is_too():
    model = plain()
    tokens = some_tokens(2, 4)
    greedy = model.generate(tokens, 8)
    for temperature in (1e-30, 1e-300):
        assert torch.equal(greedy, model.generate(tokens, 8, temperature=temperature, seed=0))
    assert torch.equal(greedy, model.generate(tokens, 8, temperature=5.0, top_k=1, seed=0))
    assert torch.equal(greedy, model.generate(tokens, 8, temperature=5.0, top_p=1e-9, seed=0))


# Stops, steps, text


def test_rows_end_by_themselves_and_what_follows_is_no_token():
    model = plain()
    tokens = some_tokens(3, 4)
    free = model.generate(tokens, 10)
    stop = int(free[0, 6])
    out, cache = model.generate_with_cache(tokens, 10, stop=stop)
    for row in range(3):
        said = free[row, 4:].tolist()
        length = said.index(stop) + 1 if stop in said else 10
        assert out[row, 4 : 4 + length].tolist() == said[:length]
        assert not out[row, 4 + length :].any()
        assert cache.positions[row, : 4 + length].tolist() == list(range(4 + length))[: cache.positions.shape[1]]
        assert (cache.positions[row, 4 + length :] == -1).all()
    everywhere = model.generate(tokens[:1], 10, stop=[stop])
    assert everywhere.shape == (1, 4 + free[0, 4:].tolist().index(stop) + 1)  # nobody is left to go on


def test_text_in_text_out(smollm):
    prompt = "When Mary and John went to the store, John gave a drink to"
    text = smollm.generate(prompt, 6)
    assert text == prompt + " Mary, and Mary gave a"
    assert smollm.generate([prompt, "Two and two"], 6)[0] == text
    assert smollm.generate(smollm.to_tokens(prompt), 6).tolist() == smollm.to_tokens(text).tolist()
    assert smollm.generate(prompt, 20, stop=" gave") == prompt + " Mary, and Mary"
    assert smollm.generate(prompt, 20, stop=["ary gave", "nowhere"]) == prompt + " Mary, and M"
    comma = smollm.to_single_token(",")
    assert smollm.generate(prompt, 20, stop=comma) == prompt + " Mary"
    assert smollm.generate(smollm.to_tokens(prompt), 20, stop=comma)[0, -1] == comma


def test_the_end_of_text_token_ends_a_text_unless_told_otherwise(smollm):
    eos = smollm.tokenizer.eos_id
    comma = smollm.to_single_token(",")
    assert eos is not None
    steps: list[Step] = []
    ids = smollm.to_tokens("Hello")

    towards = torch.linalg.solve(smollm.W_U @ smollm.W_U.T, smollm.W_U[:, eos])

    def to_eos(value, at):  # the final norm's output that the unembedding turns into the end of text
        return (1e4 * towards).expand_as(value)

    out = smollm.generate(ids, 5, hooks=[("ln_final.out", to_eos)], on_step=steps.append)
    assert out.tolist() == [[*ids[0].tolist(), eos]]
    assert smollm.generate("Hello", 5, hooks=[("ln_final.out", to_eos)]) == "Hello"
    for stop in ("x", comma, ["x", comma]):  # beside what is asked for
        assert smollm.generate("Hello", 5, stop=stop, hooks=[("ln_final.out", to_eos)]) == "Hello"
    assert smollm.generate(ids, 3, stop=[], hooks=[("ln_final.out", to_eos)])[0, -3:].tolist() == [eos] * 3


def test_steps_are_told_in_order_and_add_up_to_the_text(smollm):
    steps: list[Step] = []
    prompts = ["Emoji: 😀 🎉 and then 日本語 😀 🎉", "One, two, three,"]
    texts = smollm.generate(prompts, 12, on_step=steps.append, stop=["seven", "🎉 日"])
    assert [step.number for step in steps] == list(range(len(steps)))
    for row, (prompt, text) in enumerate(zip(prompts, texts, strict=True)):
        assert prompt + "".join(step.texts[row] for step in steps) == text
        assert "seven" not in text
        assert not any("\ufffd" in step.texts[row] for step in steps[:-1])
    ended = [step.tokens[1].item() for step in steps]
    assert ended[-1] == -1
    assert -1 not in ended[: ended.index(-1)]


def test_half_a_stop_string_is_held_back():
    class Letters:
        def knows(self, token_id):
            return True

        def decode(self, ids):
            return "".join(chr(i) for i in ids)

    row = Continuation([ord("x")], Stop(frozenset(), ("abc",)), Letters())  # type: ignore[arg-type]
    told = []
    for letter in "zabab":
        row.add(ord(letter))
        told.append(row.unread(last=False))
    assert told == ["z", "", "", "ab", ""]
    row.add(ord("d"))
    assert row.unread(last=True) == "abd"
    assert row.text == "zababd"
    row = Continuation([], Stop(frozenset(), ("abc",)), Letters())  # type: ignore[arg-type]
    for letter in "zabc":
        row.add(ord(letter))
    assert (row.text, row.ended, row.unread(last=True)) == ("z", True, "z")


def by_bytes() -> Tokenizer:
    """Llama 2's kind: letters that are no token come as bytes, and bytes that are no letter spoil those beside them."""
    vocab = {"<unk>": 0, "<s>": 1, "</s>": 2} | {f"<0x{byte:02X}>": 3 + byte for byte in range(256)}
    vocab |= {letter: len(vocab) + at for at, letter in enumerate("▁abc")}
    backend = tokenizers.Tokenizer(tokenizers.models.BPE(vocab, [], unk_token="<unk>", byte_fallback=True))
    parts = [tokenizers.normalizers.Prepend("▁"), tokenizers.normalizers.Replace(" ", "▁")]
    backend.normalizer = tokenizers.normalizers.Sequence(parts)  # type: ignore[assignment]
    decoders = tokenizers.decoders
    backend.decoder = decoders.Sequence(  # type: ignore[assignment]
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return Tokenizer(backend, 1, 2, None, adds_bos=False)


@pytest.mark.parametrize("text", ["😀😀😀a", "日本😀語😀日a", " a 😀 b", "😀😀😀", "a"])
@pytest.mark.parametrize("prompt", ["ab", "😀😀", "a 日"])
def test_letters_made_of_bytes_are_told_whole(text, prompt):
    tokenizer = by_bytes()
    given = tokenizer.encode(prompt)
    new = tokenizer.encode(prompt + text)[len(given) :]
    for end in ([], [2]):
        row, told = Continuation(given, Stop(frozenset({2}), ()), tokenizer), []
        for token in [*new, *end]:
            row.add(token)
            told.append(row.unread(last=False))
        assert row.text == text
        assert "".join(told) + row.unread(last=True) == text
        assert not any("\ufffd" in each for each in told)
    row = Continuation(given, Stop(frozenset(), (text[-1],)), tokenizer)
    for token in new:
        row.add(token)
    assert row.ended
    assert row.text == text[: text.index(text[-1])]


def test_a_prompt_that_ends_amid_a_letter_is_continued():
    tokenizer = by_bytes()
    ids = tokenizer.encode("a😀b")
    for cut in range(2, 6):
        row = Continuation(ids[:cut], Stop(frozenset(), ()), tokenizer)
        for token in ids[cut:]:
            row.add(token)
        assert row.text.endswith("b")
        assert cut in (2,) or row.text == "😀b"


def test_half_a_letter_at_the_end_is_searched_for_stops_too(smollm):
    half = smollm.to_tokens(" 😀")[0, :-1].tolist()
    row = Continuation([], Stop(frozenset(), (" ",)), smollm.tokenizer)
    for token in half:
        row.add(token)
    assert row.unread(last=True) == ""
    assert row.ended


def test_a_vocabulary_may_be_larger_than_the_tokenizers_and_smaller_than_its_padding():
    model = plain()
    letters = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 1, "[PAD]": VOCAB + 5}, unk_token="a"))
    model.tokenizer = Tokenizer(letters, None, None, VOCAB + 5, adds_bos=False)
    tokens = some_tokens(3, 4)
    free = model.generate(tokens, 10)
    assert free.shape == (3, 14)
    assert isinstance(model.generate("a", 10), str)
    out = model.generate(tokens, 10, stop=int(free[0, 5]))
    assert out.max() < VOCAB


def test_a_row_that_has_ended_cannot_spoil_the_others():
    """Renormalising the pattern of a row without a token divides 0 by 0."""
    model, tokens = plain(), some_tokens(3, 4)

    def renormalised(pattern, at):
        pattern[..., 0] *= 0.5
        return pattern / pattern.sum(-1, keepdim=True)

    hooks = [("pattern", renormalised)]
    free = model.generate(tokens, 10, hooks=hooks)
    for options in ({}, {"temperature": 1e-9, "seed": 0}):
        out = model.generate(tokens, 10, hooks=hooks, stop=int(free[0, 5]), **options)
        for row in range(3):
            length = [*free[row, 4:].tolist(), int(free[0, 5])].index(int(free[0, 5])) + 1
            assert torch.equal(out[row, 4 : 4 + length][:10], free[row, 4 : 4 + length])


# Bad input: before any token is made


def tell_nobody(step: Step) -> None:
    raise AssertionError("a token was made")


BAD = {
    "a temperature below 0": ({"temperature": -0.1}, "temperature is -0.1; a number from 0"),
    "no temperature": ({"temperature": float("nan")}, "temperature is nan"),
    "top_p of nothing": ({"top_p": 0.0}, "top_p is 0.0; a share above 0 and up to 1"),
    "top_p of more than all": ({"top_p": 1.1}, "top_p is 1.1"),
    "top_k of nothing": ({"top_k": 0}, "top_k is 0; a whole number from 1"),
    "top_k of no draw": ({"top_k": 5}, "top_k chooses what is drawn from and temperature 0 draws nothing"),
    "top_p of no draw": ({"top_p": 0.5}, "temperature=1.0 does"),
    "no penalty": ({"repetition_penalty": 0}, "repetition_penalty is 0; a positive number"),
    "a seed below 0": ({"seed": -1}, "seed is -1"),
    "an empty stop string": ({"stop": [""]}, "a stop string is empty"),
    "an empty stop string alone": ({"stop": ""}, "a stop string is empty"),
    "a stop string without tokenizer": ({"stop": "a"}, "no tokenizer"),
    "a stop id out of range": ({"stop": VOCAB}, f"stop id {VOCAB} is out of range"),
    "nothing new": ({"max_new_tokens": 0}, "max_new_tokens is 0; at least 1"),
    "past the context": ({"max_new_tokens": 60}, "5 tokens and 60 new ones make 65; this model's context is 64"),
}
WRONG_KINDS = {
    "a temperature": ({"temperature": "hot"}, "temperature is 'hot'"),
    "a truth as top_k": ({"top_k": True}, "top_k is True"),
    "half a token": ({"max_new_tokens": 1.5}, "max_new_tokens is 1.5"),
    "half a seed": ({"seed": 0.5}, "seed is 0.5"),
    "a stop": ({"stop": [1.5]}, "stop is made of texts and ids"),
    "bytes": ({"stop": b"a"}, "stop is made of texts and ids"),
    "half a token as a tensor": ({"max_new_tokens": torch.tensor(2.5)}, "max_new_tokens is tensor"),
    "a watcher": ({"on_step": 3}, "on_step is 3"),
    "a keyword": ({"temprature": 1}, "temperature"),
}


@pytest.mark.parametrize(("options", "said"), BAD.values(), ids=BAD.keys())
def test_bad_input_is_refused_before_any_token(options, said):
    model = plain()
    for method in (model.generate, model.generate_with_cache):
        with pytest.raises(wb.errors.InputError, match=said):
            method(some_tokens(2, 5), **{"on_step": tell_nobody, **options})


@pytest.mark.parametrize(("options", "said"), WRONG_KINDS.values(), ids=WRONG_KINDS.keys())
def test_wrong_kinds_are_refused(options, said):
    model = plain()
    for method in (model.generate, model.generate_with_cache):
        with pytest.raises(wb.errors.KindError, match=said):
            method(some_tokens(2, 5), **options)


def test_a_hook_that_fits_the_prompt_and_no_step_is_found_before_anybody_sees_a_token():
    model = plain()
    tokens = some_tokens(2, 5)
    _, cache = model.run_with_cache(tokens)
    fixed = cache["attn_out", 0] + 1
    for hook in (("blocks.0.hook_attn_out", lambda value, at: fixed), wb.patch(cache, "attn_out", layers=0)):
        with pytest.raises(wb.errors.WorkbenchError, match=r"blocks.0.hook_attn_out.*(\[2, 1, 8\]|reaches position 5)"):
            model.generate(tokens, 4, hooks=[hook], on_step=tell_nobody)


def test_caches_that_do_not_fit_are_found_before_anybody_sees_a_token():
    model, tokens = plain(), some_tokens(2, 6)
    _, cache = model.run_with_cache(tokens)
    _, one = model.run_with_cache(tokens[:1])
    _, sliced = model.run_with_cache(tokens, pos_slice=-1)
    for change, said in (
        (wb.patch(cache, "resid_pre", layers=1, positions=[0, 7]), "has 6 positions and .* reaches position 7; choose"),
        (wb.patch(one, "resid_pre", layers=1, positions=7), r"is \[1, 6, 8\] and this run's \[2, 6, 8\]"),
        (wb.patch(sliced, "resid_pre", layers=1, positions=0), r"is \[2, 1, 8\] and this run's \[2, 6, 8\]"),
        (wb.patch(one.remove_batch_dim(), "z", layers=1, positions=0), r"is \[6, 2, 4\] and this run's \[2, 6, 2, 4\]"),
    ):
        for use in (True, False):
            with pytest.raises(wb.errors.InterventionError, match=said):
                model.generate(tokens, 4, hooks=[change], on_step=tell_nobody, use_kv_cache=use)
    with pytest.raises(wb.errors.InterventionError, match="never called"):
        model.generate(tokens, 4, hooks=[wb.on_prompt(wb.on_generated(wb.zero("z")))])


def test_logits_that_are_not_numbers_are_refused():
    model = plain()
    with pytest.raises(wb.errors.InputError, match="NaN"):
        model.generate(some_tokens(), 4, hooks=[("resid_post", lambda value, at: value * float("nan"))])


def test_nothing_of_a_generation_stays_on_the_model():
    model = plain()
    before = {name: id(value) for name, value in vars(model).items()}
    tokens = some_tokens(2, 5)
    logits, _ = model(tokens)
    with pytest.raises(ZeroDivisionError):
        model.generate(tokens, 4, hooks=[("z", lambda value, at: value / (1 // (1 - at.columns.start // 6)))])
    model.generate(tokens, 4)
    assert {name: id(value) for name, value in vars(model).items()} == before
    assert torch.equal(model(tokens)[0], logits)


def test_a_view_generates_with_its_hooks():
    model = plain()
    tokens, hooks = some_tokens(2, 5), [wb.zero("attn_out", layers=0)]
    assert torch.equal(model.with_hooks(hooks).generate(tokens, 6), model.generate(tokens, 6, hooks=hooks))
    assert not torch.equal(model.generate(tokens, 6, hooks=hooks), model.generate(tokens, 6))


def test_a_model_that_trains_generates_without_a_graph():
    model = wb.HookedTransformer(plain().spec)
    out, cache = model.generate_with_cache(some_tokens(), 3)
    assert not any(value.requires_grad for value in cache.values())
    assert out.shape == (2, 10)


def test_bfloat16_generates():
    model = plain().to(torch.bfloat16)
    _, cache = model.generate_with_cache(some_tokens(), 3)
    assert cache["k", 0].dtype == torch.bfloat16


def test_the_plan_is_plain(smollm):
    """The room's own function, as `hooked` calls it."""
    model = plain()
    text = model._read(some_tokens(1, 4), None, None)
    made = generate(model, text, Plan(3, Sampling(), Stop(frozenset(), ())), {})
    assert made.tokens.shape == (1, 7)
    assert made.positions.tolist() == [[0, 1, 2, 3, 4, 5]]
