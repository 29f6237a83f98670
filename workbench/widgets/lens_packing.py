"""A lens as the browser gets it, one example at a time: each token's text once, and all numbers packed as bytes."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from itertools import pairwise
from operator import index
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..errors import InputError, KindError, TooLargeError, count
from ..figures.arrays import array
from ..figures.tokens import visible

LIMIT = 8_000_000  # bytes of one example, and of a file of several
NAME = 48  # characters of a text that name it

FIELDS = (
    *("tokens", "logprobs", "labels", "str_tokens", "texts", "entropy", "kl", "next_tokens", "next_logprobs"),
    *("next_ranks", "target_tokens", "target_texts", "target_logprobs", "target_ranks"),
)
FLOATS = ("logprobs", "entropy", "kl", "next_logprobs", "target_logprobs")
RANKS = ("next_ranks", "target_ranks")


@dataclass(frozen=True)
class Pages:
    """The examples of a lens, and which of its positions are shown (None: all). Padding never is."""

    lens: Any
    wanted: tuple[int, ...] | None

    @property
    def n_examples(self) -> int:
        return len(self.lens.str_tokens)

    @cached_property
    def tokens(self) -> NDArray[np.int64]:
        """[example, row, pos, k] ids, -1 at padding."""
        return torch.as_tensor(self.lens.tokens).cpu().numpy()

    def positions(self, example: int) -> list[int]:
        """Those of an example that are shown."""
        real = self._real(example)
        return real if self.wanted is None else sorted(set(self.wanted) & set(real))

    def _real(self, example: int) -> list[int]:
        """The columns of an example that hold a token."""
        return (self.tokens[example, 0, :, 0] >= 0).nonzero()[0].tolist()

    def name(self, example: int) -> str:
        """Its first words, visible."""
        first = [self.lens.str_tokens[example][pos] for pos in self._real(example)[:NAME]]
        text = "".join(map(visible, first)).replace("␣", " ").strip()
        return text if len(text) <= NAME else text[: NAME - 1] + "…"

    def page(self, example: int) -> dict[str, Any]:
        """What the view needs of one example.

        positions, prompt: the columns and their tokens; next: by column, the number of the text's next token among
        `words`, -1 for none; targets: the same of the tokens that are followed; words: visible texts; k; index: the
        type of the numbers of words; data: `FLOATS` as float32 [row, pos, ...], `RANKS` as int32, then the top
        tokens' numbers of words [row, pos, k], all little-endian.
        """
        positions = self.positions(example)
        top = self.tokens[example][:, positions]
        following = torch.as_tensor(self.lens.next_tokens).cpu().numpy()[example, positions]
        words = self._words(example, positions, top, following)
        ids = np.array(list(words), dtype=np.int64)
        kind = "uint16" if len(ids) <= 2**16 else "uint32"
        parts = [
            *(self._part(name, example, positions).astype("<f4") for name in FLOATS),
            *(self._part(name, example, positions).astype("<i4") for name in RANKS),
            np.searchsorted(ids, top).astype(np.dtype(kind).newbyteorder("<")),
        ]
        return {
            "example": example,
            "positions": positions,
            "prompt": [visible(self.lens.str_tokens[example][pos]) for pos in positions],
            "next": np.where(following < 0, -1, np.searchsorted(ids, following)).tolist(),
            "targets": np.searchsorted(ids, np.array(self.lens.target_tokens, dtype=np.int64)).tolist(),
            "words": [visible(text) for text in words.values()],
            "k": top.shape[-1],
            "index": kind,
            "data": b"".join(part.tobytes() for part in parts),
        }

    def _part(self, name: str, example: int, positions: list[int]) -> NDArray[Any]:
        values = torch.as_tensor(getattr(self.lens, name))[example]
        return (array(values, name) if name in FLOATS else values.cpu().numpy())[:, positions]

    def _words(
        self, example: int, positions: list[int], top: NDArray[np.int64], following: NDArray[np.int64]
    ) -> dict[int, str]:
        """The text of every token of a page, by id, in order of ids."""
        lens, ids = self.lens, np.unique(top, return_index=True)
        places = zip(*np.unravel_index(ids[1], top.shape), strict=True)
        said = [lens.texts[example][row][positions[column]][k] for row, column, k in places]
        words = dict(zip(ids[0].tolist(), said, strict=True))
        words |= dict(zip(lens.target_tokens, lens.target_texts, strict=True))
        after = dict(pairwise(self._real(example)))
        for pos, token in zip(positions, following.tolist(), strict=True):
            if token >= 0:
                words[token] = lens.str_tokens[example][after[pos]]
        return dict(sorted(words.items()))

    def cut(self, example: int) -> Any:
        """What figures need of a lens, of this example and its shown positions alone."""
        lens, positions = self.lens, self.positions(example)
        numbers = ("logprobs", "entropy", "kl", "next_logprobs", "next_ranks", "target_logprobs", "target_ranks")
        ids, following = (torch.as_tensor(each)[[example]] for each in (lens.tokens, lens.next_tokens))
        right = (ids[..., 0] == following[:, None]) & (following[:, None] >= 0)
        return SimpleNamespace(
            **{name: torch.as_tensor(getattr(lens, name))[[example]][:, :, positions] for name in numbers},
            right=right[..., positions],
            labels=lens.labels,
            str_tokens=[[lens.str_tokens[example][pos] for pos in positions]],
            texts=[[[row[pos] for pos in positions] for row in lens.texts[example]]],
            target_texts=lens.target_texts,
        )

    def size(self, example: int) -> int:
        """Bytes of a page's numbers, at most."""
        return len(self.positions(example)) * self._size_of_a_position

    @property
    def _size_of_a_position(self) -> int:
        _, rows, _, k = self.tokens.shape
        return rows * (8 * k + 16 + 8 * len(self.lens.target_tokens))

    def check(self) -> None:
        """Raises InputError for an example of which nothing is to be shown, TooLargeError for one of too much."""
        for example in range(self.n_examples):
            if not self.positions(example):
                real = self._real(example)
                raise InputError(f"positions has no token of example {example}, which has {real[0]} to {real[-1]}")
            if (size := self.size(example)) > LIMIT:
                what, most = count(len(self.positions(example)), "position"), LIMIT // self._size_of_a_position
                advice = f"pass positions= for at most {most} of them, such as range({most})"
                raise TooLargeError(
                    f"{what} of this lens: {size / 1e6:.0f} MB, more than a page shows; "
                    + (advice if most else "give wb.logit_lens a smaller top_k")
                )

    @cached_property
    def fingerprint(self) -> str:
        """Tells lenses over different texts, layers or targets apart."""
        lens = self.lens
        what = (list(lens.labels), [list(tokens) for tokens in lens.str_tokens], list(lens.target_texts))
        return blake2b(repr(what).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def pages(lens: Any, positions: Sequence[int] | None) -> Pages:
    """KindError for what is no lens, InputError for positions that it has not got, TooLargeError for too many."""
    missing = [name for name in FIELDS if not hasattr(lens, name)]
    if len(missing) == len(FIELDS):
        raise KindError(f"lens is {type(lens).__name__}; what wb.logit_lens gives is wanted")
    if missing:
        what = ", ".join(missing[:-1]) + " and " * (len(missing) > 1) + missing[-1]
        raise KindError(f"lens has no {what}; one that wb.logit_lens gives has")
    opened = Pages(lens, _checked(positions, len(lens.str_tokens[0])))
    opened.check()
    return opened


def _checked(positions: Sequence[int] | None, n: int) -> tuple[int, ...] | None:
    if positions is None:
        return None
    try:
        shown = tuple(sorted({index(pos) for pos in positions}))
    except TypeError:
        raise KindError(f"positions is {positions!r}; a list of whole numbers or a range is wanted") from None
    if not shown:
        raise InputError("positions is empty; name at least one")
    for pos in (shown[0], shown[-1]):
        if not 0 <= pos < n:
            raise InputError(f"there is no position {pos}; the lens has 0 to {n - 1}")
    return shown


def as_json(page: dict[str, Any]) -> dict[str, Any]:
    """A page for a file: its bytes in base64."""
    return {**page, "data": base64.b64encode(page["data"]).decode("ascii")}
