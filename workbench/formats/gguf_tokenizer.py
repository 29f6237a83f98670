"""The tokenizer that a GGUF file describes in its `tokenizer.ggml.*` metadata.

Two kinds are built: "gpt2", byte-level BPE with the pre-tokenizer that `tokenizer.ggml.pre` names, and
"llama", SentencePiece BPE with byte fallback. Where llama.cpp and transformers disagree, llama.cpp is
followed, since it is what the file was written for and since it agrees with the published tokenizers:

- "smollm" and its like split every digit off before GPT-2's pattern; transformers does not ("  1")
- "llama-bpe" takes a word that is a token whole before trying merges, and adds BOS unless told otherwise
- SentencePiece puts its space before every stretch of text, also one that starts with a space or follows a
  special token, and only if `add_space_prefix` allows it
- Gemma's pieces merge in the order of their scores, as in SentencePiece, not in that of the vocabulary
- special tokens of Phi-3, which its file gives away by its name alone, swallow the space after them
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers

from ..errors import LoadError, nearest
from ..tokenizer import Tokenizer, set_rule
from .gguf import GGUFFile

# tokenizer.ggml.token_type
_UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED, _BYTE = 2, 3, 4, 5, 6

_CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_TAIL = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_LLAMA3 = rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}|{_TAIL}"
_CAPITALS, _SMALL = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_WORD = rf"[^\r\n\p{{L}}\p{{N}}]?{_CAPITALS}*{_SMALL}+"
_CAPITAL_WORD = rf"[^\r\n\p{{L}}\p{{N}}]?{_CAPITALS}+{_SMALL}*"
_SLASHED_TAIL = r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_TEKKEN = rf"{_WORD}|{_CAPITAL_WORD}|\p{{N}}|{_SLASHED_TAIL}"
_GPT_4O = rf"{_WORD}{_CONTRACTIONS}?|{_CAPITAL_WORD}{_CONTRACTIONS}?|\p{{N}}{{1,3}}|{_SLASHED_TAIL}"
_QWEN2 = rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}|{_TAIL}"


@dataclass(frozen=True)
class _Split:
    """How text is cut before the merges: `pattern` (None: GPT-2's), after single digits where `digits`.

    `whole_words` takes a word that is a token as it is, without merging; `adds_bos` is the rule about BOS of
    a file that does not state one.
    """

    pattern: str | None = None
    digits: bool = False
    whole_words: bool = False
    adds_bos: bool = False

    def pre_tokenizer(self) -> pre_tokenizers.PreTokenizer:
        steps: list[Any] = []
        if self.digits:
            steps.append(pre_tokenizers.Digits(individual_digits=True))
        if self.pattern is not None:
            steps.append(pre_tokenizers.Split(Regex(self.pattern), behavior="isolated"))
        steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=self.pattern is None))
        return pre_tokenizers.Sequence(steps)


# Files from before the key existed, and those that say "default", are taken as GPT-2: that is what they were.
_SPLITS = {
    **dict.fromkeys(("default", "gpt-2", "phi-2", "mpt", "olmo", "jais"), _Split()),
    **dict.fromkeys(("smollm", "starcoder", "refact", "command-r", "codeshell"), _Split(digits=True)),
    **dict.fromkeys(
        ("llama-bpe", "llama3", "llama-v3", "falcon3", "pixtral"), _Split(_LLAMA3, whole_words=True, adds_bos=True)
    ),
    "tekken": _Split(_TEKKEN, whole_words=True, adds_bos=True),
    "gpt-4o": _Split(_GPT_4O),
    **dict.fromkeys(("dbrx", "smaug-bpe"), _Split(_LLAMA3)),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen", "stablelm2"), _Split(_QWEN2)),
}


def gguf_tokenizer(file: GGUFFile | str | PathLike[str]) -> Tokenizer:
    """The tokenizer of a GGUF file. Raises LoadError where it has none, or one that cannot be built."""
    if not isinstance(file, GGUFFile):
        file = GGUFFile.open(file)
    words = _Words(file)
    kind = words.get("model", str)
    if kind == "gpt2":
        split = _split(words)
        backend, adds_bos = _byte_level(words, split), split.adds_bos
    elif kind == "llama":
        backend, adds_bos = _sentencepiece(words), True
    else:
        raise words.broken(f"has a tokenizer of the kind {kind!r}; 'gpt2' and 'llama' can be built")
    _add_tokens(backend, words)
    bos, eos = words.id("bos_token_id"), words.id("eos_token_id")
    adds_bos = bool(words.get("add_bos_token", bool, adds_bos)) and bos is not None
    adds_eos = bool(words.get("add_eos_token", bool, False)) and eos is not None
    set_rule(backend, bos if adds_bos else None, eos if adds_eos else None)
    return Tokenizer(backend, bos, eos, words.id("padding_token_id"), adds_bos=adds_bos)


def read_gguf_tokenizer(file: GGUFFile) -> Tokenizer | None:
    """The tokenizer of a GGUF file, None if it states none. Raises LoadError for one that cannot be built."""
    stated = file.metadata.get("tokenizer.ggml.model", "none")
    return None if stated in ("none", "no_vocab") else gguf_tokenizer(file)


class _Words:
    """The `tokenizer.ggml.*` metadata of a file, checked as it is read."""

    def __init__(self, file: GGUFFile):
        self.file = file
        self.tokens: list[str] = self.list("tokens", str)
        self.types: list[int] = self.list("token_type", int, len(self.tokens), optional=True)
        self.vocab = self._vocab()

    def get(self, key: str, kind: type, default: Any = None) -> Any:
        """One value of a kind; `default` where the file does not state it."""
        value = self.file.metadata.get(f"tokenizer.ggml.{key}", default)
        if value is not default and not isinstance(value, kind):
            raise self.broken(f"states tokenizer.ggml.{key} as {str(value)[:40]!r}, not as {kind.__name__}")
        return value

    def list(self, key: str, kind: type, length: int | None = None, optional: bool = False) -> list[Any]:
        values = self.get(key, list, [])
        if not values and not optional:
            raise self.broken(f"has no tokenizer.ggml.{key}, so there is no tokenizer in it")
        if values and not isinstance(values[0], kind):
            raise self.broken(f"states tokenizer.ggml.{key} as {type(values[0]).__name__}, not {kind.__name__}")
        if values and length is not None and len(values) != length:
            raise self.broken(f"gives {len(values):,} tokenizer.ggml.{key} to {length:,} tokens")
        return values

    def id(self, key: str) -> int | None:
        """A special token's id, which must be one of the vocabulary."""
        value = self.get(key, int)
        if value is not None and not 0 <= value < len(self.tokens):
            raise self.broken(f"states tokenizer.ggml.{key} {value}, outside its {len(self.tokens):,} tokens")
        return value

    def of_type(self, *types: int) -> Sequence[int]:
        return [i for i, kind in enumerate(self.types) if kind in types]

    def broken(self, what: str) -> LoadError:
        return LoadError(f"{self.file.path.name} {what}")

    def _vocab(self) -> dict[str, int]:
        vocab = {token: i for i, token in enumerate(self.tokens)}
        if len(vocab) != len(self.tokens):
            twice = next(token for i, token in enumerate(self.tokens) if vocab[token] != i)
            raise self.broken(f"lists the token {twice!r} twice")
        return vocab


def _split(words: _Words) -> _Split:
    name = words.get("pre", str, "default")
    if name not in _SPLITS:
        raise words.broken(f"names the pre-tokenizer {name!r}, which is not known; {nearest(name, _SPLITS)}")
    return _SPLITS[name]


def _byte_level(words: _Words, split: _Split) -> tokenizers.Tokenizer:
    backend = _bpe(words, _merges(words), ignore_merges=split.whole_words)
    backend.pre_tokenizer = split.pre_tokenizer()  # type: ignore[assignment]
    backend.decoder = decoders.ByteLevel()  # type: ignore[assignment]
    return backend


def _sentencepiece(words: _Words) -> tokenizers.Tokenizer:
    """Merges in the order of the scores: SentencePiece always joins the pair whose piece scores best."""
    stated = words.get("merges", list)
    merges = _merges(words) if stated else _merges_from_scores(words)
    unknown = words.id("unknown_token_id")
    unknown_token = words.tokens[unknown] if unknown is not None else None
    backend = _bpe(words, merges, byte_fallback=True, fuse_unk=True, unk_token=unknown_token)
    prefix = words.get("add_space_prefix", bool, True)
    steps = [*([normalizers.Prepend("▁")] if prefix else []), normalizers.Replace(" ", "▁")]
    backend.normalizer = normalizers.Sequence(steps)  # type: ignore[assignment]
    joined = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    stripped = [decoders.Strip(" ", 1, 0)] if prefix else []
    backend.decoder = decoders.Sequence([*joined, *stripped])  # type: ignore[assignment]
    return backend


def _bpe(words: _Words, merges: list[tuple[str, str]], **options: Any) -> tokenizers.Tokenizer:
    try:
        return tokenizers.Tokenizer(models.BPE(vocab=words.vocab, merges=merges, **options))
    except Exception as error:  # the library raises nothing narrower
        raise words.broken(f"has merges that do not fit its tokens: {error}") from None


def _merges(words: _Words) -> list[tuple[str, str]]:
    """Pairs from "left right"; a space inside a piece would have been written as its byte's letter."""
    pairs = []
    for merge in words.list("merges", str):
        left, space, right = merge.partition(" ")
        if not (left and space and right) or " " in right:
            raise words.broken(f"has the merge {merge!r}, which is no pair")
        pairs.append((left, right))
    return pairs


def _merges_from_scores(words: _Words) -> list[tuple[str, str]]:
    """Every way to make a piece of two others, best score first; control tokens and bytes are never made."""
    scores = words.list("scores", float, len(words.tokens))
    apart = set(words.of_type(_UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED, _BYTE))
    joinable = {token: i for token, i in words.vocab.items() if i not in apart}
    ways = [
        (-scores[i], -cut, cut - len(token), token[:cut], token[cut:])
        for token, i in joinable.items()
        for cut in range(1, len(token))
        if token[:cut] in joinable and token[cut:] in joinable
    ]
    return [(left, right) for *_, left, right in sorted(ways, key=lambda way: way[:3])]


def _add_tokens(backend: tokenizers.Tokenizer, words: _Words) -> None:
    """Control tokens become special tokens, user-defined ones plain added tokens: both are found in text."""
    named = [words.id(f"{name}_token_id") for name in ("bos", "eos", "unknown", "padding")]
    special = {*words.of_type(_CONTROL, _UNKNOWN), *(i for i in named if i is not None)}
    plain = set(words.of_type(_USER_DEFINED)) - special

    def added(i: int, **options: bool) -> AddedToken:
        return AddedToken(words.tokens[i], normalized=False, rstrip=_swallows_space(words, i), **options)

    backend.add_special_tokens([added(i, special=True) for i in sorted(special)])
    backend.add_tokens([added(i) for i in sorted(plain)])


def _swallows_space(words: _Words, i: int) -> bool:
    name = str(words.file.metadata.get("general.name", "")).lower()
    return ("phi-3" in name or "phi3" in name) and words.tokens[i] not in ("<unk>", "<s>", "<|endoftext|>")
