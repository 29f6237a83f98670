"""A GGUF file as a model: llama.cpp's metadata and names put back into those of the family's Hugging Face files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import gguf as gguf_names
import torch
from torch import Tensor

from ..errors import FamilyError
from ..families import family, supported
from ..families._config import Config
from ..spec import ModelSpec
from .gguf import GGUFFile
from .gguf_tokenizer import read_gguf_tokenizer
from .published import Loaded, read_published


def read_gguf(path: Path, dtype: torch.dtype | None, device: torch.device) -> Loaded:
    """Spec, dequantised weights and tokenizer of one file. dtype None gives float32."""
    file = GGUFFile.open(path)
    model_family = _family(file)
    config = _config(file, model_family)
    spec = model_family.spec(Config(config, file.path.name))
    source = GGUFTensors(file, model_family, spec)
    spec, tensors = read_published(config, source, dtype, device)
    return Loaded(spec, tensors, read_gguf_tokenizer(file))


def _family(file: GGUFFile) -> ModuleType:
    found = family(file.architecture)
    if not hasattr(found, "GGUF_KEYS"):
        with_gguf = [name for name in supported() if hasattr(family(name), "GGUF_KEYS")]
        raise FamilyError(
            f"{file.path.name} is a GGUF file of {file.architecture!r}, a family that is read from Hugging Face "
            f"folders only; GGUF is read for {', '.join(with_gguf)}"
        )
    return found


def _config(file: GGUFFile, model_family: ModuleType) -> dict[str, Any]:
    """The config that the family's Hugging Face file would have; a key that nobody accounts for is refused."""
    config: dict[str, Any] = {
        "model_type": file.architecture,
        "vocab_size": file.shape("token_embd.weight")[0],
        "tie_word_embeddings": "output.weight" not in file.tensors,
    }
    prefix = f"{file.architecture}."
    for key, value in file.metadata.items():
        if not key.startswith(prefix):
            continue
        theirs = model_family.GGUF_KEYS.get(key.removeprefix(prefix))
        if theirs is None:
            raise FamilyError(
                f"{file.path.name} says {key} = {value!r}, a key that is not accounted for and could change the result"
            )
        if config.get(theirs, value) != value:
            raise FamilyError(f"{file.path.name} says {key} = {value!r} and elsewhere {theirs} = {config[theirs]!r}")
        config[theirs] = value
    return config


class GGUFTensors:
    """The file's tensors by Hugging Face names, with what llama.cpp did to them undone."""

    def __init__(self, file: GGUFFile, model_family: ModuleType, spec: ModelSpec):
        self.where = file.path.name
        self._file, self._family, self._spec = file, model_family, spec
        self._theirs = self._names(file.architecture, spec.n_layers)

    def _names(self, architecture: str, n_layers: int) -> dict[str, str]:
        """Hugging Face name -> name in the file. What no name of the family stands for keeps its own, so that it is
        reported as left over."""
        number = next(key for key, name in gguf_names.MODEL_ARCH_NAMES.items() if name == architecture)
        table = gguf_names.get_tensor_name_map(number, n_layers)
        found = {}
        for part in self._family.sources(self._spec).values():
            theirs = None
            for full in (self._family.PREFIX + part.name, part.name):
                theirs = theirs or table.get_name(full, try_suffixes=(".weight", ".bias"))
            if theirs in self._file.tensors:
                found[part.name] = theirs
        left = self._file.tensors.keys() - set(found.values())
        return found | {name: name for name in left}

    def names(self) -> Iterable[str]:
        return self._theirs

    def shape(self, name: str) -> tuple[int, ...]:
        return self._file.shape(self._theirs[name])

    def dtype(self, name: str) -> torch.dtype:
        kind = self._file.tensors[self._theirs[name]].kind
        return {"F16": torch.float16, "BF16": torch.bfloat16}.get(kind, torch.float32)

    def tensor(self, name: str) -> Tensor:
        return self._family.from_gguf(name, self._file.tensor(self._theirs[name], self.dtype(name)), self._spec)
