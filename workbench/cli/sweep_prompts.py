"""Which texts a sweep runs and what it measures of them: from the command line, a file or a task.

What is wrong is said before a model is loaded, where it can be known without one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from .. import tasks
from ..errors import InputError, LoadError, MissingError, count, nearest
from ..hooked import HookedTransformer
from ..metrics import Metric, kl_from, logit, logit_diff, logprob, loss, prob, prob_diff, rank
from ..tasks._files import read_lines

TASKS = {
    "ioi": tasks.ioi,
    "greater-than": tasks.greater_than,
    "induction": tasks.induction,
    "capitals": tasks.capitals,
}


class Measure(NamedTuple):
    """A metric that the command line knows.

    of:    the answers that it reads.
    words: what it is, of these.
    make:  the metric, from these; kl_from and loss are made from texts.
    """

    of: tuple[str, ...]
    words: str
    make: Callable[..., Metric]


MEASURES = {
    "logit_diff": Measure(("correct", "incorrect"), "logit({correct}) - logit({incorrect})", logit_diff),
    "prob_diff": Measure(("correct", "incorrect"), "p({correct}) - p({incorrect})", prob_diff),
    "logit": Measure(("correct",), "logit({correct})", logit),
    "logprob": Measure(("correct",), "log p({correct})", logprob),
    "prob": Measure(("correct",), "p({correct})", prob),
    "rank": Measure(("correct",), "rank of {correct}", rank),
    "kl_from": Measure((), "KL divergence from the clean prediction", kl_from),
    "loss": Measure((), "loss of the text, in nats", loss),
}
PATCHED = tuple(name for name in MEASURES if name != "loss")  # a loss is of one text, and a pair has two

Answers = list[str] | list[list[str]]


@dataclass(frozen=True)
class Prompts:
    """Texts, the answers to each (one for all where there is one), and the name of the measure that goes with them.

    corrupted: empty where texts came alone.
    """

    clean: list[str]
    corrupted: list[str]
    correct: Answers
    incorrect: Answers
    labels: dict[str, list[int]]
    measure: str = "logit_diff"

    def metric(self, name: str, model: HookedTransformer) -> Metric:
        """Of this name, at the end of each text."""
        if name == "kl_from":
            return kl_from(model(self.clean)[0])
        if name == "loss":
            return loss(*model.to_tokens_and_mask(self.clean))
        measure = MEASURES[name]
        given = [getattr(self, side) for side in measure.of]
        return measure.make(*(answers[0] if len(answers) < len(self.clean) else answers for answers in given))

    def words(self, name: str) -> str:
        """What is measured, with the answers where they are the same ones in every text."""
        said = {side: _the_one(getattr(self, side)) or side for side in ("correct", "incorrect")}
        return MEASURES[name].words.format(**said)


class Source(Protocol):
    """Where prompts come from.

    answers: what is given as answers; None where all that a measure may ask for comes along.
    """

    @property
    def answers(self) -> tuple[str, ...] | None: ...

    def read(self, model: HookedTransformer) -> Prompts: ...


@dataclass(frozen=True)
class Typed:
    """Texts and answers from the command line."""

    clean: list[str]
    corrupted: list[str]
    correct: list[str]
    incorrect: list[str]

    @property
    def answers(self) -> tuple[str, ...]:
        return tuple(side for side in ("correct", "incorrect") if getattr(self, side))

    def read(self, model: HookedTransformer) -> Prompts:
        return Prompts(self.clean, self.corrupted, self.correct, self.incorrect, {})


@dataclass(frozen=True)
class FromFile:
    path: Path
    answers: None = None

    def read(self, model: HookedTransformer) -> Prompts:
        return _prompts(tasks.read(self.path, model.tokenizer))  # type: ignore[arg-type]


@dataclass(frozen=True)
class FromTask:
    name: str
    n: int
    seed: int
    answers: None = None

    def read(self, model: HookedTransformer) -> Prompts:
        return _prompts(TASKS[self.name](model.tokenizer, n=self.n, seed=self.seed))  # type: ignore[arg-type]


def source_of_pairs(
    clean: Sequence[str],
    corrupted: Sequence[str],
    correct: Sequence[str],
    incorrect: Sequence[str],
    file: Path | None,
    task: str | None,
    n: int | None,
    seed: int | None,
) -> Source:
    """InputError where it is none, more than one, or not whole."""
    typed = {"--clean": clean, "--corrupted": corrupted, "--correct": correct, "--incorrect": incorrect}
    if elsewhere := _elsewhere([name for name, given in typed.items() if given], file, task, n, seed):
        return elsewhere
    if not clean and not corrupted:
        wanted = "--clean with --corrupted, --file or --task"
        if said := [name for name, given in typed.items() if given]:
            raise InputError(f"{said[0]} came without --clean; pairs are wanted: {wanted}")
        raise InputError(f"there are no pairs to patch between; {wanted} gives some")
    if len(clean) != len(corrupted):
        raise InputError(f"--clean came {_times(clean)} and --corrupted {_times(corrupted)}; pairs are wanted")
    return _typed(clean, corrupted, correct, incorrect)


def source_of_texts(
    texts: Sequence[str],
    correct: Sequence[str],
    incorrect: Sequence[str],
    file: Path | None,
    task: str | None,
    n: int | None,
    seed: int | None,
) -> Source:
    """The same for an ablation, which wants no corrupted ones."""
    typed = {"a text": texts, "--correct": correct, "--incorrect": incorrect}
    if elsewhere := _elsewhere([name for name, given in typed.items() if given], file, task, n, seed):
        return elsewhere
    if not texts:
        raise InputError("there is no text to ablate on; texts, --file or --task give some")
    return _typed(texts, (), correct, incorrect)


def check_metric(name: str | None, source: Source, known: Sequence[str] = tuple(MEASURES)) -> None:
    """InputError for a name that is unknown, and where answers are lacking or left over."""
    if name is not None and name not in known:
        raise InputError(f"--metric is {name!r}; {nearest(name, known)}")
    if source.answers is None:
        return
    wanted = MEASURES[name or "logit_diff"].of
    if lacking := [side for side in wanted if side not in source.answers]:
        others = [other for other in known if set(MEASURES[other].of) == set(source.answers)]
        raise InputError(
            f"{name or 'logit_diff'} is measured of {' and '.join('--' + side for side in wanted)}, and there is no "
            f"--{lacking[0]}; of what came, --metric can be {', '.join(others) or 'nothing'}"
        )
    if left := [side for side in source.answers if side not in wanted]:
        raise InputError(f"--metric {name} reads no --{left[0]}; leave it out")


def check_labels(wanted: bool, source: Source) -> None:
    """InputError where labels are wanted and nothing gives any."""
    if wanted and isinstance(source, Typed):
        raise InputError("--labels are those of a --task or --file, and there is none; --positions chooses by number")


def texts_of(path: Path) -> list[str]:
    """The lines of a file that hold something, each with its spaces."""
    if not path.is_file():
        raise MissingError(f"there is no file {str(path)!r}")
    try:
        lines = path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise LoadError(f"{str(path)!r} cannot be read as UTF-8 text: {error}") from None
    if texts := [line for line in lines if line.strip()]:
        return texts
    raise LoadError(f"{str(path)!r} holds no text; one a line is wanted")


def _elsewhere(typed: list[str], file: Path | None, task: str | None, n: int | None, seed: int | None) -> Source | None:
    """A file or a task, where one is named; InputError beside anything else that says the same."""
    if file is not None and task is not None:
        raise InputError("--file and --task both give pairs; choose one of them")
    if (file is not None or task is not None) and typed:
        raise InputError(f"{typed[0]} came, and {'--task' if file is None else '--file'} gives it; choose one of them")
    if task is None and (n is not None or seed is not None):
        raise InputError(f"{'--seed' if n is None else '--n'} is of a --task, and there is none")
    if file is not None:
        read_lines(file)  # says what is wrong with the file as such
        return FromFile(file)
    if task is not None and task not in TASKS:
        raise InputError(f"--task is {task!r}; {nearest(task, TASKS)}")
    return None if task is None else FromTask(task, 32 if n is None else n, seed or 0)


def _typed(clean: Sequence[str], corrupted: Sequence[str], correct: Sequence[str], incorrect: Sequence[str]) -> Typed:
    for name, answers in (("--correct", correct), ("--incorrect", incorrect)):
        if len(answers) not in (0, 1, len(clean)):
            texts = count(len(clean), "pair" if corrupted else "text")
            raise InputError(f"{name} came {_times(answers)} for {texts}; one for all, or one for each, is wanted")
    return Typed(list(clean), list(corrupted), list(correct), list(incorrect))


def _prompts(pairs: tasks.Pairs) -> Prompts:
    return Prompts(pairs.clean, pairs.corrupted, pairs.correct, pairs.incorrect, pairs.labels, pairs.measure)


def _the_one(answers: Answers) -> str | None:
    """The answer of every text, as it is written in code, where there is one."""
    different = {tuple([each] if isinstance(each, str) else each) for each in answers}
    (only,) = different if len(different) == 1 else [()]
    return repr(only[0]) if len(only) == 1 else None


def _times(given: Sequence[str]) -> str:
    return count(len(given), "time")
