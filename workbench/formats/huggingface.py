"""A Hugging Face model folder, read without transformers, and a transformers model in memory.

Weights are memory-mapped from safetensors and never unpickled.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from ..errors import KindError, LoadError, MissingError
from ..tokenizer import Tokenizer
from .published import Loaded, read_published
from .tokenizer_folder import read_tokenizer

_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
}
_SINGLE, _INDEX = "model.safetensors", "model.safetensors.index.json"


def read_folder(folder: Path, dtype: torch.dtype | None, device: torch.device) -> Loaded:
    """A folder with config.json, one or several safetensors files, and usually a tokenizer."""
    config = read_json(folder / "config.json")
    source = SafetensorsFolder(folder)
    spec, tensors = read_published(config, source, dtype, device)
    return Loaded(spec, tensors, read_tokenizer(folder))


def read_memory(hf_model: Any, tokenizer: Any = None) -> Loaded:
    """A transformers model in memory. Its weights are copied and it is left untouched."""
    if not hasattr(hf_model, "state_dict") or not hasattr(getattr(hf_model, "config", None), "to_dict"):
        raise KindError(f"a transformers model is wanted, with config and state_dict, not {type(hf_model).__name__}")
    source = StateDict(hf_model.state_dict(), f"the {type(hf_model).__name__}")
    device = next(iter(hf_model.parameters())).device
    spec, tensors = read_published(hf_model.config.to_dict(), source, None, device)
    return Loaded(spec, tensors, None if tokenizer is None else Tokenizer.from_transformers(tokenizer))


class SafetensorsFolder:
    """The tensors of a folder's safetensors files, single or sharded, memory-mapped."""

    def __init__(self, folder: Path):
        self.where = str(folder)
        self._files = {path: _opened(path) for path in _weight_files(folder)}
        self._holder = {name: file for file in self._files.values() for name in file.keys()}  # noqa: SIM118
        if not (folder / _SINGLE).is_file():
            self._follow_index(folder)

    def _follow_index(self, folder: Path) -> None:
        """A tensor comes from the shard that the index names, whatever others hold."""
        for name, shard in _shards(folder).items():
            file = self._files[folder / shard]
            if name not in file.keys():  # noqa: SIM118
                raise LoadError(f"{self.where} lists {name!r} in {_INDEX}, and {shard} does not hold it")
            self._holder[name] = file

    def names(self) -> Iterable[str]:
        return self._holder

    def called(self, name: str) -> str:
        return name

    def mapped(self, name: str) -> bool:
        return True

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._holder[name].get_slice(name).get_shape())

    def dtype(self, name: str) -> torch.dtype:
        kept = self._holder[name].get_slice(name).get_dtype()
        if kept not in _DTYPES:
            raise LoadError(f"{self.where} keeps {name!r} as {kept}; {', '.join(_DTYPES)} can be read")
        return _DTYPES[kept]

    def tensor(self, name: str) -> Tensor:
        return self._holder[name].get_tensor(name)


class StateDict:
    """A model's tensors in memory, copied when taken."""

    def __init__(self, tensors: Mapping[str, Tensor], where: str):
        self._tensors, self.where = tensors, where

    def names(self) -> Iterable[str]:
        return self._tensors

    def called(self, name: str) -> str:
        return name

    def mapped(self, name: str) -> bool:
        return False

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._tensors[name].shape)

    def dtype(self, name: str) -> torch.dtype:
        return self._tensors[name].dtype

    def tensor(self, name: str) -> Tensor:
        return self._tensors[name].detach().clone()


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object of a file; MissingError or LoadError in one sentence."""
    if not path.is_file():
        raise MissingError(f"the folder {str(path.parent)!r} has no {path.name}")
    try:
        data = json.loads(path.read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise LoadError(f"{str(path)!r} is not whole JSON: {error}") from None
    if not isinstance(data, dict):
        raise LoadError(f"{str(path)!r} holds a JSON {type(data).__name__}; an object is wanted")
    return data


def _weight_files(folder: Path) -> list[Path]:
    if (folder / _SINGLE).is_file():
        return [folder / _SINGLE]
    if (folder / _INDEX).is_file():
        return [folder / name for name in sorted(set(_shards(folder).values()))]
    pickled = sorted(path.name for path in folder.glob("*.bin")) + sorted(path.name for path in folder.glob("*.pt"))
    if pickled:
        raise LoadError(
            f"{str(folder)!r} has only pickled weights ({pickled[0]}), which are never loaded; "
            "save the model as safetensors"
        )
    raise MissingError(f"the folder {str(folder)!r} has neither {_SINGLE} nor {_INDEX}")


def _shards(folder: Path) -> dict[str, str]:
    """Tensor name -> file name, which must lie in the folder itself."""
    shards = read_json(folder / _INDEX).get("weight_map")
    if not isinstance(shards, dict) or not all(isinstance(name, str) for name in shards.values()):
        raise LoadError(f"{str(folder / _INDEX)!r} has no weight_map from tensors to files")
    if outside := [name for name in shards.values() if Path(name).name != name]:
        raise LoadError(f"{str(folder / _INDEX)!r} names a file outside its folder: {outside[0]!r}")
    return shards


def _opened(path: Path) -> Any:
    if not path.is_file():
        raise MissingError(f"the folder {str(path.parent)!r} lacks {path.name}, which its index lists")
    try:
        return safe_open(path, "pt")
    except (SafetensorError, OSError) as error:
        raise LoadError(f"{str(path)!r} is truncated or not a safetensors file: {error}") from None
