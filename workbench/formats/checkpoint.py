"""Our own checkpoint: a folder with `workbench.json` (the spec), `model.safetensors` and the tokenizer's files."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file

from ..errors import LoadError, SpecError
from ..files import atomic_folder
from ..model.init import meta_transformer
from ..model.transformer import Transformer
from ..spec import ModelSpec
from ..tokenizer import Tokenizer
from .huggingface import SafetensorsFolder, read_json
from .published import Loaded
from .tokenizer_folder import read_tokenizer

SPEC_FILE = "workbench.json"
_FORMAT = 1


def is_checkpoint(folder: Path) -> bool:
    return (folder / SPEC_FILE).is_file()


def save_checkpoint(model: Transformer, tokenizer: Tokenizer | None, folder: Path) -> None:
    """Write the folder whole or not at all; a checkpoint that stood there is replaced."""
    if folder.exists() and not is_checkpoint(folder) and (folder.is_file() or any(folder.iterdir())):
        raise LoadError(f"{str(folder)!r} exists and is no checkpoint of ours; it is not overwritten")
    tensors = {name: parameter.detach().contiguous() for name, parameter in model.named_parameters()}
    with atomic_folder(folder) as temporary:
        described = {"format": _FORMAT, "spec": model.spec.to_dict()}
        (temporary / SPEC_FILE).write_text(json.dumps(described, indent=1), "utf-8")
        save_file(tensors, temporary / "model.safetensors")
        if tokenizer is not None:
            tokenizer.save(temporary)


def read_checkpoint(folder: Path, dtype: torch.dtype | None, device: torch.device) -> Loaded:
    described = read_json(folder / SPEC_FILE)
    if described.get("format") != _FORMAT:
        raise LoadError(f"{str(folder)!r} is a checkpoint of format {described.get('format')!r}; {_FORMAT} can be read")
    try:
        spec = ModelSpec.from_dict(described["spec"])
    except (KeyError, SpecError) as error:
        raise LoadError(f"{str(folder / SPEC_FILE)!r} holds no valid spec: {error}") from None
    source = SafetensorsFolder(folder)
    wanted = {name: tuple(parameter.shape) for name, parameter in meta_transformer(spec).named_parameters()}
    if differ := sorted(wanted.keys() ^ set(source.names())):
        state = "lacks" if differ[0] in wanted else "has an unknown"
        raise LoadError(f"{str(folder)!r} {state} tensor {differ[0]!r}")
    for name, shape in wanted.items():
        if source.shape(name) != shape:
            raise LoadError(
                f"{str(folder)!r} has {name!r} of shape {list(source.shape(name))}; {list(shape)} is wanted"
            )
    tensors = {name: source.tensor(name).to(device=device, dtype=dtype) for name in wanted}
    return Loaded(spec, tensors, read_tokenizer(folder))
