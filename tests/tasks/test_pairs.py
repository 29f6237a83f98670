"""Pairs of one's own: what is refused before any model runs, slices, and that a sweep takes them."""

import dataclasses

import little_tokenizers as little
import pytest
import torch

import workbench as wb
from workbench import tasks
from workbench.errors import InputError, KindError, MetricError
from workbench.tasks import Pairs

TOKENIZER = little.byte_level()  # " Mary" is one token, and so are " is" and " the"; other words are letters

GOOD = {
    "clean": ["x Mary is the", "y Mary is"],
    "corrupted": ["x John is the", "y Tom is"],
    "correct": [[" Mary"], [" Mary", " Kate"]],
    "incorrect": [[" John"], [" Tom"]],
    "labels": {"who": [1, 1], "end": [3, 2]},
}


def pairs(tokenizer=TOKENIZER, measure="logit_diff", **changed):
    return Pairs(**(GOOD | changed), tokenizer=tokenizer, measure=measure)


@pytest.mark.parametrize(
    ("changed", "kind", "says"),
    [
        ({"corrupted": ["x John is the", "y Ig is"]}, InputError,
         r"^pair 1 has 3 tokens in clean and 4 in corrupted, which has ' I', 'g' where clean has ' Mary'; as many "),
        ({"corrupted": ["x John is the", "y Mary"]}, InputError,
         "^pair 1 has 3 tokens in clean and 2 in corrupted, which has nothing where clean has ' is'"),
        ({"corrupted": ["x John is the", "y Mary is"]}, InputError,
         "^pair 1 has the same tokens in clean and corrupted: 'y Mary is'$"),
        ({"correct": [[" Mary"], [" Maryam"]]}, MetricError,
         "^pair 1: ' Maryam' is not one token: it splits into ' Mary', 'a', 'm'$"),
        ({"incorrect": [["John"], [" Tom"]]}, MetricError,
         "^pair 0: 'John' is not one token.*; ' John', with a leading space, is one$"),
        ({"incorrect": [[" Mary"], [" Tom"]]}, MetricError,
         "^pair 0 has the token of ' Mary' twice among its answers$"),
        ({"correct": [[" Mary"], [" Kate", " Kate"]]}, MetricError, "^pair 1 has the token of ' Kate' twice"),
        ({"correct": [[" Mary"], []]}, MetricError, "^pair 1 has no correct answer$"),
        ({"correct": [" Mary", " Mary"]}, KindError,
         "^pair 0 has the text ' Mary' as its correct answers; a list is wanted$"),
        ({"correct": [[" Mary"], [7]]}, KindError, "^pair 1 has the answer 7; a text is wanted$"),
        ({"labels": {"who": [1]}}, InputError, "^there are 2 clean texts, and of the label 'who' 1$"),
        ({"correct": [[" Mary"]]}, InputError, "^there are 2 clean texts, and of correct 1$"),
        ({"corrupted": []}, InputError, "^there are 2 clean texts, and of corrupted 0$"),
        ({"labels": {"who": [1, 3]}}, InputError, "^label 'who' of pair 1 is 3; its positions are 0 to 2$"),
        ({"labels": {"who": [-1, 1]}}, InputError, "^label 'who' of pair 0 is -1; its positions are 0 to 3$"),
        ({"labels": {"who": [1, True]}}, KindError, "^label 'who' of pair 1 is True; a position is a whole number$"),
        ({"labels": {"who": [1, 1.0]}}, KindError, "^label 'who' of pair 1 is 1.0; "),
        ({"labels": {"end": [3, 1]}}, InputError, "^label 'end' of pair 1 is 1; the last token is 2$"),
        ({"labels": {" who": [1, 1]}}, KindError, "^a label is called ' who'; a text without spaces around it "),
        ({"labels": {"": [1, 1]}}, KindError, "^a label is called ''"),
        ({"clean": [], "corrupted": [], "correct": [], "incorrect": [], "labels": {}}, InputError,
         "^there are no pairs; at least one is wanted$"),
        ({"clean": [3, "y Mary is"]}, KindError, "text to encode came as int"),
        ({"measure": "logit_dif"}, InputError, "^the measure is 'logit_dif'; the nearest are: logit_diff$"),
        ({"tokenizer": None}, InputError, "no tokenizer"),
    ],
)  # fmt: skip
def test_what_is_refused(changed, kind, says):
    with pytest.raises(kind, match=says) as error:
        pairs(**changed)
    assert "\n" not in str(error.value)


def test_a_label_that_is_another_place_in_the_corrupted_text():
    """Both texts have seven tokens, but the longer name is first in one and last in the other, so that tokens between
    the names' first and last ones are in different words."""
    texts = {"clean": ["x Mary Ings is"], "corrupted": ["x Ings Mary is"], "correct": [[" Mary"]]}
    texts |= {"incorrect": [[" John"]]}
    shown = [little.pieces(TOKENIZER, texts[name][0]) for name in ("clean", "corrupted")]
    assert shown == [["x", " Mary", " I", "n", "g", "s", " is"], ["x", " I", "n", "g", "s", " Mary", " is"]]
    for position in (2, 3, 4):
        with pytest.raises(InputError, match=rf"^label 'who' of pair 0 is token {position}, .* in different words"):
            pairs(**texts, labels={"who": [position]})
    for position in (0, 1, 5, 6):
        pairs(**texts, labels={"who": [position]})


def test_words_that_are_unequally_many():
    """A phrase of three tokens for one of three: its first and last ones are in its first and last words."""
    texts = {"clean": ["x the is the to"], "corrupted": ["x Ing to"], "correct": [[" Mary"]], "incorrect": [[" John"]]}
    pairs(**texts, labels={"before": [0], "start": [1], "what": [3], "end": [4]})
    with pytest.raises(InputError, match="label 'inside' of pair 0 is token 2, ' is' in clean and 'n' in corrupted"):
        pairs(**texts, labels={"inside": [2]})


def test_one_token_for_all_unknown_words():
    tokenizer = little.whole_words(["Mary", "John", "is"])
    texts = {"clean": ["Mary is"], "corrupted": ["John is"], "correct": [[" Mary"]], "incorrect": [[" John"]]}
    pairs(tokenizer, **texts, labels={})
    with pytest.raises(MetricError, match=r"^pair 0 has the answer ' Kate', which the vocabulary has not got$"):
        pairs(tokenizer, **texts | {"incorrect": [[" Kate"]]}, labels={})
    with pytest.raises(InputError, match="same tokens"):
        pairs(tokenizer, **texts | {"clean": ["Kate is"], "corrupted": ["Tom is"]}, labels={})


def test_bos_counts():
    spoken = little.byte_level(adds_bos=True)
    pairs(spoken, labels={"end": [4, 3]})
    with pytest.raises(InputError, match="label 'end' of pair 0 is 3; the last token is 4"):
        pairs(spoken)


def test_metric():
    """By hand: for a set the mean of its logits, or the sum of its probabilities."""
    mary, kate, john, tom = (TOKENIZER.single(name) for name in (" Mary", " Kate", " John", " Tom"))
    logits = torch.randn(2, 3, TOKENIZER.vocab_size, generator=torch.Generator().manual_seed(0))
    last, p = logits[:, -1], logits[:, -1].softmax(-1)
    expected = torch.stack([last[0, mary] - last[0, john], (last[1, mary] + last[1, kate]) / 2 - last[1, tom]])
    torch.testing.assert_close(pairs().metric(logits), expected)
    expected = torch.stack([p[0, mary] - p[0, john], p[1, mary] + p[1, kate] - p[1, tom]])
    torch.testing.assert_close(pairs(measure="prob_diff").metric(logits), expected)
    one_each = pairs(correct=[[" Mary"], [" Kate"]]).metric
    torch.testing.assert_close(one_each(logits)[1], last[1, kate] - last[1, tom])
    assert one_each.tokens[0].tolist() == [mary, kate]


def test_slices():
    whole = tasks.greater_than(TOKENIZER, n=9, seed=2)
    for chosen in (slice(2, 5), slice(None, None, -1), slice(8, None), slice(-3, None)):
        part = whole[chosen]
        assert len(part) == len(range(9)[chosen])
        for name in ("clean", "corrupted", "correct", "incorrect"):
            assert getattr(part, name) == getattr(whole, name)[chosen]
        assert part.labels == {name: at[chosen] for name, at in whole.labels.items()}
        logits = torch.randn(9, 2, TOKENIZER.vocab_size)
        torch.testing.assert_close(part.metric(logits[range(9)[chosen]]), whole.metric(logits)[range(9)[chosen]])
    assert part.measure == "prob_diff"
    assert part != whole
    with pytest.raises(InputError, match=r"^pairs\[9:\] holds none of the 9 pairs$"):
        whole[9:]
    with pytest.raises(KindError, match=r"pairs\[3:4\], not by 3$"):
        whole[3]


def test_what_a_person_sees():
    shown = repr(pairs())
    assert shown == (
        "Pairs(2 pairs of 3 to 4 tokens, logit_diff, labels who, end\n"
        "  clean     'x Mary is the': ' Mary', not ' John'\n"
        "  corrupted 'x John is the')"
    )
    many = repr(tasks.greater_than(TOKENIZER, n=1))
    assert "Pairs(1 pair of " in many
    assert "', ... (" in many
    frame = pairs().to_dataframe()
    assert list(frame.columns) == ["clean", "corrupted", "correct", "incorrect", "label:who", "label:end"]
    assert frame["label:end"].tolist() == [3, 2]
    assert frame["correct"].tolist() == GOOD["correct"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        pairs().measure = "prob_diff"


def test_a_sweep_takes_them(smollm):
    """Prompts of unequal length, padded in the batch. The second subject is all that differs: patched there, before any
    layer, the answer is all back; before the last layer it is so at the end."""
    ours = tasks.ioi(smollm.tokenizer, n=3, seed=1)
    assert len({len(smollm.tokenizer.encode(text)) for text in ours.clean}) > 1
    r = wb.activation_patching(
        smollm, ours.clean, ours.corrupted, ours.metric, positions=ours.labels, layers=[0, 29], progress=False
    )
    one_by_one = [ours[i : i + 1].metric(smollm(ours.clean[i])[0]) for i in range(3)]
    torch.testing.assert_close(r.clean, torch.cat(one_by_one), rtol=1e-4, atol=1e-4)
    s2, end = (list(ours.labels).index(name) for name in ("s2", "end"))
    torch.testing.assert_close(r.values[:, 0, s2], r.clean, rtol=1e-4, atol=1e-4)
    assert bool((r.effect_each[:, 1, end] > 0.9).all())
    others = [number for number in range(len(ours.labels)) if number != s2]
    torch.testing.assert_close(r.values[:, 0, others], r.corrupted[:, None].expand(3, 4), rtol=1e-4, atol=1e-4)
