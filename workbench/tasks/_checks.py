"""What holds of every pair, said in one sentence where it does not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..errors import InputError, KindError, MetricError, count
from ..tokenizer import Tokenizer


def check_tokenizer(tokenizer: object) -> None:
    """There is one, and it leaves a text open at its end."""
    if tokenizer is None:
        raise InputError("a task is made of text and this model has no tokenizer; one is wanted, as model.tokenizer")
    if not isinstance(tokenizer, Tokenizer):
        raise KindError(f"a tokenizer is wanted, as model.tokenizer, not {type(tokenizer).__name__}")
    added = tokenizer.encode("")[int(tokenizer.adds_bos) :]
    if added and added[-1] == tokenizer.eos_id:
        raise InputError(f"this tokenizer ends each text with {tokenizer.piece(added[-1])!r}, which no answer follows")


def check_sizes(
    clean: Sequence[str],
    corrupted: Sequence[str],
    correct: Sequence[Sequence[str]],
    incorrect: Sequence[Sequence[str]],
    labels: Mapping[str, Sequence[int]],
) -> None:
    """One of everything for each pair."""
    if not clean:
        raise InputError("there are no pairs; at least one is wanted")
    columns = {"corrupted": corrupted, "correct": correct, "incorrect": incorrect}
    columns |= {f"the label {name!r}": positions for name, positions in labels.items()}
    for name, column in columns.items():
        if len(column) != len(clean):
            raise InputError(f"there are {count(len(clean), 'clean text')}, and of {name} {len(column)}")


def check_texts(clean: Sequence[str], corrupted: Sequence[str], tokenizer: Tokenizer) -> None:
    """The two of a pair are equally long and differ."""
    for number, texts in enumerate(zip(clean, corrupted, strict=True)):
        ours, theirs = (tokenizer.encode(text) for text in texts)
        if len(ours) != len(theirs):
            a, b = _where_they_differ(*([tokenizer.piece(i) for i in ids] for ids in (ours, theirs)))
            raise InputError(
                f"pair {number} has {count(len(ours), 'token')} in clean and {len(theirs)} in corrupted, which has "
                f"{_listed(b)} where clean has {_listed(a)}; as many are wanted"
            )
        if ours == theirs:
            raise InputError(f"pair {number} has the same tokens in clean and corrupted: {texts[0]!r}")


def check_answers(correct: Sequence[Sequence[str]], incorrect: Sequence[Sequence[str]], tokenizer: Tokenizer) -> None:
    """Each answer is one token, and no token is two answers of a pair."""
    for number, answers in enumerate(zip(correct, incorrect, strict=True)):
        found: dict[int, str] = {}
        for name, texts in zip(("correct", "incorrect"), answers, strict=True):
            if isinstance(texts, str):
                raise KindError(f"pair {number} has the text {texts!r} as its {name} answers; a list is wanted")
            if not texts:
                raise MetricError(f"pair {number} has no {name} answer")
            for text in texts:
                token = _answer(text, number, tokenizer)
                if token in found:
                    raise MetricError(f"pair {number} has the token of {text!r} twice among its answers")
                found[token] = text


def check_labels(
    labels: Mapping[str, Sequence[int]], clean: Sequence[str], corrupted: Sequence[str], tokenizer: Tokenizer
) -> None:
    """Each position lies within its text, in the same word of clean and corrupted."""
    for name in labels:
        if not isinstance(name, str) or not name or name != name.strip():
            raise KindError(f"a label is called {name!r}; a text without spaces around it is wanted")
    for number, texts in enumerate(zip(clean, corrupted, strict=True)):
        ours, theirs = ([tokenizer.piece(i) for i in tokenizer.encode(text)] for text in texts)
        for name, positions in labels.items():
            position = positions[number]
            if isinstance(position, bool) or not isinstance(position, int):
                raise KindError(f"label {name!r} of pair {number} is {position!r}; a position is a whole number")
            if not 0 <= position < len(ours):
                raise InputError(
                    f"label {name!r} of pair {number} is {position}; its positions are 0 to {len(ours) - 1}"
                )
            if name == "end" and position != len(ours) - 1:
                raise InputError(f"label 'end' of pair {number} is {position}; the last token is {len(ours) - 1}")
            if not _same_word(ours, theirs, position):
                raise InputError(
                    f"label {name!r} of pair {number} is token {position}, {ours[position]!r} in clean and "
                    f"{theirs[position]!r} in corrupted, which are in different words of their texts, counted from "
                    "either end"
                )


def _answer(text: str, number: int, tokenizer: Tokenizer) -> int:
    if not isinstance(text, str):
        raise KindError(f"pair {number} has the answer {text!r}; a text is wanted")
    try:
        token = tokenizer.single(text)
    except MetricError as error:
        raise MetricError(f"pair {number}: {error}") from None
    unknown = getattr(tokenizer.backend.model, "unk_token", None)
    if unknown is not None and token == tokenizer.backend.token_to_id(unknown) and text != unknown:
        raise MetricError(f"pair {number} has the answer {text!r}, which the vocabulary has not got")
    return token


def _same_word(ours: list[str], theirs: list[str], position: int) -> bool:
    """Whether a token lies in the same word of two texts, counted from their start or from their end: where words are
    unequally many tokens, the same position may be another place."""
    up_to, onward = slice(None, position + 1), slice(position, None)
    return any(_n_words(ours[part]) == _n_words(theirs[part]) for part in (up_to, onward))


def _n_words(pieces: list[str]) -> int:
    return len("".join(pieces).split())


def _where_they_differ(ours: list[str], theirs: list[str]) -> tuple[list[str], list[str]]:
    """The pieces between what two texts have in common at the start and at the end."""
    least = min(len(ours), len(theirs))
    start = next((i for i in range(least) if ours[i] != theirs[i]), least)
    end = next((i for i in range(least - start) if ours[-1 - i] != theirs[-1 - i]), least - start)
    return ours[start : len(ours) - end], theirs[start : len(theirs) - end]


def _listed(pieces: list[str]) -> str:
    return ", ".join(map(repr, pieces)) or "nothing"
