"""One pair of prompts, and building its texts so that the places of their parts are known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..errors import InputError, MetricError, count
from ..tokenizer import Tokenizer


class Pair(NamedTuple):
    """Two texts, the answers to the clean one, and where parts of either stand, in tokens."""

    clean: str
    corrupted: str
    correct: list[str]
    incorrect: list[str]
    labels: dict[str, int]


class Marked(NamedTuple):
    """A part of a prompt whose last token has a name."""

    label: str
    text: str


def prompt(tokenizer: Tokenizer, parts: Sequence[str | Marked]) -> tuple[str, dict[str, int]]:
    """The text of these parts, and where the last token of each marked part stands; "end" is the last of all.

    Raises InputError where the tokenizer joins a marked part with what is beside it.
    """
    ids = tokenizer.encode("".join(_text(part) for part in parts))
    labels, text = {}, ""
    for part in parts:
        before, text = text, text + _text(part)
        if isinstance(part, Marked):
            for border in (before, text):
                if ids[: len(start := tokenizer.encode(border))] != start:
                    raise InputError(f"this tokenizer joins {part.text!r} with its neighbour in {_around(parts)!r}")
            labels[part.label] = len(tokenizer.encode(text)) - 1
    return text, labels | {"end": len(ids) - 1}


def pair_of(
    tokenizer: Tokenizer,
    clean: Sequence[str | Marked],
    corrupted: Sequence[str | Marked],
    correct: list[str],
    incorrect: list[str],
) -> Pair:
    """A pair from the parts of its two prompts, whose marked parts are the same ones."""
    (text, labels), (other, _) = prompt(tokenizer, clean), prompt(tokenizer, corrupted)
    return Pair(text, other, correct, incorrect, labels)


def single(tokenizer: Tokenizer, text: str) -> int | None:
    """The token that spells this text, if there is one: not one that stands for all that is unknown."""
    try:
        token = tokenizer.single(text)
    except MetricError:
        return None
    return token if tokenizer.piece(token).strip().casefold() == text.strip().casefold() else None


def singles(tokenizer: Tokenizer, texts: Sequence[str]) -> list[str]:
    """The texts that are one token each."""
    return [text for text in texts if single(tokenizer, text) is not None]


def goes_on(tokenizer: Tokenizer, text: str, pieces: Sequence[str]) -> bool:
    """Whether each of these pieces is one token where they follow a text."""
    ids = [single(tokenizer, piece) for piece in pieces]
    return tokenizer.encode(text + "".join(pieces)) == [*tokenizer.encode(text), *ids]


def single_words(tokenizer: Tokenizer, words: Sequence[str], noun: str, least: int) -> list[str]:
    """The words that are one token after a space; InputError for fewer than `least`.

    noun: what one of the words is, for the error.
    """
    found = [text[1:] for text in singles(tokenizer, [" " + word for word in words])]
    if len(found) < least:
        raise InputError(
            f"{count(len(found), noun)} of {len(words)} ({', '.join(words[:3])}, ...) are one token after a space "
            f"for this tokenizer; at least {least} are wanted"
        )
    return found


def _text(part: str | Marked) -> str:
    return part.text if isinstance(part, Marked) else part


def _around(parts: Sequence[str | Marked]) -> str:
    return "".join(_text(part) for part in parts)
