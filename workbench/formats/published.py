"""From a published model to parameters of ours: the part that all file formats share.

A format offers its tensors by the names that the family's Hugging Face files use. Everything is checked on shapes
alone before any tensor is read: nothing missing, nothing left over, every part of the right shape.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, Protocol

import torch
from torch import Tensor

from ..errors import LoadError, TooLargeError, nearest
from ..families import family
from ..families._config import Config
from ..families._sources import Source
from ..model.init import meta_transformer
from ..sizes import free_memory, size_text
from ..spec import ModelSpec
from ..tokenizer import Tokenizer

# Files saved by older releases keep the frequencies of rotation, which the config says.
_FREQUENCIES = r"(.+\.)?rotary_emb\.inv_freq"


@dataclass
class Loaded:
    """What every format gives: a model yet to be put together."""

    spec: ModelSpec
    tensors: dict[str, Tensor]
    tokenizer: Tokenizer | None


class TensorSource(Protocol):
    """Tensors by name, with shapes that are known without reading them.

    called: what the file itself calls a tensor, there or not, for errors.
    mapped: whether `tensor` gives memory that is there already, so that it takes none.
    """

    where: str

    def names(self) -> Iterable[str]: ...

    def called(self, name: str) -> str: ...

    def mapped(self, name: str) -> bool: ...

    def shape(self, name: str) -> tuple[int, ...]: ...

    def dtype(self, name: str) -> torch.dtype: ...

    def tensor(self, name: str) -> Tensor: ...


def read_published(
    config: Mapping[str, Any], source: TensorSource, dtype: torch.dtype | None, device: torch.device
) -> tuple[ModelSpec, dict[str, Tensor]]:
    """Spec and parameters of a model that a family describes. dtype None keeps the file's own."""
    model_family = family(config.get("model_type"))
    reader = Config(config, source.where)
    spec = model_family.spec(reader)
    reader.finish()
    located = locate(model_family, spec, source)
    refuse_too_large(located, source, dtype, device)
    # One tensor of the file may hold several parameters; it is let go of with the last, since it may be a copy.
    read: dict[str, Tensor] = {}
    uses = Counter(part.name for part in located.values())

    def parameter(part: Source) -> Tensor:
        if part.stack:  # filled in place, so that no more than one of them is in memory twice
            first = part.view(source.tensor(part.name))
            whole = torch.empty(1 + len(part.stack), *first.shape, dtype=dtype or first.dtype, device=device)
            for index, name in enumerate((part.name, *part.stack)):
                whole[index] = part.view(source.tensor(name))
            return whole
        if part.name not in read:
            read[part.name] = source.tensor(part.name)
        uses[part.name] -= 1
        tensor = read[part.name] if uses[part.name] else read.pop(part.name)
        return part.view(tensor).to(device=device, dtype=dtype)

    return spec, {name: parameter(part) for name, part in located.items()}


def locate(model_family: ModuleType, spec: ModelSpec, source: TensorSource) -> dict[str, Source]:
    """Parameter name -> where it lies; LoadError names the tensor that is missing, left over or misshapen."""
    existing = set(source.names())
    prefix = model_family.PREFIX if any(name.startswith(model_family.PREFIX) for name in existing) else ""
    parts = {name: _in_file(part, prefix, existing) for name, part in model_family.sources(spec).items()}
    located: dict[str, Source] = {}
    for name, parameter in meta_transformer(spec).named_parameters():
        part = located[name] = parts[name]
        if missing := [theirs for theirs in (part.name, *part.stack) if theirs not in existing]:
            theirs, names = source.called(missing[0]), map(source.called, existing)
            raise LoadError(f"{source.where} lacks the tensor {theirs!r}; {nearest(theirs, names)}")
        _check_shape(part, tuple(parameter.shape), source)
    left = existing - {theirs for part in located.values() for theirs in (part.name, *part.stack)}
    ignored = re.compile(f"({re.escape(model_family.PREFIX)})?({'|'.join((*model_family.IGNORED, _FREQUENCIES))})")
    left = {name for name in left if not ignored.fullmatch(name)}
    if hasattr(model_family, "of_no_use"):
        left -= model_family.of_no_use(spec, left)
    _allow_tied_copy(left, parts, located, source)
    if left:
        first = min(map(source.called, left))
        raise LoadError(f"{source.where} has {len(left)} tensors that this model has no use for, first {first!r}")
    return located


def _in_file(part: Source | tuple[Source, ...], prefix: str, existing: set[str]) -> Source:
    """A part under the name that this file uses: a model with a head prefixes its backbone, a bare one does not. Of
    several places where it may lie, the first that the file has."""
    places = [
        place
        if place.of_head
        else replace(place, name=prefix + place.name, stack=tuple(prefix + name for name in place.stack))
        for place in (part if isinstance(part, tuple) else (part,))
    ]
    return next((place for place in places if place.name in existing), places[0])


def _check_shape(part: Source, wanted: tuple[int, ...], source: TensorSource) -> None:
    if part.stack:
        for name in (part.name, *part.stack):
            _check_shape(replace(part, name=name, stack=()), wanted[1:], source)
        return
    shape = source.shape(part.name)
    try:
        came = tuple(part.view(torch.empty(shape, device="meta")).shape)
    except (RuntimeError, IndexError):
        came = ()
    if came != wanted or part.split_unevenly(shape):
        raise LoadError(
            f"{source.where} has {source.called(part.name)!r} of shape {list(shape)}; "
            f"the config makes its part {list(wanted)}"
        )


def _allow_tied_copy(left: set[str], parts: dict[str, Source], located: dict[str, Source], source: TensorSource):
    """A tied model's file may hold the embedding a second time, and then it must be the same."""
    copy = parts["unembedding.weight"].name
    if copy in left and "unembedding.weight" not in located:
        if not torch.equal(source.tensor(copy), source.tensor(located["embedding.weight"].name)):
            raise LoadError(
                f"{source.where} has {source.called(copy)!r} different from its embedding, while the config says that "
                "they are tied"
            )
        left.discard(copy)


def refuse_too_large(
    located: Mapping[str, Source], source: TensorSource, dtype: torch.dtype | None, device: torch.device
) -> None:
    """TooLargeError before anything is read. What stays memory-mapped in the file's own dtype takes nothing."""
    size, counted = 0, set()
    for part in located.values():
        for name in {part.name, *part.stack} - counted:
            kept = source.dtype(name)
            converted = device.type != "cpu" or (dtype is not None and dtype != kept)
            if converted or part.copied or not source.mapped(name):
                size += torch.Size(source.shape(name)).numel() * (dtype or kept).itemsize
            counted.add(name)
    if size > (free := free_memory(device)):
        raise TooLargeError(
            f"{source.where} takes {size_text(size)} on {device} and {size_text(free)} are free; "
            "a smaller dtype, or the dtype of the file, takes less"
        )
