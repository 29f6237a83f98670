"""`wb.load`, which finds the right reader, and `wb.from_huggingface`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch

from .errors import FetchError, KindError, LoadError, MissingError, nearest
from .formats.checkpoint import is_checkpoint, read_checkpoint
from .formats.gguf_model import read_gguf
from .formats.huggingface import read_folder, read_memory
from .formats.published import Loaded
from .hooked import HookedTransformer
from .keywords import checked_keywords
from .presets import presets
from .pretrained import fetch, pretrained
from .sizes import usable_device


@checked_keywords
def load(
    source: str | Path, dtype: torch.dtype | None = torch.float32, device: torch.device | str = "cpu"
) -> HookedTransformer:
    """A model in evaluation mode, its weights frozen.

    source: a checkpoint folder of ours, a Hugging Face folder, a .gguf file, a name in `wb.pretrained()`, or a
            hub id such as "openai-community/gpt2" where the hub can be reached.
    dtype:  None keeps the file's own, which stays memory-mapped.
    """
    if not isinstance(source, (str, Path)):
        raise KindError(
            f"wb.load takes a path or a name, not {type(source).__name__}; "
            "for a transformers model in memory there is wb.from_huggingface"
        )
    if dtype is not None and not (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
        raise KindError(f"dtype is {dtype!r}; a floating-point torch.dtype is wanted, or None for the file's own")
    where = usable_device(device)
    path = Path(source)
    if not str(source) or not path.exists():
        path = _obtained(str(source))
    return _assembled(_read_path(path, dtype, where))


def _read_path(path: Path, dtype: torch.dtype | None, device: torch.device) -> Loaded:
    if path.is_file():
        if path.suffix.lower() != ".gguf":
            raise LoadError(f"{str(path)!r} is a file of unknown kind; a .gguf file or a model folder is wanted")
        return read_gguf(path, dtype, device)
    if is_checkpoint(path):
        return read_checkpoint(path, dtype, device)
    return read_folder(path, dtype, device)


def _obtained(name: str) -> Path:
    """The local path of a model that must be fetched first."""
    if name in pretrained():
        return fetch(name)
    if re.fullmatch(r"[\w-][\w.-]*/[\w.-]+", name) and not name.endswith((".gguf", ".safetensors")):
        return _from_hub(name)
    if name in presets():
        raise MissingError(
            f"{name!r} is a preset, without weights; wb.HookedTransformer(wb.ModelSpec.preset({name!r})) draws some"
        )
    raise MissingError(f"there is no file, folder or model {name!r}; {nearest(name, pretrained())}")


def _from_hub(hub_id: str) -> Path:
    try:
        from huggingface_hub import snapshot_download  # slow to import, and few loads come from the hub

        return Path(snapshot_download(hub_id, allow_patterns=["*.json", "*.safetensors", "*.txt", "*.model"]))
    except Exception as error:  # the hub's client raises types of many libraries
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise FetchError(
            f"{hub_id!r} is no folder here and could not be had from the hub ({type(error).__name__}: {reason[0]})"
        ) from error


@checked_keywords
def from_huggingface(hf_model: Any, tokenizer: Any = None) -> HookedTransformer:
    """A transformers model in memory, in its own dtype and on its own device. Its weights are copied."""
    return _assembled(read_memory(hf_model, tokenizer))


def _assembled(loaded: Loaded) -> HookedTransformer:
    return HookedTransformer(loaded.spec, tokenizer=loaded.tokenizer, tensors=loaded.tensors)
