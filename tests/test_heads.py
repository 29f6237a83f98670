"""Scores of heads, against loops over the patterns of a plain run."""

import importlib
import math
import weakref

import pytest
import tokenizers
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from random_models import VOCAB, powered, some_tokens, specs
from test_cache import plain_spec
from words import WORDS, word_tokenizer

import workbench as wb
from workbench.heads import DEFAULT_KINDS, KINDS, Scorer
from workbench.model.attention import AttentionSpec
from workbench.model.block import PreNorm
from workbench.model.mlp import MLPSpec
from workbench.model.norms import LayerNormSpec
from workbench.tokenizer import Tokenizer

errors = wb.errors
ALL = tuple(KINDS)
MASKS = {
    "none": [[1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1]],
    "left": [[1, 1, 1, 1, 1, 1, 1], [0, 0, 0, 1, 1, 1, 1]],
    "right": [[1, 1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1, 1]],
    "within": [[0, 1, 1, 0, 1, 1, 1], [1, 1, 0, 0, 1, 1, 1]],
}
FEW = torch.tensor([[3, 5, 3, 3, 5, 1, 3], [2, 4, 2, 4, 4, 2, 2]])  # nearly every token comes back


# The oracle: every score by loops, over one text of numbers at a time.


def places_of(kind, tokens, q):
    """The positions that a query looks at, as the definitions say it in words."""
    before = [j for j in range(q) if tokens[j] == tokens[q]]
    return {
        "previous_token": [q - 1] if q else [],
        "duplicate_token": before,
        "induction": [j + 1 for j in before if j + 1 != q],
        "first_token": [0] if q else [],
    }[kind]


def score_by_hand(kind, texts, skip_first):
    """texts: (tokens, rows) pairs, rows[q][k] the attention among real tokens."""
    per_query = []
    for tokens, rows in texts:
        for q, row in enumerate(rows):
            if kind == "entropy":
                seen = row[1:] if skip_first else row
                total = sum(seen)
                if total:
                    per_query.append(-sum(p / total * math.log(p / total) for p in seen if p))
                continue
            places = places_of(kind, tokens, q)
            if skip_first and kind != "first_token":
                places = [k for k in places if k != 0]
            if places:
                per_query.append(sum(row[k] for k in places))
    return sum(per_query) / len(per_query) if per_query else math.nan


def texts_of(tokens, mask, pattern):
    """Real tokens of each row with the attention [query, key] among them; pattern [batch, query, key]."""
    for row, there, weights in zip(tokens, mask, pattern, strict=True):
        kept = [i for i, one in enumerate(there) if one]
        yield [int(row[i]) for i in kept], [[float(weights[q, k]) for k in kept] for q in kept]


def scores_by_hand(model, tokens, mask, skip_first, hooks=()):
    """[kind][layer][head]"""
    _, attention = model(tokens, hooks=hooks, attention_mask=torch.as_tensor(mask))
    return [
        [
            [
                score_by_hand(kind, list(texts_of(tokens, mask, layer[:, head])), skip_first)
                for head in range(len(layer[0]))
            ]
            for layer in attention
        ]
        for kind in ALL
    ]


def uniform(mask):
    """Attention that every real token pays alike to itself and the real tokens before it: [batch, query, key]."""
    pattern = torch.zeros(len(mask), len(mask[0]), len(mask[0]))
    for row, there in enumerate(mask):
        kept = [i for i, one in enumerate(there) if one]
        for position, q in enumerate(kept):
            pattern[row, q, kept[: position + 1]] = 1 / (position + 1)
    return pattern


@given(specs(adds=False), st.sampled_from(sorted(MASKS)), st.booleans(), st.booleans())
@settings(max_examples=40)
def test_every_score_is_what_loops_over_the_pattern_say(spec, padding, skip_first, few):
    model, tokens, mask = powered(spec), FEW if few else some_tokens(), MASKS[padding]
    mask_given = None if padding == "none" else torch.tensor(mask)
    wanted = scores_by_hand(model, tokens, mask, skip_first)
    empty = [kind for kind, values in zip(ALL, wanted, strict=True) if math.isnan(values[0][0])]
    kinds = [kind for kind in ALL if kind not in empty]
    scores = wb.head_scores(model, kinds, tokens, skip_first=skip_first, attention_mask=mask_given)
    n_heads = [layer.attn.n_heads for layer in spec.layers]
    assert scores.values.shape == (len(kinds), spec.n_layers, max(n_heads))
    assert scores.values.dtype == torch.float32
    for kind in kinds:
        for layer, there in enumerate(n_heads):
            by_hand = torch.tensor(wanted[ALL.index(kind)][layer])
            assert torch.allclose(scores[kind][layer, :there], by_hand, atol=1e-5, equal_nan=True), (kind, layer)
            assert scores[kind][layer, there:].isnan().all()


@pytest.mark.parametrize("padding", MASKS)
@pytest.mark.parametrize("skip_first", [True, False])
@pytest.mark.parametrize("tokens", [FEW, some_tokens()], ids=["few", "many"])
def test_chance_is_what_uniform_attention_scores(padding, skip_first, tokens):
    mask = MASKS[padding]
    texts = list(texts_of(tokens, mask, uniform(mask)))
    scorer = Scorer(tokens, torch.tensor(mask), ALL, skip_first)
    by_hand = torch.tensor([score_by_hand(kind, texts, skip_first) for kind in ALL])
    assert torch.allclose(scorer.chance, by_hand, atol=1e-6, equal_nan=True)
    assert torch.allclose(scorer.of(uniform(mask)[:, None])[:, 0], by_hand, atol=1e-6, equal_nan=True)
    assert scorer.empty == tuple(kind for kind, value in zip(ALL, by_hand, strict=True) if value.isnan())


def test_by_hand():
    """a b a b: five numbers that can be read off the page."""
    pattern = torch.tensor([[1.0, 0.0, 0.0, 0.0], [0.3, 0.7, 0.0, 0.0], [0.1, 0.6, 0.3, 0.0], [0.2, 0.25, 0.3, 0.25]])[
        None, None
    ]
    tokens = torch.tensor([[7, 8, 7, 8]])
    with_first, without = (Scorer(tokens, None, ALL, skip).of(pattern)[:, 0].tolist() for skip in (False, True))
    #                                 previous             duplicate            induction          first
    assert with_first[:4] == pytest.approx([(0.3 + 0.6 + 0.3) / 3, (0.1 + 0.25) / 2, (0.6 + 0.3) / 2, 0.6 / 3])
    assert without[:4] == pytest.approx([(0.6 + 0.3) / 2, 0.25, (0.6 + 0.3) / 2, 0.6 / 3])
    rows = [[1.0], [0.3, 0.7], [0.1, 0.6, 0.3], [0.2, 0.25, 0.3, 0.25]]
    assert with_first[4] == pytest.approx(sum(-sum(p * math.log(p) for p in row) for row in rows) / 4)
    third, fourth = [0.6 / 0.9, 0.3 / 0.9], [0.25 / 0.8, 0.3 / 0.8, 0.25 / 0.8]
    assert without[4] == pytest.approx(sum(-sum(p * math.log(p) for p in row) for row in ([1.0], third, fourth)) / 3)


def test_a_token_said_twice_in_a_row_is_not_looked_for_in_itself():
    """a a b a: the last looks at a and b, the second has none."""
    scorer = Scorer(torch.tensor([[7, 7, 8, 7]]), kinds="induction", skip_first=False)
    pattern = torch.zeros(1, 1, 4, 4)
    pattern[0, 0, 3] = torch.tensor([0.1, 0.2, 0.4, 0.3])
    pattern[0, 0, 1] = torch.tensor([0.0, 1.0, 0.0, 0.0])
    assert scorer.of(pattern).item() == pytest.approx(0.2 + 0.4)


def test_the_first_tokens_sink_is_no_behaviour():
    """All attention on a first token that is said again, and again at its side."""
    tokens = torch.tensor([[5, 5, 6, 5, 6]])
    sink = torch.zeros(1, 1, 5, 5)
    sink[..., 0] = 1
    assert Scorer(tokens).of(sink)[:, 0].tolist() == [0, 0, 0, 1]
    bare = Scorer(tokens, skip_first=False).of(sink)[:, 0].tolist()
    assert bare == pytest.approx([1 / 4, 2 / 3, 0, 1])
    assert Scorer(tokens, kinds="entropy").of(sink).isnan().all()  # nothing is left of any row
    assert Scorer(tokens, kinds="entropy", skip_first=False).of(sink).item() == 0


def test_rows_that_do_not_sum_to_1():
    """A learned sink leaves less: entropy is of what there is, and shares stay shares."""
    tokens, pattern = FEW[:1], uniform(MASKS["none"])[:1, None]
    assert torch.allclose(Scorer(tokens, kinds="entropy").of(pattern / 8), Scorer(tokens, kinds="entropy").of(pattern))
    assert torch.allclose(Scorer(tokens).of(pattern / 8), Scorer(tokens).of(pattern) / 8)


def test_padding_never_counts_whatever_stands_there():
    """A pattern that a hook made may weigh padding."""
    mask = torch.tensor(MASKS["left"])
    pattern = torch.rand(2, 3, 7, 7, generator=torch.Generator().manual_seed(0))
    real = (mask[:, None, :, None] & mask[:, None, None, :]).bool()
    spoilt = pattern.where(real, 100.0)
    tokens = torch.where(mask.bool(), FEW, 3)  # padding that repeats a token
    for skip_first in (True, False):
        clean, wild = (Scorer(tokens, mask.bool(), ALL, skip_first).of(one) for one in (pattern, spoilt))
        assert torch.equal(clean, wild)


@pytest.mark.parametrize("n_rows", [1, 2, 3, 7])
def test_scores_are_sums_over_rows(n_rows):
    """A few rows at a time, whose keys end with the last of them."""
    mask = torch.tensor(MASKS["left"]).bool()
    pattern = torch.rand(2, 3, 7, 7, generator=torch.Generator().manual_seed(0)).tril()
    scorer = Scorer(FEW, mask)
    parts = [
        scorer.of_rows(pattern[:, :, start : start + n_rows, : start + n_rows], start) for start in range(0, 7, n_rows)
    ]
    assert torch.allclose(sum(parts), scorer.of(pattern), atol=1e-6)
    assert torch.equal(Scorer(FEW, mask, ALL).of_rows(pattern, 0), Scorer(FEW, mask, ALL).of(pattern))
    with pytest.raises(errors.InputError, match="'entropy' is scored from all rows at once, and 2 came"):
        Scorer(FEW, mask, ALL).of_rows(pattern[:, :, :2], 0)


def test_only_the_places_are_looked_at():
    """34 GB, if anything of the pattern's size were made."""
    pattern = torch.full((1, 1, 1, 1), 0.5).expand(1, 512, 4096, 4096)
    scores = Scorer(torch.arange(4096)[None] % 1000).of(pattern)
    assert scores.shape == (4, 512)
    assert (scores[0] == 0.5).all()


def test_scores_add_up_over_texts_of_unequal_length(model_of_words):
    texts = ["c a f c a f c", "e b e"]
    rows = [list(model_of_words(text)[1]) for text in texts]
    ids = [model_of_words.to_tokens(text)[0].tolist() for text in texts]
    scores = wb.head_scores(model_of_words, tokens=texts)
    for index, kind in enumerate(DEFAULT_KINDS):
        for layer in range(3):
            for head in range(4):
                alone = [(ids[i], rows[i][layer][0, head].tolist()) for i in range(2)]
                assert scores.values[index, layer, head].item() == pytest.approx(
                    score_by_hand(kind, alone, True), abs=1e-5
                )


@pytest.fixture
def model_of_words():
    model = powered(plain_spec())
    model.tokenizer = word_tokenizer()
    return model


# Random tokens


def seen(model, **keywords):
    """The ids that a run without tokens is over."""
    found = []
    watch = ("pattern", lambda value, at: found.append(value.shape[-1]))
    wb.head_scores(model, hooks=[watch], **keywords)
    return found[0]


def repeated(model, seed=0):
    return importlib.import_module("workbench.heads.repeated").repeated_tokens(model, seed)


def test_random_tokens_are_said_twice():
    model = powered(plain_spec())
    tokens = repeated(model)
    assert tokens.shape == (4, 2 * VOCAB)  # each token once: the vocabulary has no more
    assert torch.equal(tokens[:, :VOCAB], tokens[:, VOCAB:])
    assert all(sorted(row[:VOCAB].tolist()) == list(range(VOCAB)) for row in tokens)
    assert len({tuple(row.tolist()) for row in tokens}) == 4
    assert torch.equal(repeated(model), tokens)
    assert not torch.equal(repeated(model, 1), tokens)
    given, drawn = wb.head_scores(model, tokens=tokens), wb.head_scores(model)
    assert torch.equal(given.values, drawn.values)
    assert not torch.equal(wb.head_scores(model, seed=1).values, drawn.values)


def test_random_tokens_leave_other_draws_alone():
    state = torch.random.get_rng_state()
    wb.head_scores(powered(plain_spec()))
    assert torch.equal(torch.random.get_rng_state(), state)


def test_a_short_context_holds_fewer():
    model = powered(plain_spec(n_ctx=9))
    assert repeated(model).shape == (4, 8)
    assert seen(model) == 8
    with pytest.raises(errors.InputError, match=r"a context of 3 .* give tokens="):
        wb.head_scores(powered(plain_spec(n_ctx=3)))


def special_tokenizer(adds_bos):
    """Words, of which a is the BOS and b another special token."""
    backend = tokenizers.Tokenizer(tokenizers.models.WordLevel({word: index for index, word in enumerate(WORDS)}))
    backend.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    backend.add_special_tokens(["a", "b"])
    return Tokenizer(backend, 0, 2, adds_bos=adds_bos)


def test_special_tokens_are_not_drawn_and_bos_follows_the_tokenizers_rule():
    model = powered(plain_spec())
    model.tokenizer = special_tokenizer(adds_bos=True)
    tokens = repeated(model)
    n_words = VOCAB - 3
    assert tokens.shape == (4, 1 + 2 * n_words)
    assert (tokens[:, 0] == 0).all()
    assert all(sorted(row[1 : 1 + n_words].tolist()) == list(range(3, VOCAB)) for row in tokens)
    assert torch.equal(tokens[:, 1 : 1 + n_words], tokens[:, 1 + n_words :])
    model.tokenizer = special_tokenizer(adds_bos=False)
    assert repeated(model).shape == (4, 2 * n_words)


def test_bos_and_the_words_fit_the_context():
    model = powered(plain_spec(n_ctx=10))
    model.tokenizer = special_tokenizer(adds_bos=True)
    assert repeated(model).shape == (4, 9)


def test_only_tokens_that_the_model_has():
    model, words = powered(plain_spec()), [*WORDS, *(f"w{index}" for index in range(VOCAB))]
    backend = tokenizers.Tokenizer(tokenizers.models.WordLevel({word: index for index, word in enumerate(words)}))
    model.tokenizer = Tokenizer(backend, None, None, adds_bos=False)
    assert repeated(model).max() == VOCAB - 1


# Kinds


def test_a_text_in_which_nothing_comes_back(model_of_words):
    """Without being asked for, what has no place is NaN; asked for by name it is refused."""
    scores = wb.head_scores(model_of_words, tokens="a b c")
    assert scores["duplicate_token"].isnan().all()
    assert scores["induction"].isnan().all()
    assert not scores["previous_token"].isnan().any()
    assert scores.chance.isnan().tolist() == [False, True, True, False]
    for kinds in ("induction", ["previous_token", "induction"], (*DEFAULT_KINDS,)):
        with pytest.raises(errors.InputError, match=r"no place for '(induction|duplicate_token)': too few tokens"):
            wb.head_scores(model_of_words, kinds, "a b c")
    with pytest.raises(errors.InputError, match="no place for 'previous_token'"):
        wb.head_scores(model_of_words, tokens="a")
    with pytest.raises(errors.InputError, match="no place for 'previous_token'"):
        wb.head_scores(model_of_words, "previous_token", "a b")  # the first token is skipped
    assert wb.head_scores(model_of_words, "previous_token", "a b", skip_first=False).values.isfinite().all()


def test_layers_of_different_numbers_of_heads():
    one, other = (
        PreNorm(AttentionSpec(n_heads, n_kv_heads=1, d_head=6), MLPSpec(d_mlp=10), LayerNormSpec(), LayerNormSpec())
        for n_heads in (2, 3)
    )
    scores = wb.head_scores(powered(plain_spec(layers=(one, other, one))), ALL)
    there = torch.tensor([[True, True, False], [True, True, True], [True, True, False]])
    assert torch.equal(~scores.values.isnan(), there.expand(5, 3, 3))


def test_kinds_by_name(model_of_words):
    every = wb.head_scores(model_of_words, ALL)
    assert every.kinds == ALL
    assert every.units == ("share", "share", "share", "share", "nats")
    one = wb.head_scores(model_of_words, "induction")
    assert one.kinds == ("induction",)
    assert torch.equal(one["induction"], every["induction"])
    turned = wb.head_scores(model_of_words, ALL[::-1])
    assert torch.equal(turned.values, every.values.flip(0))
    assert torch.equal(turned.chance, every.chance.flip(0))


# Runs


def test_hooks_and_views_are_scored_as_they_run():
    model = powered(plain_spec())
    blur = [(("pattern", 1), lambda value, at: value.flip(1)), wb.zero(("z", 0), heads=2)]
    by_hand = scores_by_hand(model, FEW, MASKS["none"], True, blur)
    scores = wb.head_scores(model, ALL, FEW, hooks=blur)
    assert torch.allclose(scores.values, torch.tensor(by_hand), atol=1e-5)
    assert torch.equal(wb.head_scores(model.with_hooks(blur), ALL, FEW).values, scores.values)
    assert torch.equal(wb.head_scores(model.with_hooks(blur[:1]), ALL, FEW, hooks=blur[1:]).values, scores.values)
    assert not torch.allclose(wb.head_scores(model, ALL, FEW).values, scores.values)


def test_a_view_that_also_edits_behind_the_last_block():
    """What comes after all attention is not run, and is no error."""
    model, called = powered(plain_spec()), []
    view = model.with_hooks([("ln_final.normalized", lambda value, at: called.append(at.name))])
    assert torch.equal(wb.head_scores(view, tokens=FEW).values, wb.head_scores(model, tokens=FEW).values)
    assert not called


def test_one_run_and_one_pattern_at_a_time(monkeypatch):
    model, runs, alive, most = powered(plain_spec()), [], [], []
    of = Scorer.of

    def watched(self, pattern):
        alive.append(weakref.ref(pattern))
        most.append(sum(one() is not None for one in alive))
        return of(self, pattern)

    monkeypatch.setattr(Scorer, "of", watched)
    wb.head_scores(model, tokens=FEW, hooks=[("embed", lambda value, at: runs.append(at.name))])
    assert runs == ["hook_embed"]
    assert most == [1, 1, 1]


def test_no_gradient_is_kept_and_weights_stay():
    model = powered(plain_spec()).requires_grad_(True)
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    assert not wb.head_scores(model).values.requires_grad
    assert all(torch.equal(parameter, before[name]) for name, parameter in model.named_parameters())


def test_low_precision_gives_float32():
    model = powered(plain_spec()).to(torch.bfloat16)
    scores = wb.head_scores(model, ALL, FEW)
    assert scores.values.dtype == torch.float32
    assert torch.allclose(scores.values, torch.tensor(scores_by_hand(model, FEW, MASKS["none"], True)), atol=1e-5)


def test_what_would_not_fit_is_refused_before_anything_runs(monkeypatch):
    model = powered(plain_spec())
    module = importlib.import_module("workbench.heads.head_scores")
    size = 2 * 2 * 4 * 7 * 7 * 4  # scores and pattern, 2 texts, 4 heads, 7 x 7, float32
    monkeypatch.setattr(module, "free_memory", lambda device: size)
    wb.head_scores(model, tokens=FEW)
    monkeypatch.setattr(module, "free_memory", lambda device: size - 1)
    monkeypatch.setattr(type(model), "run_with_cache", lambda *_, **__: pytest.fail("it ran"))
    with pytest.raises(errors.TooLargeError, match="the attention of one layer over 2 x 7 tokens takes"):
        wb.head_scores(model, tokens=FEW)


# Results


@pytest.fixture(scope="module")
def scores():
    return wb.head_scores(powered(plain_spec()), ALL, FEW)


def test_as_a_table(scores):
    table = scores.to_dataframe()
    assert list(table.columns) == ["kind", "layer", "head", "score"]
    assert len(table) == 5 * 3 * 4
    for row in table.itertuples():
        assert row.score == scores[row.kind][row.layer, row.head].item()


def test_top_heads(scores):
    for kind in ALL:
        table = scores.top(kind, 5)
        assert list(table.columns) == ["layer", "head", "score"]
        every = sorted(((scores[kind][i, j].item(), i, j) for i in range(3) for j in range(4)), reverse=True)
        assert [(row.score, row.layer, row.head) for row in table.itertuples()] == every[:5]
    assert len(scores.top("induction")) == 10
    assert len(scores.top("induction", 99)) == 12
    heads = list(scores.top("induction", 2)[["layer", "head"]].itertuples(index=False))
    wb.ablate(powered(plain_spec()), FEW, wb.logit(1), selection=heads, progress=False)


def test_top_leaves_out_heads_that_are_not_there():
    few = wb.HeadScores(torch.tensor([[[0.5, math.nan], [0.1, 0.9]]]), ("induction",), torch.tensor([0.1]), ("share",))
    assert few.top("induction")[["layer", "head"]].values.tolist() == [[1, 1], [0, 0], [1, 0]]
    alone = wb.HeadScores(torch.tensor([[[0.5]]]), ("induction",), torch.tensor([0.1]), ("share",))
    assert alone.top("induction").values.tolist() == [[0, 0, 0.5]]


def test_how_it_is_said(scores):
    assert repr(scores) == (
        "HeadScores of previous_token, duplicate_token, induction, first_token, entropy: 3 layers x 4 heads"
    )
    assert scores.figure().data


def test_smollm_has_the_heads_that_the_field_knows(smollm):
    scores = wb.head_scores(smollm)
    assert scores.values.shape == (4, 30, 9)
    # a b c ... a b c: by hand for 4 texts of one kind
    n = 50
    chance = {
        "previous_token": sum(1 / (q + 1) for q in range(2, 2 * n)) / (2 * n - 2),
        "duplicate_token": sum(1 / (q + 1) for q in range(n + 1, 2 * n)) / (n - 1),
        "induction": sum(1 / (q + 1) for q in range(n, 2 * n)) / n,
        "first_token": sum(1 / (q + 1) for q in range(1, 2 * n)) / (2 * n - 1),
    }
    assert dict(zip(scores.kinds, scores.chance.tolist(), strict=True)) == pytest.approx(chance)
    for kind in ("previous_token", "duplicate_token", "induction"):
        assert scores.top(kind, 2)["score"].min() > 15 * chance[kind]
    assert (scores["first_token"] > 0.5).float().mean() > 0.3  # which skip_first is there for
    assert scores["induction"][:4].max() < 0.1  # it takes an earlier layer's help (Elhage et al. 2021)


# What is refused


def test_what_does_not_exist_is_named_with_the_nearest(scores):
    model = powered(plain_spec())
    with pytest.raises(errors.InputError, match="no kind of head 'inductoin'; the nearest are: induction"):
        wb.head_scores(model, ["previous_token", "inductoin"])
    with pytest.raises(errors.InputError, match="no scores of 'inductoin'; the nearest are: induction"):
        scores["inductoin"]
    with pytest.raises(errors.InputError, match="no scores of 'first'"):
        scores.top("first")
    with pytest.raises(errors.KindError, match="no argument 'skipfirst'; the nearest are: skip_first"):
        wb.head_scores(model, skipfirst=False)


@pytest.mark.parametrize(
    ("error", "says", "arguments"),
    [
        (errors.KindError, "kinds are names such as 'induction', not int", {"kinds": 3}),
        (errors.KindError, "not 3", {"kinds": ["induction", 3]}),
        (errors.KindError, "not NoneType", {"kinds": None}),
        (errors.InputError, "no kinds came", {"kinds": []}),
        (errors.InputError, "'induction' came twice", {"kinds": ["induction", "entropy", "induction"]}),
        (errors.KindError, "seed is '0'", {"seed": "0"}),
        (errors.KindError, "seed is True", {"seed": True}),
        (errors.KindError, "seed is -1", {"seed": -1}),
        (errors.KindError, "skip_first is 1; True or False", {"skip_first": 1}),
        (errors.InputError, "attention_mask is for tokens, and none came", {"attention_mask": torch.ones(4, 4)}),
        (errors.InputError, r"attention_mask is \[3\]", {"tokens": FEW, "attention_mask": torch.ones(3)}),
        (errors.InputError, "no tokenizer", {"tokens": "a b"}),
        (errors.KindError, "a text, a list of texts", {"tokens": 3}),
        (errors.KindError, "hooks are a sequence", {"hooks": 3}),
        (errors.SiteError, "patern", {"hooks": [("patern", lambda value, at: None)]}),
    ],
)
def test_what_does_not_fit_is_said(error, says, arguments):
    with pytest.raises(error, match=says) as caught:
        wb.head_scores(powered(plain_spec()), **arguments)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("error", "says", "wrong"),
    [
        (errors.KindError, "not str's", lambda: wb.head_scores("smollm2-135m")),
        (errors.InputError, r"tokens are \[7\] and real \[7\]", lambda: Scorer(FEW[0])),
        (errors.InputError, r"real \[7\]", lambda: Scorer(FEW, torch.ones(7))),
        (errors.InputError, r"\[2, 7, 7\] came; \[2, head, 7, 7\]", lambda: Scorer(FEW).of(torch.ones(2, 7, 7))),
        (errors.InputError, r"\[1, 4, 7, 7\] came", lambda: Scorer(FEW).of(torch.ones(1, 4, 7, 7))),
        (errors.InputError, r"\[2, 4, 7, 6\] came", lambda: Scorer(FEW).of(torch.ones(2, 4, 7, 6))),
    ],
)
def test_wrong_arguments_are_sentences(error, says, wrong):
    with pytest.raises(error, match=says):
        wrong()


@pytest.mark.parametrize("n", [0, -1, 1.5, True, "3"])
def test_top_of_no_number(scores, n):
    with pytest.raises(errors.InputError, match=r"n is .*; a whole number from 1 on"):
        scores.top("induction", n)
