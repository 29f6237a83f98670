"""What a row says after its prompt: ids, and the text of them as far as it can be read."""

from __future__ import annotations

from collections.abc import Sequence

from ..tokenizer import Tokenizer
from .stopping import Stop

_CONTEXT = 6  # tokens of the prompt that new ones are decoded behind: what a space or half a letter depends on
_NOT_YET_TEXT = "\ufffd"  # what bytes decode to that are not, or not yet, a letter


class Continuation:
    """The new tokens of one row.

    ids:   the new tokens, the one that ended the row included.
    text:  what they say, without what ended the row; "" where there is no tokenizer.
    ended: whether a stop was met.
    """

    def __init__(self, prompt: Sequence[int], stop: Stop, tokenizer: Tokenizer | None):
        self.ids: list[int] = []
        self.text, self.ended = "", False
        self._stop, self._tokenizer = stop, tokenizer
        self._context = list(prompt[-_CONTEXT:])
        self._read = 0  # how many of the ids are in the text
        self._told = 0  # how many letters of the text were handed out

    def add(self, token: int) -> None:
        self.ids.append(token)
        if token in self._stop.ids:
            self.ended = True
            return
        before = len(self.text)
        self._spell(whole_letters=True)
        if (at := self._stop.first_in(self.text, before)) is not None:
            self.text, self.ended = self.text[:at], True

    def news(self, last: bool) -> str:
        """The text that was not told before, and cannot become part of a stop string.

        last: nothing follows, so that what was held back is told.
        """
        if last and not self.ended:
            self._spell(whole_letters=False)
        held_back = 0 if last or self.ended else self._stop.undecided(self.text)
        end = max(self._told, len(self.text) - held_back)
        news, self._told = self.text[self._told : end], end
        return news

    def _spell(self, whole_letters: bool) -> None:
        """Add what the unread ids say. Decoded behind what was read before, since a token's spelling depends on it;
        ids that end amid a letter wait for the rest."""
        if self._tokenizer is None or self._read == len(self.ids):
            return
        behind = (self._context + self.ids[: self._read])[-_CONTEXT:]
        known = self._tokenizer.decode(behind)
        said = self._tokenizer.decode([*behind, *self.ids[self._read :]])
        if whole_letters and said.endswith(_NOT_YET_TEXT):
            return
        self.text += said[len(known) :]
        self._read = len(self.ids)
