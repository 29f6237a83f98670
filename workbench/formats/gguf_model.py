"""A GGUF file as a model: llama.cpp's metadata and names put back into those of the family's Hugging Face files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import gguf as gguf_names
import torch
from torch import Tensor

from ..errors import FamilyError, LoadError, nearest
from ..families import family, supported
from ..families._config import Config
from ..families._gguf import scaling
from ..spec import ModelSpec
from .gguf import PLAIN, GGUFFile
from .gguf_tokenizer import read_gguf_tokenizer
from .published import Loaded, read_published


def read_gguf(path: Path, dtype: torch.dtype | None, device: torch.device) -> Loaded:
    """Spec, dequantised weights and tokenizer of one file. dtype None gives float32 where the file is quantised."""
    file = GGUFFile.open(path)
    said = _said(file)
    model_family = _family(file, said)
    config = _config(file, model_family, said)
    source = GGUFTensors(file, model_family, model_family.spec(Config(config, file.path.name)))
    spec, tensors = read_published(config, source, dtype, device)
    return Loaded(spec, tensors, read_gguf_tokenizer(file))


def _said(file: GGUFFile) -> dict[str, Any]:
    """The metadata about the model itself, by keys without the architecture in front."""
    prefix = f"{file.architecture}."
    return {key.removeprefix(prefix): value for key, value in file.metadata.items() if key.startswith(prefix)}


def _family(file: GGUFFile, said: Mapping[str, Any]) -> ModuleType:
    """The family of the file's architecture; of several, the one that takes what the file says."""
    readable = [found for found in map(family, supported()) if hasattr(found, "GGUF_ARCHITECTURE")]
    for found in readable:
        if file.architecture == found.GGUF_ARCHITECTURE and (not hasattr(found, "is_gguf") or found.is_gguf(said)):
            return found
    names = sorted({found.GGUF_ARCHITECTURE for found in readable})
    raise FamilyError(
        f"{file.path.name} is a GGUF file of the architecture {file.architecture!r}, and those that are read are "
        f"{', '.join(names)}; other families are read from Hugging Face folders"
    )


def _config(file: GGUFFile, model_family: ModuleType, said: Mapping[str, Any]) -> dict[str, Any]:
    """The config that the family's Hugging Face file would have; a key that nobody accounts for is refused."""
    if "token_embd.weight" not in file.tensors:
        raise LoadError(f"{file.path.name} lacks the tensor 'token_embd.weight'; {nearest('token_embd', file.tensors)}")
    config: dict[str, Any] = {
        "model_type": model_family.__name__.rpartition(".")[2],
        "vocab_size": (file.shape("token_embd.weight") or (0,))[0],
        "tie_word_embeddings": "output.weight" not in file.tensors,
    }
    if isinstance(tokens := file.metadata.get("tokenizer.ggml.tokens"), list):
        _put(config, "vocab_size", len(tokens), f"{file.path.name} has a tokenizer, whose number of tokens")
    keys = model_family.GGUF_KEYS
    for key, value in said.items():
        if key not in keys:
            raise FamilyError(
                f"{file.path.name} says {file.architecture}.{key} = {value!r}, a key that is not accounted for and "
                "could change the result"
            )
        if keys[key] is not None:
            _put(config, keys[key], value, f"{file.path.name} says {file.architecture}.{key}")
    for name in keys.keys() & file.tensors.keys():
        _put(config, keys[name], file.tensor(name).flatten().tolist(), f"{file.path.name} has {name}")
    reader = Config(config, file.path.name)
    config |= scaling(reader)
    if hasattr(model_family, "gguf_config"):
        config |= model_family.gguf_config(reader, file.tensors.keys())
    return config


def _put(config: dict[str, Any], path: str, value: Any, said: str) -> None:
    """A value under a key, or under one inside an object; one that is there already must be the same."""
    *inside, last = path.split(".")
    for name in inside:
        config = config.setdefault(name, {})
    if config.setdefault(last, value) != value:
        raise FamilyError(f"{said} = {value!r} and elsewhere {path} = {config[last]!r}")


class GGUFTensors:
    """The file's tensors by Hugging Face names, with what llama.cpp did to them undone."""

    def __init__(self, file: GGUFFile, model_family: ModuleType, spec: ModelSpec):
        self.where = file.path.name
        self._file, self._family, self._spec = file, model_family, spec
        self._theirs, self._wanted = self._names(spec.n_layers)

    def _names(self, n_layers: int) -> tuple[dict[str, str], dict[str, str]]:
        """Hugging Face name -> name in the file, of what is there and of what would have to be. What no name of the
        family stands for keeps its own, so that it is reported as left over."""
        architecture = self._file.architecture
        number = next((key for key, name in gguf_names.MODEL_ARCH_NAMES.items() if name == architecture), None)
        if number is None:
            raise LoadError(f"the gguf package that is installed knows no names of {architecture!r}; a newer one does")
        table = gguf_names.get_tensor_name_map(number, n_layers)

        def theirs(name: str) -> str | None:
            full = table.get_name(self._family.PREFIX + name, try_suffixes=(".weight", ".bias"))
            return full or table.get_name(name, try_suffixes=(".weight", ".bias"))

        found: dict[str, str] = {}
        wanted: dict[str, str] = {}
        for part in self._family.sources(self._spec).values():
            places = part if isinstance(part, tuple) else (part,)
            named = {place.name: name for place in places if (name := theirs(place.name))}
            there = next(((ours, name) for ours, name in named.items() if name in self._file.tensors), None)
            if there is not None:
                found[there[0]] = there[1]
            elif whole := [name for name in named.values() if name.endswith((".weight", ".bias"))]:
                wanted[places[0].name] = whole[0]
        left = self._file.tensors.keys() - set(found.values()) - self._family.GGUF_KEYS.keys()
        return found | {name: name for name in left}, wanted

    def names(self) -> Iterable[str]:
        return self._theirs

    def called(self, name: str) -> str:
        return self._theirs.get(name) or self._wanted.get(name, name)

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._undone_on_paper(name)[1].shape)

    def dtype(self, name: str) -> torch.dtype:
        kind = self._file.tensors[self._theirs[name]].kind
        return PLAIN.get(kind, torch.float32)

    def mapped(self, name: str) -> bool:
        before, after = self._undone_on_paper(name)
        return self._file.tensors[self._theirs[name]].kind in PLAIN and (after is before or after._base is before)

    def tensor(self, name: str) -> Tensor:
        return self._family_s(name, self._file.tensor(self._theirs[name], self.dtype(name)))

    def _undone_on_paper(self, name: str) -> tuple[Tensor, Tensor]:
        """A tensor of this shape as the file has it and as the family wants it, without memory."""
        before = torch.empty(self._file.shape(self._theirs[name]), device="meta")
        try:
            return before, self._family_s(name, before)
        except RuntimeError:  # of a wrong shape, as whoever asked will say
            return before, before

    def _family_s(self, name: str, tensor: Tensor) -> Tensor:
        return self._family.from_gguf(name, tensor, self._spec) if hasattr(self._family, "from_gguf") else tensor
