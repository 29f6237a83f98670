"""When a row ends: at a token, at a text, or when it is long enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, TypeAlias

from ..errors import InputError, KindError
from ..tokenizer import Tokenizer

StopLike: TypeAlias = int | str | Sequence[int | str] | None


@dataclass(frozen=True)
class Stop:
    """What ends a row."""

    ids: frozenset[int]
    strings: tuple[str, ...]

    def first_in(self, text: str, start: int) -> int | None:
        """Where the earliest stop string of a text begins, in what came after `start`; None for nowhere."""
        longest = max((len(string) for string in self.strings), default=0)
        found = [text.find(string, max(0, start - longest + 1)) for string in self.strings]
        return min((at for at in found if at >= 0), default=None)

    def undecided(self, text: str) -> int:
        """How many letters at the end of a text may turn out to begin a stop string."""
        lengths = [n for string in self.strings for n in range(1, len(string)) if text.endswith(string[:n])]
        return max(lengths, default=0)


def read_stop(given: StopLike, tokenizer: Tokenizer | None, vocab_size: int) -> Stop:
    """Ids and strings, one or several, beside the tokenizer's end-of-text token; an empty list for nothing at all."""
    items: list[Any] = [] if given is None else [given]
    if isinstance(given, Sequence) and not isinstance(given, (str, bytes)):
        items = list(given)
    for item in items:
        _check(item, tokenizer, vocab_size)
    strings = tuple(item for item in items if isinstance(item, str))
    ids = {int(item) for item in items if not isinstance(item, str)}
    eos = None if tokenizer is None else tokenizer.eos_id
    if eos is not None and (items or given is None):
        ids.add(eos)
    return Stop(frozenset(ids), strings)


def _check(item: Any, tokenizer: Tokenizer | None, vocab_size: int) -> None:
    if isinstance(item, str):
        if not item:
            raise InputError("a stop string is empty; a text of at least one letter is wanted")
        if tokenizer is None:
            raise InputError(f"the stop string {item!r} came and this model has no tokenizer; give ids of tokens")
    elif isinstance(item, bool) or not isinstance(item, Integral):
        raise KindError(f"stop is made of texts and ids of tokens; {item!r} came")
    elif not 0 <= item < vocab_size:  # type: ignore[operator]
        raise InputError(f"stop id {item} is out of range; this model's vocabulary is 0 to {vocab_size - 1}")
