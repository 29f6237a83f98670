"""Reading a GGUF file: what its header says, and its tensors as float32.

    file = GGUFFile.open("model.gguf")
    file.architecture, file.metadata["llama.block_count"]
    file.shape("blk.0.attn_q.weight")        # [out, in], without touching the data
    file.tensor("blk.0.attn_q.weight")       # float32

The header is parsed here rather than by `gguf.GGUFReader`: that one makes an array object for every string
(2.6 s on a vocabulary of 49,152, against 0.1 s) and believes whatever counts a damaged file states. Here
every length is compared with the bytes that are left before anything is read or allocated. The constants
and the arithmetic of the quantised types are the `gguf` package's.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from difflib import get_close_matches
from math import prod
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, quants
from torch import Tensor

from ..errors import InputError, LoadError, MissingError, nearest

PLAIN = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
QUANTISED = ("Q4_0", "Q4_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K")
SUPPORTED = (*PLAIN, *QUANTISED)

_VERSIONS = (2, 3)
_MAX_DIMS = 4
_MAX_ITEMS = 2**23  # array elements in a whole header; the largest vocabularies need about a million
_DEFAULT_ALIGNMENT = 32
_PIECE = 2**20  # elements dequantised at a time: the intermediate arrays then stay small

_STRING, _ARRAY = 8, 9
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


@dataclass(frozen=True)
class TensorInfo:
    """Where one tensor lies: shape in torch's order (slowest axis first), start and size in bytes."""

    name: str
    shape: tuple[int, ...]
    kind: str  # "F32", "Q4_1", ...; "type 99" for one that the gguf package has no name for
    start: int
    n_bytes: int


@dataclass(frozen=True)
class GGUFFile:
    """An open GGUF file; the data stays on disk, memory-mapped, until a tensor is asked for."""

    path: Path
    metadata: dict[str, Any]
    tensors: dict[str, TensorInfo]
    data: np.ndarray  # [bytes] uint8, a private map: what is written into it never reaches the file

    @classmethod
    def open(cls, path: str | PathLike[str]) -> GGUFFile:
        """Read the header; every tensor must lie inside the file. Raises MissingError, LoadError."""
        path = Path(path)
        data = _map(path)
        cursor = _Cursor(path, data)
        metadata, tensors = _read_header(cursor)
        _check_extent(path, tensors, len(data))
        return cls(path, metadata, tensors, data)

    @property
    def architecture(self) -> str:
        """The model's kind in llama.cpp's words, such as 'llama'; also the prefix of its metadata keys."""
        name = self.metadata.get("general.architecture")
        if not isinstance(name, str):
            raise LoadError(f"{self.path.name} names no general.architecture, which every model file does")
        return name

    def shape(self, name: str) -> tuple[int, ...]:
        """A tensor's shape in torch's order, [out, in] for a weight matrix."""
        return self._info(name).shape

    def tensor(self, name: str, dtype: torch.dtype = torch.float32) -> Tensor:
        """A tensor as `dtype`, dequantised where needed.

        Unquantised values that are already `dtype` come as a view of the mapped file, without a copy: pages
        are read when used. Raises LoadError for a type outside `SUPPORTED`.
        """
        info = self._info(name)
        if info.kind not in SUPPORTED:
            raise LoadError(
                f"tensor {name!r} in {self.path.name} is stored as {info.kind}; "
                f"the types that can be read are {', '.join(SUPPORTED)}"
            )
        if info.n_bytes == 0:
            return torch.empty(info.shape, dtype=dtype)
        if info.kind in PLAIN:
            return self._plain(info).to(dtype)
        return self._dequantised(info).to(dtype)

    def _info(self, name: str) -> TensorInfo:
        if name not in self.tensors:
            raise InputError(f"{self.path.name} has no tensor {name!r}; {nearest(name, self.tensors)}")
        return self.tensors[name]

    def _bytes(self, info: TensorInfo) -> np.ndarray:
        return self.data[info.start : info.start + info.n_bytes]

    def _plain(self, info: TensorInfo) -> Tensor:
        raw = self._bytes(info)
        if info.start % PLAIN[info.kind].itemsize:  # an odd general.alignment: torch wants whole elements
            raw = raw.copy()
        return torch.from_numpy(raw).view(PLAIN[info.kind]).reshape(info.shape)

    def _dequantised(self, info: TensorInfo) -> Tensor:
        """float32 [*shape], computed a few rows at a time into one buffer."""
        kind = GGMLQuantizationType[info.kind]
        columns = info.shape[-1]
        out = np.empty((prod(info.shape[:-1]), columns), np.float32)
        raw = self._bytes(info).reshape(len(out), -1)
        step = max(1, _PIECE // max(1, columns))
        for row in range(0, len(out), step):
            out[row : row + step] = quants.dequantize(raw[row : row + step], kind)
        return torch.from_numpy(out).reshape(info.shape)


def _map(path: Path) -> np.ndarray:
    """The file as [bytes] uint8, mapped copy-on-write so that torch may treat it as ordinary memory."""
    if not path.is_file():
        beside = [p.name for p in path.parent.glob("*.gguf")] if path.parent.is_dir() else []
        near = ", ".join(get_close_matches(path.name, beside, n=3)) or ", ".join(beside[:6]) or "none"
        raise MissingError(f"{path} is no file; the .gguf files beside it are: {near}")
    if path.stat().st_size < 24:
        raise LoadError(f"{path.name} has {path.stat().st_size} bytes, too few for the header of a GGUF file")
    with open(path, "rb") as file:
        return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY), np.uint8)


class _Cursor:
    """A place in the header that only moves forward and never past the end of the file."""

    def __init__(self, path: Path, data: np.ndarray):
        self.path, self.data, self.at, self.items = path, data.data, 0, 0

    def bytes(self, n: int) -> bytes:
        self.need(n)
        self.at += n
        return bytes(self.data[self.at - n : self.at])

    def number(self, code: str) -> Any:
        return struct.unpack("<" + code, self.bytes(struct.calcsize("<" + code)))[0]

    def string(self) -> str:
        raw = self.bytes(self.number("Q"))
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            # Some published vocabularies hold broken pieces; what cannot be text is kept as escapes.
            return raw.decode("utf-8", "backslashreplace")

    def array(self) -> list[Any]:
        kind, n = self.number("I"), self.number("Q")
        if kind == _STRING:
            self.count(n, 8)
            return [self.string() for _ in range(n)]
        if kind not in _SCALARS:
            raise self.broken(f"holds an array of value type {kind}, which is none")
        size = struct.calcsize("<" + _SCALARS[kind])
        self.count(n, size)
        return list(struct.unpack(f"<{n}{_SCALARS[kind]}", self.bytes(n * size)))

    def value(self) -> Any:
        kind = self.number("I")
        if kind == _STRING:
            return self.string()
        if kind == _ARRAY:
            return self.array()
        if kind not in _SCALARS:
            raise self.broken(f"holds a value of type {kind}, which is none")
        return self.number(_SCALARS[kind])

    def count(self, n: int, smallest: int) -> None:
        """Refuse a count whose items could not fit into what is left of the file."""
        self.need(n * smallest)
        self.items += n
        if self.items > _MAX_ITEMS:
            raise self.broken(f"states lists of {self.items:,} items in all, more than any model has")

    def need(self, n: int) -> None:
        if self.at + n > len(self.data):
            raise LoadError(
                f"{self.path.name} ends inside its header: it has {len(self.data):,} bytes and byte "
                f"{self.at + n:,} was wanted, so it is truncated or damaged"
            )

    def broken(self, what: str) -> LoadError:
        return LoadError(f"{self.path.name} {what} (at byte {self.at:,}), so it is damaged")


def _read_header(cursor: _Cursor) -> tuple[dict[str, Any], dict[str, TensorInfo]]:
    """Metadata and tensors, by name; the tensors' starts are counted from the beginning of the file."""
    _check_magic(cursor)
    n_tensors, n_values = cursor.number("Q"), cursor.number("Q")
    cursor.count(n_values, 8 + 4 + 1)  # a value: the length of its name, its type, at least one byte
    cursor.count(n_tensors, 8 + 4 + 4 + 8)  # a tensor: the length of its name, dims, type, offset
    metadata: dict[str, Any] = {}
    for _ in range(n_values):
        name = cursor.string()
        if name in metadata:
            raise cursor.broken(f"states {name!r} twice")
        metadata[name] = cursor.value()
    infos: dict[str, TensorInfo] = {}
    for _ in range(n_tensors):
        info = _read_tensor_info(cursor)
        if info.name in infos:
            raise cursor.broken(f"holds the tensor {info.name!r} twice")
        infos[info.name] = info
    _check_whole(cursor.path, metadata)
    begin = _aligned(cursor, metadata.get("general.alignment", _DEFAULT_ALIGNMENT))
    placed = {k: TensorInfo(k, t.shape, t.kind, begin + t.start, t.n_bytes) for k, t in infos.items()}
    return metadata, placed


def _check_magic(cursor: _Cursor) -> None:
    magic = cursor.bytes(4)
    if magic != b"GGUF":
        raise LoadError(f"{cursor.path.name} begins with {magic!r} where a GGUF file has b'GGUF'")
    version = cursor.number("I")
    if version not in _VERSIONS:
        order = " (it may be big-endian)" if version & 0xFFFF == 0 else ""
        raise LoadError(
            f"{cursor.path.name} is GGUF version {version}{order}; versions 2 and 3 in little-endian order can be read"
        )


def _check_whole(path: Path, metadata: dict[str, Any]) -> None:
    parts = metadata.get("split.count", 1)
    if isinstance(parts, int) and parts > 1:
        raise LoadError(f"{path.name} is one of {parts} parts; merge them into a single GGUF file first")


def _aligned(cursor: _Cursor, alignment: Any) -> int:
    if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
        raise cursor.broken(f"states general.alignment {alignment!r}, which is no power of two")
    return -(-cursor.at // alignment) * alignment


def _read_tensor_info(cursor: _Cursor) -> TensorInfo:
    name, n_dims = cursor.string(), cursor.number("I")
    if n_dims > _MAX_DIMS:
        raise cursor.broken(f"gives the tensor {name[:80]!r} {n_dims:,} axes, where {_MAX_DIMS} is the most")
    shape = tuple(cursor.number("Q") for _ in range(n_dims))[::-1]  # GGUF writes the fastest axis first
    raw_kind, start = cursor.number("I"), cursor.number("Q")
    try:
        kind = GGMLQuantizationType(raw_kind)
    except ValueError:
        return TensorInfo(name, shape, f"type {raw_kind}", start, 0)
    block, block_bytes = GGML_QUANT_SIZES[kind]
    if block > 1 and (not shape or shape[-1] % block):
        raise cursor.broken(f"stores {name!r} as {kind.name} in rows that are no multiple of {block}")
    return TensorInfo(name, shape, kind.name, start, prod(shape) // block * block_bytes)


def _check_extent(path: Path, tensors: dict[str, TensorInfo], size: int) -> None:
    """Before anything is mapped or computed: does the file reach as far as its header says?"""
    promised = max((info.start + info.n_bytes for info in tensors.values()), default=0)
    if promised > size:
        raise LoadError(
            f"{path.name} has {size:,} bytes and its header promises {promised:,}, "
            "so it is truncated or only partly downloaded"
        )
