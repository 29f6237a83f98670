"""The tokenizer of a Hugging Face folder, read without transformers.

What `tokenizer.json` says is followed to
the letter; transformers 5 rebuilds some parts of it per model class, which shows on Llama-style vocabularies
when a text starts with a space (there the published file, and SentencePiece, keep that space).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import tokenizers
from tokenizers import AddedToken, decoders, models, pre_tokenizers

from ..errors import LoadError
from ..tokenizer import Tokenizer, set_rule, with_own_rule

T = TypeVar("T")

_FLAGS = ("lstrip", "rstrip", "single_word", "normalized", "special")
_NAMED = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
_GPT2_NAMES: dict[str, str] = dict.fromkeys(("bos_token", "eos_token", "unk_token"), "<|endoftext|>")
# The special tokens that transformers' tokenizer classes assume when a folder does not name them.
_CLASS_DEFAULTS: dict[str, dict[str, str]] = {
    "GPT2Tokenizer": _GPT2_NAMES,
    "GPTNeoXTokenizer": _GPT2_NAMES | {"pad_token": "<|padding|>"},
    "LlamaTokenizer": {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"},
    "GemmaTokenizer": {
        "bos_token": "<bos>",
        "eos_token": "<eos>",
        "unk_token": "<unk>",
        "pad_token": "<pad>",
        "mask_token": "<mask>",
    },
    "Qwen2Tokenizer": dict.fromkeys(("eos_token", "unk_token", "pad_token"), "<|endoftext|>"),
}
_CLASS_OF_MODEL = {
    "gpt2": "GPT2Tokenizer",
    "gpt_neox": "GPTNeoXTokenizer",
    "llama": "LlamaTokenizer",
    "gemma": "GemmaTokenizer",
    "gemma2": "GemmaTokenizer",
    "gemma3_text": "GemmaTokenizer",
    "qwen2": "Qwen2Tokenizer",
    "qwen3": "Qwen2Tokenizer",
}


def read_tokenizer(folder: str | PathLike[str]) -> Tokenizer | None:
    """The tokenizer whose files lie in a Hugging Face folder, None if there are none. Raises LoadError."""
    folder = Path(folder)
    config = _read_config(folder)
    if (folder / "tokenizer.json").is_file():
        backend = _backend_from_json(folder / "tokenizer.json")
        _set_prefix_space(backend, config)
    elif (folder / "vocab.json").is_file() and (folder / "merges.txt").is_file():
        backend = _backend_from_merges(folder, config)
    else:
        return None
    _guarded(folder, "tokenizer_config.json", lambda: _add_special_tokens(backend, config))
    bos, eos, pad = (_token_id(backend, config.get(name)) for name in ("bos_token", "eos_token", "pad_token"))
    # Like transformers 5: add_bos_token and add_eos_token count for the old two files, and are ignored
    # beside a tokenizer.json, whose post-processor is the rule.
    if not (folder / "tokenizer.json").is_file():
        set_rule(backend, bos if config.get("add_bos_token") else None, eos if config.get("add_eos_token") else None)
    return with_own_rule(backend, bos, eos, pad)


def _read_config(folder: Path) -> dict[str, Any]:
    """tokenizer_config.json with special_tokens_map.json over it, and what the tokenizer's class assumes."""
    config = _read_json(folder / "tokenizer_config.json")
    if "added_tokens_decoder" not in config:  # newer configs hold everything; the map may be stale beside them
        config |= _read_json(folder / "special_tokens_map.json")
    model_type = _read_json(folder / "config.json").get("model_type")
    name = str(config.get("tokenizer_class") or _CLASS_OF_MODEL.get(str(model_type), ""))
    config["tokenizer_class"] = name.removesuffix("Fast")
    return config


def _read_json(path: Path) -> dict[str, Any]:
    """A file's JSON object; {} if there is no such file."""
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise LoadError(f"{path.name} in {path.parent.name} is not valid JSON: {error}") from None
    if not isinstance(content, dict):
        raise LoadError(f"{path.name} in {path.parent.name} holds a {type(content).__name__}, not an object")
    return content


def _guarded(folder: Path, names: str, make: Callable[[], T]) -> T:
    """Build something from files; what the `tokenizers` library raises is bare Exceptions or Rust panics."""
    try:
        return make()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        raise LoadError(f"{names} in {folder.name} cannot be made into a tokenizer: {error}") from error


def _backend_from_json(path: Path) -> tokenizers.Tokenizer:
    text = _guarded(path.parent, path.name, lambda: path.read_text(encoding="utf-8"))
    return _guarded(path.parent, path.name, lambda: tokenizers.Tokenizer.from_str(text))


def _set_prefix_space(backend: tokenizers.Tokenizer, config: dict[str, Any]) -> None:
    """GPT-2's `add_prefix_space` is set in tokenizer_config.json, whatever tokenizer.json holds."""
    wanted = config.get("add_prefix_space")
    if isinstance(backend.pre_tokenizer, pre_tokenizers.ByteLevel) and isinstance(wanted, bool):
        backend.pre_tokenizer.add_prefix_space = wanted


def _backend_from_merges(folder: Path, config: dict[str, Any]) -> tokenizers.Tokenizer:
    """GPT-2's byte-level BPE from the two files that old folders hold."""
    if config["tokenizer_class"] not in ("", "GPT2Tokenizer"):
        raise LoadError(
            f"{folder.name} holds vocab.json and merges.txt of a {config['tokenizer_class']}; without "
            "tokenizer.json only a GPT2Tokenizer can be built from these"
        )
    config["tokenizer_class"] = "GPT2Tokenizer"
    vocab = _read_json(folder / "vocab.json")
    merges = _read_merges(folder / "merges.txt")
    backend = _guarded(
        folder,
        "vocab.json with merges.txt",
        lambda: tokenizers.Tokenizer(models.BPE(vocab=vocab, merges=merges)),
    )
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=bool(config.get("add_prefix_space")))  # type: ignore[assignment]
    backend.decoder = decoders.ByteLevel()  # type: ignore[assignment]
    return backend


def _read_merges(path: Path) -> list[tuple[str, str]]:
    """merges.txt: a line with its version, then a pair a line."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise LoadError(f"{path.name} in {path.parent.name} is not UTF-8 text: {error}") from None
    pairs = [line.split() for line in lines if line.strip() and not line.startswith("#version")]
    bad = next((pair for pair in pairs if len(pair) != 2), None)
    if bad is not None:
        raise LoadError(f"{path.name} in {path.parent.name} has the line {' '.join(bad)!r}, not a pair")
    return [(left, right) for left, right in pairs]


def _add_special_tokens(backend: tokenizers.Tokenizer, config: dict[str, Any]) -> None:
    """Add what the configuration names and the backend does not know yet, and fill in class defaults."""
    for name, default in _CLASS_DEFAULTS.get(config["tokenizer_class"], {}).items():
        if name not in config and backend.token_to_id(default) is not None:
            config[name] = default
    listed = config.get("added_tokens_decoder") or {}
    for _, token in sorted(listed.items(), key=lambda item: int(item[0])):
        _add(backend, token)
    extra = config.get("extra_special_tokens") or config.get("additional_special_tokens") or []
    extra = extra.values() if isinstance(extra, dict) else extra
    for token in [*(config.get(name) for name in _NAMED), *extra]:
        if token is not None:
            _add(backend, token)


def _add(backend: tokenizers.Tokenizer, token: str | dict[str, Any]) -> None:
    """Make a string, or a token with its flags as JSON, an added token, unless it is one already."""
    known = {added.content for added in backend.get_added_tokens_decoder().values()}
    content = token if isinstance(token, str) else str(token.get("content"))
    if content in known:
        return
    flags = {} if isinstance(token, str) else {k: token[k] for k in _FLAGS if k in token}
    flags = {"normalized": False, "special": True} | flags
    added = AddedToken(content, **flags)
    (backend.add_special_tokens if flags["special"] else backend.add_tokens)([added])


def _token_id(backend: tokenizers.Tokenizer, token: str | dict[str, Any] | None) -> int | None:
    content = token.get("content") if isinstance(token, dict) else token
    return backend.token_to_id(content) if isinstance(content, str) else None
