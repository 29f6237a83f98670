"""Several models side by side."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..arithmetic import costs
from ..sizes import count_text, flops_text, size_text
from ..spec import ComponentSpec
from .describe import Described, number
from .tables import print_table


def compared(thing: Described, batch: int, tokens: int) -> dict[str, Any]:
    """A model's row, as plain data."""
    spec, found = thing.spec, costs(thing.spec, thing.dtype, tokens, batch)
    return {
        "name": thing.name,
        "n_params": found.n_params,
        "n_active_params": found.n_active_params,
        "n_layers": spec.n_layers,
        "d_model": spec.d_model,
        "n_heads": number(spec, "n_heads"),
        "n_kv_heads": number(spec, "n_kv_heads"),
        "attention": _labels(layer.attn for layer in spec.layers),
        "feed_forward": _labels(layer.mlp for layer in spec.layers),
        "n_ctx": spec.n_ctx,
        "dtype": str(thing.dtype).removeprefix("torch."),
        "kv_bytes_per_token": found.kv_bytes_per_token,
        "kv_cache_bytes": found.memory.kv_cache,
        "flops_per_token": found.flops_per_token.forward,
        "training_flops_per_token": found.flops_per_token.training,
        "compute_optimal_tokens": found.compute_optimal_tokens,
        "bytes_to_load": found.memory.load,
        "bytes_to_train": found.memory.train,
    }


def _labels(parts: Iterable[ComponentSpec | None]) -> list[str]:
    """Each kind once, in the order of the layers."""
    return list(dict.fromkeys(part.label for part in parts if part is not None))


def print_compared(rows: list[dict[str, Any]], batch: int, tokens: int) -> None:
    """As tables. A folder or file goes by its last name there, so that columns find room."""

    def shown(value: int | None) -> int | str:
        return "no single one" if value is None else value

    print_table(
        "architectures",
        ("model", "params", "active", "layers", "d_model", "heads", "KV heads", "attention", "feed-forward", "context"),
        [
            (
                Path(row["name"]).name,
                count_text(row["n_params"]),
                count_text(row["n_active_params"]),
                row["n_layers"],
                row["d_model"],
                shown(row["n_heads"]),
                shown(row["n_kv_heads"]),
                " and ".join(row["attention"]),
                " and ".join(row["feed_forward"]) or "none",
                row["n_ctx"],
            )
            for row in rows
        ],
    )
    print_table(
        f"what they take, caches and FLOPs for {batch} x {tokens} tokens",
        (
            "model",
            "dtype",
            "to load",
            "to train",
            "KV a token",
            "KV cache",
            "FLOPs a token",
            "training",
            "optimal tokens",
        ),
        [
            (
                Path(row["name"]).name,
                row["dtype"],
                size_text(row["bytes_to_load"]),
                size_text(row["bytes_to_train"]),
                size_text(row["kv_bytes_per_token"]),
                size_text(row["kv_cache_bytes"]),
                flops_text(row["flops_per_token"]),
                flops_text(row["training_flops_per_token"]),
                count_text(row["compute_optimal_tokens"]),
            )
            for row in rows
        ],
    )
