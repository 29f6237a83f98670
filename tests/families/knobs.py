"""Every value of a config, changed alone: other values by the type of what stands there."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

from workbench.families import family
from workbench.families._config import Config

Path = tuple[str | int, ...]

# Lengths that a text may have, and what else a family reads without letting it touch a forward pass.
NOT_FELT = {"max_position_embeddings", "n_positions", "n_ctx", "model_type", "original_max_position_embeddings"}
WORDS = ("relu", "gelu", "silu")


def knobs(config: Any) -> Iterator[tuple[Path, Any]]:
    """Where a value stands, and another one for it."""
    for path, value in leaves(json.loads(config.to_json_string(use_diff=False)), ()):
        if path[0] in ("model_type", "architectures", "dtype", "transformers_version"):
            continue
        if str(path[0]).startswith("_") and path[0] not in read_by_family(config):  # transformers' own bookkeeping
            continue
        for other in others(path, value):
            yield path, other


def leaves(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, dict) and path and value:
        for key, item in value.items():
            yield from leaves(item, (*path, key))
    elif isinstance(value, dict) and not path:
        for key, item in value.items():
            yield from leaves(item, (key,))
    elif isinstance(value, list) and value:
        yield from leaves(value[0], (*path, 0))
    else:
        yield path, value


def others(path: Path, value: Any) -> list[Any]:
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [2 * value, value + 1, max(1, value - 1)] if value else [1]
    if isinstance(value, float):
        return [1.7 * value + 0.1]
    if value in ("full_attention", "sliding_attention"):
        return ["sliding_attention" if value == "full_attention" else "full_attention"]
    if isinstance(value, str):
        return [word for word in WORDS if word != value] if "act" in str(path[-1]) else ["linear", value + "_x"]
    if value is None:
        return [3, 0.5, True]
    return [[0], [1]] if value == [] else []


def changed(values: dict[str, Any], path: Path, value: Any) -> dict[str, Any]:
    values = copy.deepcopy(values)
    inside: Any = values
    for key in path[:-1]:
        inside = inside[key]
    inside[path[-1]] = value
    return values


def read_by_family(config: Any) -> set[str]:
    """The keys that the family reads of this config, apart from lengths."""
    values = json.loads(config.to_json_string(use_diff=False))
    reader = Config(values, "the config")
    family(config.model_type).spec(reader)
    return {key for key in reader.seen if values.get(key) is not None} - NOT_FELT
