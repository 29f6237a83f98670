"""What every task makes: pairs of prompts that fit the tokenizer at hand, checked before any model runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InputError, KindError, count, nearest
from ..metrics import Metric, logit_diff, prob_diff
from ..tokenizer import Tokenizer
from ._checks import check_answers, check_labels, check_sizes, check_texts, check_tokenizer
from ._files import write_pairs
from ._pair import Pair

if TYPE_CHECKING:
    import pandas as pd

MEASURES = {"logit_diff": logit_diff, "prob_diff": prob_diff}


@dataclass(frozen=True, repr=False)
class Pairs:
    """Clean and corrupted prompts, and what tells the answers to them apart.

    clean, corrupted:   texts; the two of a pair have as many tokens, and differ.
    correct, incorrect: for each pair the answers to the clean text, each one token that continues it. Where there are
                        several, any of them will do.
    labels:             {"end": [position of each pair], ...}, the same in clean and corrupted; counted over the tokens
                        of each text under the tokenizer's own rule about BOS, whatever padding a batch puts before it.
    tokenizer:          the one that all this is true for.
    measure:            "logit_diff" (of a set: the mean of its logits) or "prob_diff" (the sum of its probabilities).

    Raises InputError, KindError or MetricError with the number of the pair that does not hold to this.
    """

    clean: list[str]
    corrupted: list[str]
    correct: list[list[str]]
    incorrect: list[list[str]]
    labels: dict[str, list[int]]
    tokenizer: Tokenizer = field(compare=False)
    measure: str = "logit_diff"

    def __post_init__(self) -> None:
        check_tokenizer(self.tokenizer)
        if not isinstance(self.measure, str) or self.measure not in MEASURES:
            raise InputError(f"the measure is {self.measure!r}; {nearest(str(self.measure), MEASURES)}")
        check_sizes(self.clean, self.corrupted, self.correct, self.incorrect, self.labels)
        check_texts(self.clean, self.corrupted, self.tokenizer)
        check_answers(self.correct, self.incorrect, self.tokenizer)
        check_labels(self.labels, self.clean, self.corrupted, self.tokenizer)

    @classmethod
    def of(cls, pairs: Sequence[Pair], tokenizer: Tokenizer, measure: str = "logit_diff") -> Pairs:
        """Pairs that have the same labels, as one."""
        return cls(
            clean=[pair.clean for pair in pairs],
            corrupted=[pair.corrupted for pair in pairs],
            correct=[pair.correct for pair in pairs],
            incorrect=[pair.incorrect for pair in pairs],
            labels={name: [pair.labels[name] for pair in pairs] for name in pairs[0].labels},
            tokenizer=tokenizer,
            measure=measure,
        )

    @cached_property
    def metric(self) -> Metric:
        """Of the prediction after each text: correct answers against incorrect ones, as ids."""
        correct, incorrect = _one_each(self.correct), _one_each(self.incorrect)
        return MEASURES[self.measure](correct, incorrect).resolved(self.tokenizer)

    def __len__(self) -> int:
        return len(self.clean)

    def __getitem__(self, chosen: slice) -> Pairs:
        """Some of the pairs, with their answers and labels: pairs[:8]."""
        if not isinstance(chosen, slice):
            raise KindError(f"pairs are taken by a slice, such as pairs[:8] or pairs[3:4], not by {chosen!r}")
        try:
            there = range(len(self))[chosen]
        except (TypeError, ValueError):
            raise KindError(f"pairs are taken by a slice, such as pairs[:8] or pairs[3:4], not by {chosen!r}") from None
        if not there:
            raise InputError(f"pairs[{_shown(chosen)}] holds none of the {count(len(self), 'pair')}")
        columns = {name: getattr(self, name)[chosen] for name in ("clean", "corrupted", "correct", "incorrect")}
        return replace(self, labels={name: at[chosen] for name, at in self.labels.items()}, **columns)

    def __repr__(self) -> str:
        lengths = [len(self.tokenizer.encode(text)) for text in self.clean]
        n_tokens = f"{min(lengths)} to {max(lengths)}" if len(set(lengths)) > 1 else lengths[0]
        return (
            f"Pairs({count(len(self), 'pair')} of {n_tokens} tokens, {self.measure}, labels {', '.join(self.labels)}\n"
            f"  clean     {self.clean[0]!r}: {_listed(self.correct[0])}, not {_listed(self.incorrect[0])}\n"
            f"  corrupted {self.corrupted[0]!r})"
        )

    def to_dataframe(self) -> pd.DataFrame:
        """A row for each pair: its texts, its answers as lists, and a column `label:NAME` for each label."""
        import pandas as pd

        columns = {name: getattr(self, name) for name in ("clean", "corrupted", "correct", "incorrect")}
        return pd.DataFrame(columns | {f"label:{name}": at for name, at in self.labels.items()})

    def save(self, path: str | Path) -> None:
        """A .csv or .jsonl file that `read` takes, written whole or not at all."""
        each = enumerate(zip(self.clean, self.corrupted, self.correct, self.incorrect, strict=True))
        pairs = [Pair(*pair, {name: at[number] for name, at in self.labels.items()}) for number, pair in each]
        write_pairs(path, pairs, self.measure)


def _one_each(answers: list[list[str]]) -> list[str] | list[list[str]]:
    """Plain answers where no pair has several."""
    return [one for (one,) in answers] if all(len(several) == 1 for several in answers) else answers


def _listed(answers: list[str]) -> str:
    return ", ".join(map(repr, answers[:3])) + (f", ... ({len(answers)})" if len(answers) > 3 else "")


def _shown(chosen: slice) -> str:
    ends = ["" if end is None else str(end) for end in (chosen.start, chosen.stop)]
    return ":".join(ends if chosen.step is None else [*ends, str(chosen.step)])
