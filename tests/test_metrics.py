"""Metrics: one float32 number per example, read by hand from the logits."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from words import word_tokenizer

import workbench as wb
from workbench.metrics import measure, resolve

errors = wb.errors
LOGITS = torch.randn(3, 5, 23, generator=torch.Generator().manual_seed(0)) * 4


def test_logit_and_logit_diff():
    assert torch.equal(wb.logit(7)(LOGITS), LOGITS[:, 4, 7])
    assert torch.equal(wb.logit_diff(7, 2)(LOGITS), LOGITS[:, 4, 7] - LOGITS[:, 4, 2])
    assert torch.equal(wb.logit_diff(0, 22)(LOGITS), LOGITS[:, 4, 0] - LOGITS[:, 4, 22])


@pytest.mark.parametrize("pos", [0, 3, -1, -5])
def test_one_position(pos):
    assert torch.equal(wb.logit(7, pos=pos)(LOGITS), LOGITS[:, pos, 7])
    assert torch.equal(wb.logit_diff(7, 2, pos=pos)(LOGITS), LOGITS[:, pos, 7] - LOGITS[:, pos, 2])


@pytest.mark.parametrize("pos", [[0, 3, -1], (0, 3, 4), torch.tensor([0, 3, -1])])
def test_a_position_per_example(pos):
    picked = torch.stack([LOGITS[0, 0], LOGITS[1, 3], LOGITS[2, 4]])
    assert torch.equal(wb.logit(7, pos=pos)(LOGITS), picked[:, 7])
    assert torch.equal(wb.logit_diff([1, 2, 3], 0, pos=pos)(LOGITS), picked[[0, 1, 2], [1, 2, 3]] - picked[:, 0])


@pytest.mark.parametrize("tokens", [[4, 5, 6], (4, 5, 6), torch.tensor([4, 5, 6]), torch.tensor([4, 5, 6]).int()])
def test_a_token_per_example(tokens):
    wanted = LOGITS[[0, 1, 2], -1, [4, 5, 6]]
    assert torch.equal(wb.logit(tokens)(LOGITS), wanted)
    assert torch.equal(wb.logit_diff(0, tokens)(LOGITS), LOGITS[:, -1, 0] - wanted)


def test_texts():
    tokenizer = word_tokenizer()
    for given, ids in (("d", 3), (" d", 3), (["d", "a", "w"], [3, 0, 22]), (["d", 1, " c"], [3, 1, 2])):
        assert torch.equal(resolve(wb.logit(given), tokenizer)(LOGITS), wb.logit(ids)(LOGITS))
    both = resolve(wb.logit_diff("d", ["a", "b", "c"], pos=2), tokenizer)
    assert torch.equal(both(LOGITS), LOGITS[:, 2, 3] - LOGITS[[0, 1, 2], 2, [0, 1, 2]])
    with pytest.raises(errors.MetricError, match="'d e' is not one token"):
        resolve(wb.logit("d e"), tokenizer)
    with pytest.raises(errors.MetricError, match="no tokenizer"):
        resolve(wb.logit("d"), None)
    with pytest.raises(errors.MetricError, match="no tokenizer"):
        wb.logit_diff(3, "d")(LOGITS)


def test_resolving_leaves_the_metric_as_it_was():
    metric = wb.logit("d", pos=1)
    resolved = resolve(metric, word_tokenizer())
    assert (metric.token, metric.pos, resolved.pos) == ("d", 1, 1)
    plain = lambda logits: logits[:, 0, 0]  # noqa: E731
    assert resolve(plain, None) is plain


def test_low_precision_is_measured_in_float32():
    half = LOGITS.bfloat16()
    for metric in (wb.logit_diff(7, 2), wb.logit(7)):
        assert metric(half).dtype == torch.float32
        assert measure(metric, half).dtype == torch.float32
    assert torch.equal(wb.logit_diff(7, 2)(half), half[:, -1, 7].float() - half[:, -1, 2].float())
    assert not torch.equal(wb.logit_diff(7, 2)(half), (half[:, -1, 7] - half[:, -1, 2]).float())
    assert measure(lambda logits: logits[:, 0, 0].double(), LOGITS).dtype == torch.float32


def test_metrics_are_differentiable():
    logits = LOGITS.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(wb.logit_diff(7, [2, 3, 4])(logits).sum(), logits)
    wanted = torch.zeros_like(LOGITS)
    wanted[:, -1, 7] = 1
    wanted[[0, 1, 2], -1, [2, 3, 4]] = -1
    assert torch.equal(gradient, wanted)
    assert not measure(wb.logit(7), logits).requires_grad


def test_callables():
    assert torch.equal(measure(lambda logits: logits[:, 1, 2], LOGITS), LOGITS[:, 1, 2])
    assert torch.equal(measure(lambda logits: logits[:, 1, 2].tolist(), LOGITS), LOGITS[:, 1, 2])
    assert torch.equal(
        measure(lambda logits: logits[:, 1].argmax(-1) == 3, LOGITS), (LOGITS[:, 1].argmax(-1) == 3).float()
    )
    single = LOGITS[:1]
    assert torch.equal(measure(lambda logits: logits[0, 1, 2], single), LOGITS[:1, 1, 2])
    assert torch.equal(measure(lambda logits: 3.5, single), torch.tensor([3.5]))


SHAPES = {
    "several": lambda logits: logits[:, -1],
    "one for the first": lambda logits: logits[:1, 0, 0],
    "nothing": lambda logits: None,
    "text": lambda logits: "0.5",
    "a pair": lambda logits: (logits[:, 0, 0], 1),
    "a metric that was not called": wb.logit,
}


@pytest.mark.parametrize("metric", SHAPES.values(), ids=SHAPES.keys())
def test_callables_that_do_not_return_one_number_per_example(metric):
    with pytest.raises(errors.MetricError, match=r"one number per example, \[3\], is wanted") as caught:
        measure(metric, LOGITS)
    assert "\n" not in str(caught.value)


def test_an_error_in_a_callable_is_its_own():
    with pytest.raises(IndexError):
        measure(lambda logits: logits[:, 99, 0], LOGITS)


WRONG = {
    "token beyond": (wb.logit(23), "token 23; the vocabulary is 0 to 22"),
    "token below": (wb.logit(-1), "token -1"),
    "one token beyond": (wb.logit_diff(1, [0, 23, 2]), "23"),
    "two tokens": (wb.logit([1, 2]), "2 tokens for 3 examples"),
    "one token, in a list": (wb.logit([1]), "1 token for 3 examples"),
    "four incorrect tokens": (wb.logit_diff(1, [1, 2, 3, 4]), "4 tokens for 3 examples"),
    "position beyond": (wb.logit(1, pos=5), "position 5; the logits have 5 positions"),
    "position below": (wb.logit(1, pos=-6), "position -6"),
    "one position beyond": (wb.logit(1, pos=[0, 0, 5]), r"\[0, 0, 5\]"),
    "two positions": (wb.logit(1, pos=[0, 1]), r"\[0, 1\].*3 examples"),
    "no position": (wb.logit(1, pos=[]), r"\[\]"),
    "a position that is true": (wb.logit(1, pos=True), "True"),
    "positions that are true": (wb.logit(1, pos=[True, False, True]), "True"),
}


@pytest.mark.parametrize(("metric", "says"), WRONG.values(), ids=WRONG.keys())
def test_metrics_that_do_not_fit(metric, says):
    with pytest.raises((errors.MetricError, TypeError), match=says):
        metric(LOGITS)


def test_what_is_no_metric():
    for wrong in (3, None, "logit", [wb.logit(1)]):
        with pytest.raises(TypeError):
            resolve(wrong, None)
    with pytest.raises(TypeError):
        wb.logit(1, position=2)
    with pytest.raises(TypeError):
        wb.logit()


def test_arguments_of_the_wrong_kind_are_told_apart_where_shapes_are_not_checked():
    """In the tests jaxtyping refuses these first, so that they are tried in an interpreter of their own."""
    script = Path(__file__).with_name("wrong_kinds.py")
    done = subprocess.run([sys.executable, "-W", "error", script], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip().endswith("refused")


def test_a_callable_that_returns_a_mean_stands_for_each_example():
    logits = torch.randn(3, 2, 5, generator=torch.Generator().manual_seed(0))
    measured = measure(lambda logits: logits[:, -1, 0].mean(), logits)
    assert torch.equal(measured, logits[:, -1, 0].mean().expand(3))


# Probabilities, and sets of answers


def test_probabilities_and_ranks_by_hand():
    last = LOGITS[:, -1]
    for token in (7, [7, 2, 0]):
        ids = torch.as_tensor(token).expand(3)
        logprob = last.log_softmax(-1)[[0, 1, 2], ids]
        assert torch.allclose(wb.logprob(token)(LOGITS), logprob)
        assert torch.allclose(wb.prob(token)(LOGITS), logprob.exp())
        order = last.argsort(-1, descending=True)
        assert wb.rank(token)(LOGITS).tolist() == [order[row].tolist().index(ids[row]) for row in range(3)]
    assert torch.allclose(wb.logprob(7, pos=[0, 2, -1])(LOGITS)[1], LOGITS[1, 2].log_softmax(-1)[7])
    assert wb.rank(LOGITS[:, -1].argmax(-1))(LOGITS).tolist() == [0, 0, 0]


def test_a_set_of_answers_for_each_example():
    """Sets may differ in size. Logits are averaged, probabilities add up, the best rank counts."""
    sets = [[1, 2], [5], [7, 0, 22]]
    wanted = {wb.logit: [], wb.prob: [], wb.rank: []}
    for row, answers in enumerate(sets):
        last = LOGITS[row, -1]
        wanted[wb.logit].append(last[answers].mean())
        wanted[wb.prob].append(last.softmax(-1)[answers].sum())
        wanted[wb.rank].append(min((last > last[answer]).sum() for answer in answers).float())
    for metric, values in wanted.items():
        assert torch.allclose(metric(sets)(LOGITS), torch.stack(values))
    assert torch.allclose(wb.logprob(sets)(LOGITS), torch.stack(wanted[wb.prob]).log())
    both = wb.logit_diff(sets, [[3], [4, 6], [9]])(LOGITS)
    incorrect = torch.stack([LOGITS[0, -1, 3], LOGITS[1, -1, [4, 6]].mean(), LOGITS[2, -1, 9]])
    assert torch.allclose(both, torch.stack(wanted[wb.logit]) - incorrect)
    spoken = resolve(wb.logit([["b", " c"], ["f"], [7, "a", "w"]]), word_tokenizer())
    assert torch.allclose(spoken(LOGITS), torch.stack(wanted[wb.logit]))


def test_kl_is_that_of_torch():
    other = torch.randn(3, 5, 23, generator=torch.Generator().manual_seed(1))
    wanted = torch.nn.functional.kl_div(
        LOGITS[:, -1].log_softmax(-1), other[:, -1].log_softmax(-1), reduction="none", log_target=True
    ).sum(-1)
    assert torch.allclose(wb.kl_from(other)(LOGITS), wanted, atol=1e-6)
    assert torch.allclose(wb.kl_from(LOGITS)(LOGITS), torch.zeros(3), atol=1e-6)
    for wrong in (other[:2], other[..., :22]):
        with pytest.raises(errors.MetricError, match="the reference has"):
            wb.kl_from(wrong)(LOGITS)


@pytest.mark.parametrize("metric", [wb.logprob, wb.prob, wb.rank, wb.logit])
def test_tokens_that_are_not_there_are_named(metric):
    for token, said in ((23, "token 23"), ([[1, 23], [2], [3]], "23"), ([1, 2], "2 tokens for 3 examples")):
        with pytest.raises(errors.MetricError, match=said):
            metric(token)(LOGITS)


# Teacher-forced


TEXT = torch.tensor([[1, 4, 2, 9, 3], [5, 5, 0, 22, 7], [8, 6, 1, 1, 2]])
FORESEEN = LOGITS.double().log_softmax(-1)


def test_the_logprob_of_an_answer_is_the_sum_over_its_tokens():
    wanted = [FORESEEN[row, 2, TEXT[row, 3]] + FORESEEN[row, 3, TEXT[row, 4]] for row in range(3)]
    for answer in (TEXT[:, 3:], TEXT[:, 3:].tolist()):
        assert torch.allclose(wb.answer_logprob(answer)(LOGITS), torch.stack(wanted).float(), atol=1e-5)
    unequal = wb.answer_logprob([[9, 3], [7], [6, 1, 1, 2]])(LOGITS)
    assert torch.allclose(unequal[1], FORESEEN[1, 3, 7].float(), atol=1e-5)
    long = sum(FORESEEN[2, column, TEXT[2, column + 1]] for column in range(4))
    assert torch.allclose(unequal[2], long.float(), atol=1e-5)
    same = wb.answer_logprob([9, 3])(LOGITS)
    assert torch.allclose(same, (FORESEEN[:, 2, 9] + FORESEEN[:, 3, 3]).float(), atol=1e-5)


def test_the_loss_of_a_text_is_the_mean_surprise():
    wanted = -FORESEEN[:, :-1].gather(2, TEXT[:, 1:, None]).mean((1, 2))
    assert torch.allclose(wb.loss(TEXT)(LOGITS), wanted.float(), atol=1e-5)
    assert torch.allclose(wb.loss(TEXT)(LOGITS).mean(), wb.lm_cross_entropy_loss(LOGITS, TEXT), atol=1e-5)
    mask = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1], [0, 1, 1, 1, 1]])
    padded = wb.loss(TEXT, mask)(LOGITS)
    each = wb.lm_cross_entropy_loss(LOGITS, TEXT, mask, per_token=True)
    assert torch.allclose(padded, each.nanmean(1), atol=1e-5)


def test_answers_as_text():
    tokenizer = word_tokenizer()
    one = resolve(wb.answer_logprob(" d e"), tokenizer)
    assert torch.equal(one(LOGITS), wb.answer_logprob([3, 4])(LOGITS))
    each = resolve(wb.answer_logprob(["d", " a b", "c d e"]), tokenizer)
    assert torch.equal(each(LOGITS), wb.answer_logprob([[3], [0, 1], [2, 3, 4]])(LOGITS))
    with pytest.raises(errors.MetricError, match="no tokenizer"):
        wb.answer_logprob("d e")(LOGITS)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: wb.answer_logprob([1] * 6)(LOGITS), "6 tokens and the logits 5 positions"),
        (lambda: wb.answer_logprob([[1], [2]])(LOGITS), "2 answers for 3 examples"),
        (lambda: wb.answer_logprob([[1], [2], [3], [4]])(LOGITS), "4 answers for 3 examples"),
        (lambda: wb.answer_logprob([23])(LOGITS), "token 23; the vocabulary is 0 to 22"),
        (lambda: wb.answer_logprob([])(LOGITS), "an answer is a text"),
        (lambda: wb.answer_logprob([[1], []])(LOGITS), "at least one token"),
        (lambda: wb.loss(TEXT[:, :1]), "at least two tokens"),
        (lambda: wb.loss(TEXT, torch.ones(3, 4)), "attention_mask is"),
        (lambda: wb.loss(TEXT, torch.tensor([[0, 0, 0, 0, 1], [1] * 5, [1] * 5])), "row 0"),
        (lambda: wb.logit_diff(1, 2, pos="end")(LOGITS), "the label 'end'"),
    ],
)
def test_teacher_forced_metrics_that_do_not_fit(make, says):
    with pytest.raises((errors.MetricError, errors.KindError), match=says):
        make()


@pytest.mark.parametrize("make", [wb.logit, wb.prob, wb.rank, lambda sets: wb.prob_diff(3, sets)])
def test_an_answer_is_named_once(make):
    with pytest.raises(errors.MetricError, match="names token 1 twice"):
        make([[1, 1], [2], [3]])(LOGITS)
    for wrong, says in ((10**30, "ids are counted from 0"), (-1, "ids are counted from 0")):
        with pytest.raises(errors.MetricError, match=says):
            make(wrong)(LOGITS)


def test_a_reference_of_other_length_is_refused():
    with pytest.raises(errors.MetricError, match="logits have 6 positions and the run's 5"):
        wb.kl_from(torch.randn(3, 6, 23))(LOGITS)


def test_the_difference_of_probabilities():
    p = LOGITS[:, -1].softmax(-1)
    assert torch.allclose(wb.prob_diff(7, 2)(LOGITS), p[:, 7] - p[:, 2], atol=1e-6)
    sets = wb.prob_diff([[1, 2], [3, 4], [5]], [[6], [7, 8], [9]])(LOGITS)
    wanted = torch.stack([p[0, [1, 2]].sum() - p[0, 6], p[1, [3, 4]].sum() - p[1, [7, 8]].sum(), p[2, 5] - p[2, 9]])
    assert torch.allclose(sets, wanted, atol=1e-6)
    with pytest.raises(errors.MetricError, match="token 23"):
        wb.prob_diff(1, 23)(LOGITS)
    resolved = resolve(wb.prob_diff("d", [["a", "b"]] * 3), word_tokenizer())
    assert torch.equal(resolved(LOGITS), wb.prob_diff(3, [[0, 1]] * 3)(LOGITS))
