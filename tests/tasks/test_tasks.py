"""The four tasks: what each pair is, for tokenizers that split words, digits and starts of texts differently."""

import random
import re
import sys
from itertools import chain, combinations, permutations

import little_tokenizers as little
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from little_tokenizers import pieces
from tokenizers import normalizers, pre_tokenizers, processors

from workbench import tasks
from workbench.errors import InputError, KindError
from workbench.tasks.capitals import CAPITALS
from workbench.tasks.greater_than import NOUNS
from workbench.tasks.induction import WORDS
from workbench.tasks.ioi import NAMES, OBJECTS, PLACES, TEMPLATES
from workbench.tokenizer import Tokenizer

TOKENIZERS = {
    "two digits": little.byte_level(),
    "two digits, BOS": little.byte_level(adds_bos=True),
    "single digits": little.digits(),
    "sentencepiece": little.sentencepiece(),
}
TASKS = [tasks.ioi, tasks.induction, tasks.greater_than, tasks.capitals]
by_tokenizer = pytest.mark.parametrize("tokenizer", TOKENIZERS.values(), ids=TOKENIZERS)
by_task = pytest.mark.parametrize("task", TASKS, ids=lambda task: task.__name__)
seeds, sizes = st.integers(0, 2**70), st.integers(1, 6)


def each(pairs):
    """Of each pair: ids of both texts, answers, labels, and the positions at which the texts differ."""
    tokenizer = pairs.tokenizer
    for i, (clean, corrupted) in enumerate(zip(pairs.clean, pairs.corrupted, strict=True)):
        ours, theirs = tokenizer.encode(clean), tokenizer.encode(corrupted)
        assert len(ours) == len(theirs)
        labels = {name: at[i] for name, at in pairs.labels.items()}
        assert labels["end"] == len(ours) - 1
        differ = {position for position in range(len(ours)) if ours[position] != theirs[position]}
        yield ours, theirs, pairs.correct[i], pairs.incorrect[i], labels, differ


# ---- all of them ---------------------------------------------------------------------------------------


@by_task
@by_tokenizer
@given(seed=seeds, n=sizes)
def test_pairs_of_any_seed(task, tokenizer, seed, n):
    pairs = task(tokenizer, n=n, seed=seed)
    assert len(pairs) == len(pairs.clean) == len(pairs.corrupted) == n
    assert len(set(zip(pairs.clean, pairs.corrupted, strict=True))) == n
    for _, _, correct, incorrect, labels, differ in each(pairs):
        ids = [tokenizer.single(answer) for answer in correct + incorrect]
        assert len(set(ids)) == len(ids)
        assert differ
        assert max(differ) < labels["end"]
    assert all(list(at) == at and len(at) == n for at in pairs.labels.values())


@by_task
def test_seeds(task):
    tokenizer = TOKENIZERS["single digits"]
    pairs = task(tokenizer, n=12, seed=3)
    assert task(tokenizer, n=12, seed=3) == pairs
    assert task(tokenizer, n=20, seed=3)[:12] == pairs
    assert task(tokenizer, n=12, seed=np.int64(3)) == pairs
    others = [task(tokenizer, n=12, seed=seed).clean for seed in (0, 1, 2, 4)]
    assert all(a != b for a, b in combinations([*others, pairs.clean], 2))
    assert task(tokenizer) == task(tokenizer, n=32, seed=0)


@by_task
def test_no_other_random_state_is_touched(task):
    before = random.getstate(), torch.get_rng_state(), np.random.get_state()[1].tolist()
    task(TOKENIZERS["two digits"], n=4)
    random.seed(5)
    one = task(TOKENIZERS["two digits"], n=4)
    random.setstate(before[0])
    assert task(TOKENIZERS["two digits"], n=4) == one
    assert (random.getstate(), np.random.get_state()[1].tolist()) == (before[0], before[2])
    assert torch.equal(torch.get_rng_state(), before[1])


@by_task
@pytest.mark.parametrize(
    ("keywords", "kind", "says"),
    [
        ({"n": 0}, InputError, "n is 0; a whole number, at least 1, is wanted"),
        ({"n": -3}, InputError, "n is -3"),
        ({"n": 2.0}, KindError, "n is 2.0"),
        ({"n": True}, KindError, "n is True"),
        ({"n": "2"}, KindError, "n is '2'"),
        ({"seed": -1}, InputError, "seed is -1; a whole number, at least 0, is wanted"),
        ({"seed": 1.5}, KindError, "seed is 1.5"),
        ({"seed": None}, KindError, "seed is None"),
        ({"seed": "a"}, KindError, "seed is 'a'"),
        ({"sede": 1}, KindError, "no argument 'sede'; the nearest are: seed"),
        ({"n": 10**30}, InputError, r"n is 1000000000000000000000000000000; \d+ different pairs can be made"),
    ],
)
def test_what_cannot_be_drawn(task, keywords, kind, says):
    with pytest.raises(kind, match=says):
        task(TOKENIZERS["single digits"], **keywords)


@by_task
def test_a_tokenizer_is_wanted(task, smollm):
    with pytest.raises(InputError, match=r"this model has no tokenizer; one is wanted"):
        task(None)
    with pytest.raises(KindError, match=r"as model\.tokenizer, not HookedTransformer"):
        task(smollm)
    ending = little.byte_level()
    ending.backend.post_processor = processors.TemplateProcessing("$A </s>", special_tokens=[("</s>", 1)])
    with pytest.raises(InputError, match=r"ends each text with '</s>', which no answer follows"):
        task(ending)
    gpt2 = Tokenizer(little.byte_level().backend, 0, 0, adds_bos=True)  # whose BOS is its end of text
    assert task(gpt2, n=4) == task(TOKENIZERS["two digits, BOS"], n=4)


@by_task
@pytest.mark.parametrize("unknown", ["letters", "one token"])
def test_words_that_are_not_single_tokens(task, unknown):
    says = r"^0 (names|words|capitals) of \d+ \(\w+, \w+, \w+, \.\.\.\) are one token after a space"
    tokenizer = little.byte_level([], endings=[]) if unknown == "letters" else little.whole_words(["the"])
    if task is tasks.greater_than and unknown == "letters":
        assert len(task(tokenizer)) == 32  # of single digits
        return
    with pytest.raises(InputError, match="neither one token nor one each" if task is tasks.greater_than else says):
        task(tokenizer)


def test_no_word_is_there_twice():
    for words in (NAMES, WORDS, NOUNS, PLACES, OBJECTS, TEMPLATES, CAPITALS.values()):
        assert len({word.casefold() for word in words}) == len(words)


# ---- indirect object identification --------------------------------------------------------------------


@by_tokenizer
@given(
    seed=seeds, n=sizes, order=st.sampled_from(["ABBA", "BABA", "both"]), corruption=st.sampled_from(["swap", "abc"])
)
def test_ioi(tokenizer, seed, n, order, corruption):
    pairs = tasks.ioi(tokenizer, n, seed, corruption, order)
    assert pairs.labels.keys() == {"io", "s1", "s1+1", "s2", "end"}
    for i, (ours, theirs, (io,), (s,), at, differ) in enumerate(each(pairs)):
        assert [tokenizer.piece(ours[at[name]]) for name in ("io", "s1", "s2")] == [io, s, s]
        assert re.findall(r"[A-Z][a-z]+", pairs.clean[i]).count(io.strip()) == 1
        assert pairs.clean[i].count(s) == 2
        assert at["s1+1"] == at["s1"] + 1 < at["s2"]
        assert at["io"] < at["s2"]
        assert order == "both" or (order == "ABBA") == (at["io"] < at["s1"])
        if corruption == "swap":
            assert differ == {at["s2"]}
            assert theirs[at["s2"]] == ours[at["io"]]
        else:
            assert differ == {at["io"], at["s1"], at["s2"]}
            others = [tokenizer.piece(theirs[position]) for position in sorted(differ)]
            assert len({*others, io, s}) == 5


def test_ioi_is_the_papers():
    """Sentences from the paper's appendix, in either order, with every place and object."""
    texts = set(tasks.ioi(TOKENIZERS["two digits"], 3000, 0).clean)
    shapes = {re.sub("|".join(NAMES), "N", text) for text in texts}
    assert "Then, N and N had a long argument, and afterwards N said to" in shapes
    assert "After the lunch, N and N went to the garden. N gave a ring to" in shapes
    assert "When N and N got a kiss at the hospital, N decided to give the kiss to" in shapes
    assert "The station N and N went to had a basketball. N gave it to" in shapes
    assert len(TEMPLATES) == 15
    assert len(shapes) > 500
    for words in (PLACES, OBJECTS):
        assert all(any(f" {word}" in shape for shape in shapes) for word in words)
    assert not any("[" in text for text in texts)


@pytest.mark.parametrize(("order", "n"), [("ABBA", 30), ("BABA", 30), ("both", 60)])
def test_every_pair_there_is_can_be_drawn_once(monkeypatch, order, n):
    for name, words in (("PLACES", ["store"]), ("OBJECTS", ["ring"])):
        monkeypatch.setattr(sys.modules["workbench.tasks.ioi"], name, words)
    tokenizer = little.byte_level(["Mary", "John"])
    assert len(set(tasks.ioi(tokenizer, n, 1, order=order).clean)) == n
    with pytest.raises(InputError, match=f"n is {n + 1}; {n} different pairs"):
        tasks.ioi(tokenizer, n + 1, 1, order=order)


def test_how_many_pairs_ioi_has():
    """13 of 15 templates have one of 8 places and one of 8 objects; two names in either role, in either order."""
    tokenizer = little.byte_level(["Mary", "John"])
    with pytest.raises(InputError, match=f"; {(13 * 64 + 2) * 2 * 2} different pairs"):
        tasks.ioi(tokenizer, 10_000)
    with pytest.raises(InputError, match=r"^2 names of \d+ .* at least 5 are wanted"):
        tasks.ioi(tokenizer, corruption="abc")


def test_a_name_that_is_joined_with_the_next_word():
    joined = [(f"▁{name}", "▁and") for name in NAMES]
    with pytest.raises(InputError, match=r"^this tokenizer joins ' \w+' with its neighbour in '.* and .* to'$"):
        tasks.ioi(little.sentencepiece([*NAMES, "and"], joined))


@pytest.mark.parametrize(
    ("keywords", "says"),
    [
        ({"corruption": "swop"}, "corruption is 'swop'; the nearest are: swap"),
        ({"corruption": 3}, "corruption is 3; there are: swap, abc"),
        ({"order": "ABAB"}, "order is 'ABAB'; the nearest are: BABA"),
    ],
)
def test_ioi_without_such_a_form(keywords, says):
    with pytest.raises(InputError, match=says):
        tasks.ioi(TOKENIZERS["two digits"], **keywords)


# ---- greater than --------------------------------------------------------------------------------------


def year_of(text):
    found = re.fullmatch(r"The \w+ lasted from the year (1[1-7])(\d\d) to the year (1[1-7])", text)
    assert found[1] == found[3]
    return found[2]


@given(seed=seeds, n=sizes, bos=st.booleans())
def test_years_of_two_digits(seed, n, bos):
    tokenizer = TOKENIZERS["two digits, BOS" if bos else "two digits"]
    pairs = tasks.greater_than(tokenizer, n, seed)
    assert pairs.labels.keys() == {"noun", "start_year", "end"}
    for i, (ours, _, correct, incorrect, at, differ) in enumerate(each(pairs)):
        start = year_of(pairs.clean[i])
        assert year_of(pairs.corrupted[i]) == "01"
        assert tokenizer.piece(ours[at["start_year"]]) == start
        assert differ == {at["start_year"]}
        assert correct == [f"{year:02}" for year in range(int(start) + 1, 100)]
        assert incorrect == [f"{year:02}" for year in range(int(start) + 1)]
        assert correct


@pytest.mark.parametrize("name", ["single digits", "sentencepiece"])
@given(seed=seeds, n=sizes)
def test_years_of_single_digits(name, seed, n):
    """A digit is correct where each year that starts with it is later, incorrect where none is or would be."""
    tokenizer = TOKENIZERS[name]
    pairs = tasks.greater_than(tokenizer, n, seed)
    assert pairs.labels.keys() == {"noun", "start_tens", "start_year", "end"}
    for i, (ours, _, correct, incorrect, at, differ) in enumerate(each(pairs)):
        start = year_of(pairs.clean[i])
        assert year_of(pairs.corrupted[i]) == "01"
        assert [tokenizer.piece(ours[at[name]]) for name in ("start_tens", "start_year")] == list(start)
        assert differ == {at["start_tens"]} | ({at["start_year"]} if start[1] != "1" else set())
        for tens in range(10):
            later = [10 * tens + unit > int(start) for unit in range(10)]
            assert (str(tens) in correct) == (all(later) and str(tens) != start[0])
            assert (str(tens) in incorrect) == (not any(later) and str(tens) != start[0])
        assert correct
        assert incorrect


@by_tokenizer
def test_what_lasted(tokenizer):
    pairs = tasks.greater_than(tokenizer, 30, 1)
    for i, (ours, *_, at, _) in enumerate(each(pairs)):
        noun = pairs.clean[i].split()[1]
        upto = "".join(tokenizer.piece(token) for token in ours[: at["noun"] + 1])
        assert upto.endswith(f"The {noun}")
    assert len({text.split()[1] for text in pairs.clean}) > 10


def test_years_that_split_otherwise_are_left_out():
    """1745 is one token, and so is 1601: no start year is 1745, and none lies in the century of which no XX01 is to be
    had."""
    tokenizer = little.byte_level(more=[("Ġ17", "45"), ("Ġ16", "01")])
    assert pieces(tokenizer, "x 1745 1746 1601")[1:] == [" 1745", " 17", "46", " 1601"]
    years = {re.search(r"(\d{4})", text)[1] for text in tasks.greater_than(tokenizer, 3000).clean}
    alone = {f"{century}{ending:02}" for century in range(11, 18) for ending in range(2, 99)}
    assert years < {year for year in alone if year != "1745" and not year.startswith("16")}
    with pytest.raises(InputError, match=f"; {len(NOUNS) * (6 * 97 - 1)} different pairs"):
        tasks.greater_than(tokenizer, 10**6)


def test_how_many_years_of_single_digits():
    with pytest.raises(InputError, match=f"; {len(NOUNS) * 7 * 80} different pairs"):
        tasks.greater_than(TOKENIZERS["single digits"], 10**6)


def test_digits_in_threes_have_no_form():
    with pytest.raises(InputError, match=r"neither one token nor one each for this tokenizer: .*' ', '173', '2'$"):
        tasks.greater_than(little.thirds())


def test_digits_that_the_vocabulary_has_not_got():
    """Of the digits 0, 1 and 7, tens have greater and smaller ones where they are 1."""
    tokenizer = little.whole_words(["the", "0", "1", "7"])
    tokenizer.backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Whitespace(), pre_tokenizers.Digits(individual_digits=True)]
    )
    pairs = tasks.greater_than(tokenizer, 50)
    assert {year_of(text) for text in pairs.clean} == {"10", "11", "17"}
    assert pairs.correct == [["7"]] * 50
    assert pairs.incorrect == [["0"]] * 50


# ---- induction -----------------------------------------------------------------------------------------


@by_tokenizer
@given(seed=seeds, n=sizes, length=st.integers(2, 12))
def test_induction(tokenizer, seed, n, length):
    pairs = tasks.induction(tokenizer, n, seed, length)
    assert pairs.labels.keys() == {"first", "follower", "end"}
    start = len(tokenizer.encode(""))
    for i, (ours, theirs, (follower,), (instead,), at, differ) in enumerate(each(pairs)):
        words = [" " + word for word in pairs.clean[i].split()]
        assert words == [tokenizer.piece(token) for token in ours[start:]]
        assert words == [*words[:length], *words[: length - 1]]
        assert len({*words, instead}) == length + 1
        assert words[length - 1] == follower
        assert at == {"first": start + length - 2, "follower": start + length - 1, "end": start + 2 * length - 2}
        assert ours[at["first"]] == ours[at["end"]]
        assert differ == {at["follower"]}
        assert tokenizer.piece(theirs[at["follower"]]) == instead


@pytest.mark.parametrize(
    ("length", "kind", "says"),
    [
        (1, InputError, "length is 1; a whole number, at least 2, is wanted"),
        (2.5, KindError, "length is 2.5"),
        (True, KindError, "length is True"),
        (500, InputError, r"^\d+ words of \d+ \(air, animal, apple, \.\.\.\) .* at least 501 are wanted"),
    ],
)
def test_lengths(length, kind, says):
    with pytest.raises(kind, match=says):
        tasks.induction(TOKENIZERS["two digits"], length=length)


def test_induction_with_every_word_there_is():
    tokenizer = little.byte_level(["cat", "dog", "tree"])
    pairs = tasks.induction(tokenizer, 6, length=2)
    assert set(pairs.clean) == {f" {a} {b} {a}" for a, b in permutations(["cat", "dog", "tree"], 2)}
    with pytest.raises(InputError, match="n is 7; 6 different pairs"):
        tasks.induction(tokenizer, 7, length=2)


def test_words_that_are_joined_out_of_sight_of_the_labels():
    pair = sys.modules["workbench.tasks.induction"]._pair
    choice = ("cat", "dog", "tree", "sun", "sea")
    assert pair(choice, "", little.sentencepiece()).clean == "cat dog tree sun cat dog tree"
    joined = little.sentencepiece(more=[("▁cat", "▁dog")])
    with pytest.raises(InputError, match="does not read each word of 'cat dog tree sun cat dog tree' as one token"):
        pair(choice, "", joined)


def test_a_text_starts_with_a_space_only_where_it_must():
    words = ["cat", "dog", "tree", "sun"]
    starts = {"byte_level": " ", "sentencepiece": "", "whole_words": ""}
    for kind, start in starts.items():
        (text,) = tasks.induction(getattr(little, kind)(words), n=1, length=3).clean
        assert text[: len(text) - len(text.lstrip())] == start


def test_words_that_start_a_text_otherwise():
    """A tokenizer that marks the first word of a text whether or not a space is before it."""
    tokenizer = little.byte_level()
    tokenizer.backend.normalizer = normalizers.Prepend("^")
    with pytest.raises(InputError, match="reads 'air' otherwise at the start of a text than after a space"):
        tasks.induction(tokenizer)


# ---- capitals ------------------------------------------------------------------------------------------


@by_tokenizer
@given(seed=seeds, n=sizes)
def test_capitals(tokenizer, seed, n):
    pairs = tasks.capitals(tokenizer, n, seed)
    assert pairs.labels.keys() == {"country", "end"}
    for i, (ours, theirs, correct, incorrect, at, differ) in enumerate(each(pairs)):
        countries = []
        for text, ids, (answer,) in ((pairs.clean[i], ours, correct), (pairs.corrupted[i], theirs, incorrect)):
            country = re.search(r"capital (?:city )?of (.*) is", text)[1]
            assert " " + CAPITALS[country] == answer
            upto = "".join(tokenizer.piece(token) for token in ids[: at["country"] + 1])
            assert upto.endswith(f" of {country}")
            countries.append(country)
        assert pairs.clean[i].replace(*countries) == pairs.corrupted[i]
        assert max(differ) <= at["country"]


def test_capitals_of_the_tokenizer():
    """Countries of one token each have each other; Zambia's capital is none, and Japan is alone with its length."""
    tokenizer = little.byte_level(["France", "Spain", "Peru", "Zambia", "Paris", "Madrid", "Lima", "Tokyo"])
    pairs = tasks.capitals(tokenizer, 18)
    assert set(chain.from_iterable(pairs.correct)) == {" Paris", " Madrid", " Lima"}
    with pytest.raises(InputError, match="n is 19; 18 different pairs"):
        tasks.capitals(tokenizer, 19)
    alone = little.byte_level(["France", "Paris", "Tokyo"])
    with pytest.raises(InputError, match="of 2 countries no two are equally many tokens"):
        tasks.capitals(alone)


def test_capitals_do_not_give_themselves_away():
    for country, capital in CAPITALS.items():
        assert capital[:4].lower() not in country.lower()
        assert country.removeprefix("the ")[:4].lower() not in capital.lower()
    assert len(set(CAPITALS.values())) == len(CAPITALS)


# ---- on a model ----------------------------------------------------------------------------------------


@by_task
def test_smollm_knows_the_answers(task, smollm):
    pairs = task(smollm.tokenizer, n=6, seed=1)
    clean, corrupted = (pairs.metric(smollm(texts)[0]) for texts in (pairs.clean, pairs.corrupted))
    assert clean.shape == corrupted.shape == (6,)
    assert bool((clean > 0).all())
    assert float(corrupted.mean()) < -0.4
