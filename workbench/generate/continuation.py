"""What a row says after its prompt: ids, and the text of them as far as it can be read."""

from __future__ import annotations

from collections.abc import Sequence

from ..tokenizer import Tokenizer
from .stopping import Stop

_NOT_TEXT = "\ufffd"  # what bytes decode to that are not, or not yet, a letter


class Continuation:
    """The new tokens of one row.

    ids:   the new tokens, the one that ended the row included.
    text:  what they say, without what ended it; "" where there is no tokenizer. Ids that it does not know say nothing.
    ended: whether a stop was met.
    """

    def __init__(self, prompt: Sequence[int], stop: Stop, tokenizer: Tokenizer | None):
        self.ids: list[int] = []
        self.text, self.ended = "", False
        self._stop, self._tokenizer = stop, tokenizer
        self._behind = list(prompt)  # ids that are read, whole letters: how a token is spelt depends on those before it
        self._unread: list[int] = []
        self._told = 0  # how many letters of the text were handed out

    def add(self, token: int) -> None:
        self.ids.append(token)
        if token in self._stop.ids:
            self._spell(whole_letters=False)
            self.ended = True
        else:
            self._unread.append(token)
            self._spell(whole_letters=True)

    def unread(self, last: bool) -> str:
        """The text that was not handed out before, and cannot become part of a stop string.

        last: nothing follows, so that what was held back is handed out.
        """
        if last:
            self._spell(whole_letters=False)
        held_back = 0 if last or self.ended else self._stop.undecided(self.text)
        end = max(self._told, len(self.text) - held_back)
        unread, self._told = self.text[self._told : end], end
        return unread

    def _spell(self, whole_letters: bool) -> None:
        """Add what the unread ids say, up to a stop string. Ids that end amid a letter wait for the rest of it."""
        if self._tokenizer is None or not self._unread or self.ended:
            return
        known = self._decoded(self._behind)
        cut = known.endswith(_NOT_TEXT)  # a prompt of tokens may end amid a letter
        said = self._decoded(self._behind + self._unread)
        if whole_letters and said.endswith(_NOT_TEXT):
            return
        before, self.text = len(self.text), self.text + said[len(known.rstrip(_NOT_TEXT)) :]
        self._behind, self._unread = (self._behind if cut else []) + self._unread, []
        if (at := self._stop.first_in(self.text, before)) is not None:
            self.text, self.ended = self.text[:at], True

    def _decoded(self, ids: Sequence[int]) -> str:
        assert self._tokenizer is not None
        return self._tokenizer.decode([token for token in ids if self._tokenizer.knows(token)])
