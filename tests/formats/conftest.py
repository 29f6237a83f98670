"""The real model, and small GGUF files written with the gguf package's own writer."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from gguf import GGUFWriter

from workbench.pretrained import fetch

WriteGGUF = Callable[..., Path]


@pytest.fixture(scope="session")
def smollm_file() -> Path:
    return fetch("smollm2-135m", progress=False)


@pytest.fixture
def write_gguf(tmp_path: Path) -> WriteGGUF:
    """write_gguf(metadata, tensors, architecture): tensors are (name, array, raw type or None)."""

    def write(
        metadata: dict[str, Any] | None = None, tensors: Iterable[tuple] = (), architecture: str = "llama"
    ) -> Path:
        path = tmp_path / "model.gguf"
        writer = GGUFWriter(path, architecture)
        for key, value in (metadata or {}).items():
            _add(writer, key, value)
        for tensor_name, array, raw_type in tensors:
            writer.add_tensor(tensor_name, array, raw_dtype=raw_type)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path

    return write


def _add(writer: GGUFWriter, key: str, value: Any) -> None:
    if key == "general.alignment":
        writer.add_custom_alignment(value)
    elif isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    else:
        writer.add_array(key, value)
