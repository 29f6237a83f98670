"""Text to token ids and back, around a backend of the `tokenizers` library.

tokenizer = read_tokenizer("my-model")      # workbench.formats.tokenizer_folder
tokenizer.encode("Hello")                   # the tokenizer's own rule about BOS
tokenizer.encode("Hello", prepend_bos=True)  # exactly one BOS in front
tokenizer.piece(262)                        # ' the'
tokenizer.single(" Mary")                   # its id, or an error that shows the pieces
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import tokenizers
import torch
from tokenizers import processors
from torch import Tensor

from .errors import InputError, KindError, MetricError


class Tokenizer:
    """A tokenizer and its rule about BOS. Nothing about it changes after it is made.

    The backend is taken over: padding and truncation are switched off, special tokens inside a text are
    recognised, and if its post-processor disagrees with `adds_bos` it is replaced by one that agrees.
    """

    def __init__(
        self,
        backend: tokenizers.Tokenizer,
        bos_id: int | None,
        eos_id: int | None,
        pad_id: int | None = None,
        *,
        adds_bos: bool,
    ):
        if adds_bos and bos_id is None:
            raise InputError("adds_bos=True came without a bos_id; give the id of the BOS token")
        backend.no_padding()
        backend.no_truncation()
        backend.encode_special_tokens = False
        front, back = _added_around(backend)
        if (bos_id in front) != adds_bos:
            set_rule(backend, bos_id if adds_bos else None, eos_id if eos_id in back else None)
        self.backend = backend
        self.bos_id, self.eos_id, self.pad_id = bos_id, eos_id, pad_id
        self.adds_bos = adds_bos

    @classmethod
    def from_transformers(cls, tokenizer: Any) -> Tokenizer:
        """A copy of a transformers fast tokenizer, which itself stays as it is."""
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if not isinstance(backend, tokenizers.Tokenizer):
            raise KindError(
                f"a {type(tokenizer).__name__} came, which has no backend of the tokenizers library; "
                "a fast tokenizer is wanted, such as AutoTokenizer gives"
            )
        copy = tokenizers.Tokenizer.from_str(backend.to_str())
        return with_own_rule(copy, tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id)

    def save(self, folder: str | PathLike[str]) -> None:
        """Write tokenizer.json, which holds the rule about BOS, and a tokenizer_config.json with the names of
        the special tokens; transformers reads both."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        named = {"bos_token": self.bos_id, "eos_token": self.eos_id, "pad_token": self.pad_id}
        config: dict[str, Any] = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "clean_up_tokenization_spaces": False,
        }
        config |= {name: self.backend.id_to_token(i) for name, i in named.items() if i is not None}
        (folder / "tokenizer.json").write_text(self.backend.to_str(), encoding="utf-8")
        (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")

    @cached_property
    def vocab_size(self) -> int:
        """One more than the largest id, added tokens included."""
        return max(self.backend.get_vocab(with_added_tokens=True).values(), default=-1) + 1

    def encode(self, text: str, prepend_bos: bool | None = None) -> list[int]:
        """Token ids of a text; special tokens written out in it are recognised.

        prepend_bos: None follows the tokenizer's own rule, True gives exactly one BOS in front whatever the
        text starts with, False leaves out the BOS that the rule would add. Raises InputError, KindError.
        """
        if not isinstance(text, str):
            raise KindError(f"text to encode came as {type(text).__name__}; a str is wanted")
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise InputError(f"the text {text!r} holds half a surrogate pair, which is no character")
        ids = self.backend.encode(text).ids
        if prepend_bos is None:
            return ids
        if self.bos_id is None:
            if prepend_bos:
                raise InputError("prepend_bos=True came to a tokenizer without a BOS token; use None or False")
            return ids
        if prepend_bos:
            return [self.bos_id, *_without_leading(ids, self.bos_id)]
        if self.adds_bos:
            ids.remove(self.bos_id)  # the first one is the rule's: it stands before all of the text
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        """The text of token ids, special tokens included, spaces as they are."""
        return self.backend.decode([self._known(i) for i in ids], skip_special_tokens=False)

    def piece(self, token_id: int) -> str:
        """One token as a person reads it: ' the', '<|endoftext|>'; bytes that are no text as '<0xE2><0x80>'."""
        token = str(self.backend.id_to_token(self._known(token_id)))
        return token if token_id in self._added else self._spelling(token)

    def pad_left(self, rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        """Rows of ids as one batch of ids and mask, both [batch, pos]: see the function `pad_left`."""
        return pad_left(rows, self.pad_id or 0)

    def single(self, text: str) -> int:
        """The id of a text which is one token where it continues another; MetricError shows its pieces."""
        ids = self.continuation(text)
        if len(ids) == 1:
            return ids[0]
        shown = ", ".join(repr(self.piece(i)) for i in ids) or "nothing"
        spaced = self._continuing.encode(" " + text, add_special_tokens=False).ids
        hint = f"; {' ' + text!r}, with a leading space, is one" if text and len(spaced) == 1 else ""
        raise MetricError(f"{text!r} is not one token: it splits into {shown}{hint}")

    def continuation(self, text: str) -> list[int]:
        """The ids of a text that continues another: no BOS, and no space but its own."""
        return self._continuing.encode(text, add_special_tokens=False).ids

    def knows(self, token_id: int) -> bool:
        """Whether there is such a token: a model's vocabulary may be larger, padded to a round number."""
        return 0 <= token_id < self.vocab_size and self.backend.id_to_token(token_id) is not None

    def _known(self, token_id: int) -> int:
        token_id = int(token_id)
        if not self.knows(token_id):
            raise InputError(f"token id {token_id} is not in this vocabulary of {self.vocab_size} tokens")
        return token_id

    @cached_property
    def _added(self) -> frozenset[int]:
        return frozenset(self.backend.get_added_tokens_decoder())

    @cached_property
    def _spelling(self) -> Callable[[str], str]:
        """How this kind of vocabulary writes text."""
        parts = _state(self.backend.decoder) + _state(self.backend.pre_tokenizer)
        if '"ByteLevel"' in parts:
            return _byte_level_text
        if '"ByteFallback"' in parts or '"Metaspace"' in parts or "▁" in parts:
            return _sentencepiece_text
        return str

    @cached_property
    def _continuing(self) -> tokenizers.Tokenizer:
        """The backend without the space that some vocabularies put before a text ('Mary' as '▁Mary')."""
        normalizer, pre = _state(self.backend.normalizer), _state(self.backend.pre_tokenizer)
        adds_space = '"Prepend"' in normalizer or re.search(
            r'"prepend_scheme":"(first|always)"|"add_prefix_space":true', pre
        )
        if not adds_space:
            return self.backend
        spec = json.loads(self.backend.to_str())
        spec["normalizer"] = _without_prefix(spec["normalizer"])
        spec["pre_tokenizer"] = _without_prefix(spec["pre_tokenizer"])
        return tokenizers.Tokenizer.from_str(json.dumps(spec))


def pad_left(rows: Sequence[Sequence[int]], pad_id: int = 0) -> tuple[Tensor, Tensor]:
    """Rows of ids as one batch, aligned at the right.

    Returns ids [batch, pos] (int64; `pad_id` where there is no token) and mask [batch, pos] (bool,
    True at tokens).
    """
    if not rows:
        raise InputError("no rows came to pad; at least one list of token ids is wanted")
    width = max(len(row) for row in rows)
    ids = torch.full((len(rows), width), pad_id, dtype=torch.long)
    mask = torch.zeros(len(rows), width, dtype=torch.bool)
    for i, row in enumerate(rows):
        if len(row):
            ids[i, width - len(row) :] = torch.as_tensor(row, dtype=torch.long)
            mask[i, width - len(row) :] = True
    return ids, mask


# ---- the rule about BOS and EOS ------------------------------------------------------------------------


def set_rule(backend: tokenizers.Tokenizer, bos_id: int | None, eos_id: int | None) -> None:
    """Make the backend put this BOS before every text and this EOS after it; None for neither."""
    bos = backend.id_to_token(bos_id) if bos_id is not None else None
    eos = backend.id_to_token(eos_id) if eos_id is not None else None
    single = [part for part in (bos, "$A", eos) if part is not None]
    pair = [*single, *[part + ":1" for part in (bos, "$B", eos) if part is not None]]
    special = [(token, i) for token, i in {bos: bos_id, eos: eos_id}.items() if token is not None]
    backend.post_processor = processors.TemplateProcessing(single=single, pair=pair, special_tokens=special)  # type: ignore[arg-type]


def _added_around(backend: tokenizers.Tokenizer) -> tuple[list[int], list[int]]:
    """The ids that the backend's post-processor puts before and after a text."""
    bare = backend.encode("a", add_special_tokens=False).ids
    full = backend.encode("a").ids
    for start in range(len(full) - len(bare) + 1):
        if full[start : start + len(bare)] == bare:
            return full[:start], full[start + len(bare) :]
    return full, []


def with_own_rule(
    backend: tokenizers.Tokenizer, bos_id: int | None, eos_id: int | None, pad_id: int | None
) -> Tokenizer:
    """A tokenizer that adds BOS exactly where its backend's post-processor does."""
    backend.no_padding()
    backend.no_truncation()
    front, _ = _added_around(backend)
    return Tokenizer(backend, bos_id, eos_id, pad_id, adds_bos=bos_id is not None and bos_id in front)


def _without_leading(ids: list[int], token_id: int | None) -> list[int]:
    start = next((i for i, found in enumerate(ids) if found != token_id), len(ids))
    return ids[start:]


# ---- how a vocabulary spells text ----------------------------------------------------------------------


def byte_alphabet() -> dict[str, int]:
    """Byte-level BPE's letter for each of the 256 bytes.

    Printable Latin-1 stands for itself; the other bytes, in order, take the letters from U+0100 on.
    """
    plain = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(0x100 + i): byte for i, byte in enumerate(others)}


_BYTE_OF = byte_alphabet()
_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def _byte_level_text(token: str) -> str:
    if any(letter not in _BYTE_OF for letter in token):
        return token  # no byte-level spelling: literal text
    return _show_bytes(bytes(_BYTE_OF[letter] for letter in token))


def _sentencepiece_text(token: str) -> str:
    if byte := _BYTE_TOKEN.fullmatch(token):
        return _show_bytes(bytes([int(byte[1], 16)]))
    return token.replace("▁", " ")


def _show_bytes(raw: bytes) -> str:
    """UTF-8 as text, and what is not UTF-8 as <0xNN>."""
    text = raw.decode("utf-8", "surrogateescape")  # a byte that is no text becomes U+DC00 + byte
    return re.sub("[\udc80-\udcff]", lambda found: f"<0x{ord(found[0]) - 0xDC00:02X}>", text)


def _state(part: Any) -> str:
    """A normalizer, pre-tokenizer or decoder as compact JSON; '' for none."""
    return "" if part is None else part.__getstate__().decode("utf-8")


def _without_prefix(spec: Any) -> Any:
    """A normalizer's or pre-tokenizer's JSON without what puts a space before the text."""
    if spec is None or spec["type"] == "Prepend":
        return None
    for parts in ("normalizers", "pretokenizers"):
        if parts in spec:
            kept = [_without_prefix(part) for part in spec[parts]]
            return spec | {parts: [part for part in kept if part is not None]}
    never = {"prepend_scheme": "never", "add_prefix_space": False}
    return spec | {key: value for key, value in never.items() if key in spec}
