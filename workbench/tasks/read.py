"""A person's own pairs, from a file."""

from __future__ import annotations

from pathlib import Path

from ..errors import LoadError, WorkbenchError, nearest
from ..keywords import checked_keywords
from ..tokenizer import Tokenizer
from ._base import MEASURES, Pairs
from ._checks import check_tokenizer
from ._files import Line, read_lines
from ._pair import Pair


@checked_keywords
def read(path: str | Path, tokenizer: Tokenizer) -> Pairs:
    """Pairs from a CSV, as a spreadsheet saves it,

        clean,corrupted,correct,incorrect,label:country
        The capital of France is,The capital of Spain is, Paris, Madrid,3
        The capital of Peru is,The capital of Cuba is, Lima, Havana| Santiago,3

    or from JSON lines, an object for each pair:

        {"clean": "The capital of Peru is", "corrupted": "The capital of Cuba is", "correct": " Lima",
         "incorrect": [" Havana", " Santiago"], "labels": {"country": 3}}        (as one line)

    Spaces count: an answer that is a word starts with one. Where there are several answers, any of which will do, `|`
    parts them in a CSV. A label is a position in tokens, from 0, the tokenizer's own BOS counted. There may be any
    number of labels; "end", the last token, is added. A column `metric` holds logit_diff, which it is without one, or
    prob_diff, the same for all pairs. The file is UTF-8, a CSV parted by commas, semicolons or tabs.

    Raises MissingError, LoadError with the line, or the InputError or MetricError of a pair that does not fit the
    tokenizer.
    """
    check_tokenizer(tokenizer)
    lines = read_lines(path)
    measure = lines[0].measure
    if measure is not None and measure not in MEASURES:
        raise LoadError(f"{lines[0].where} has the metric {measure!r}; {nearest(measure, MEASURES)}")
    for line in lines[1:]:
        _check_alike(line, lines[0])
    pairs = [_with_end(line, tokenizer) for line in lines]
    try:
        return Pairs.of(pairs, tokenizer, measure or "logit_diff")
    except WorkbenchError as error:
        raise type(error)(f"{Path(path).name}: {error}") from None


def _check_alike(line: Line, first: Line) -> None:
    """What all pairs of a file have in common."""
    if line.measure != first.measure:
        raise LoadError(
            f"{line.where} has the metric {line.measure!r} and {first.where} {first.measure!r}; one is wanted"
        )
    names, wanted = line.pair.labels, first.pair.labels
    if names.keys() != wanted.keys():
        odd = min(names.keys() ^ wanted.keys())
        has, lacks = (line, first) if odd in names else (first, line)
        raise LoadError(f"{has.where} has the label {odd!r} and {lacks.where} has not; all pairs have the same labels")


def _with_end(line: Line, tokenizer: Tokenizer) -> Pair:
    end = {"end": len(tokenizer.encode(line.pair.clean)) - 1}
    return line.pair._replace(labels=line.pair.labels | ({} if "end" in line.pair.labels else end))
