"""A dashboard's whole state as JSON, for a file that has no kernel to ask."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from ..errors import InputError, TooLargeError
from ..figures.arrays import Array
from ..figures.tokens import visible
from .coding import encode, size
from .patterns import Patterns

LIMIT = 8_000_000  # bytes of base64 in one file


def attention_state(
    shown: Patterns, view: dict[str, int], layers: Sequence[int] | None, heads: Sequence[int] | None
) -> dict[str, Any]:
    """The widget's traits and, by "layer.head", the bytes in base64 and how to read them.

    Raises InputError for a layer or head that does not exist, TooLargeError beyond `LIMIT`.
    """
    chosen_layers = _chosen("layer", layers, shown.n_layers)
    chosen_heads = _chosen("head", heads, shown.n_heads)
    _check_size(len(shown.tokens), len(chosen_layers), len(chosen_heads))
    traits = {
        **view,
        "layer": view["layer"] if view["layer"] in chosen_layers else chosen_layers[0],
        "head": view["head"] if view["head"] in chosen_heads else chosen_heads[0],
        "_tokens": [visible(token) for token in shown.tokens],
        "_layers": chosen_layers,
        "_heads": chosen_heads,
    }
    packed = {}
    for layer in chosen_layers:
        weights = shown.layer(layer)  # once for all heads: a layer may be computed when it is asked for
        packed |= {f"{layer}.{head}": _packed(weights[head]) for head in chosen_heads}
    return {"traits": traits, "patterns": packed}


def _packed(pattern: Array) -> dict[str, Any]:
    coding, data = encode(pattern)
    return {**coding.to_json(), "data": base64.b64encode(data).decode("ascii")}


def _chosen(what: str, wanted: Sequence[int] | None, n: int) -> list[int]:
    """The indices to take along, in order and each once."""
    if wanted is None:
        return list(range(n))
    for index in wanted:
        Patterns.check(what, index, n)
    if not len(wanted):
        raise InputError(f"{what}s is empty: name at least one {what}")
    return sorted(set(wanted))


def _check_size(n_tokens: int, n_layers: int, n_heads: int) -> None:
    """Raises TooLargeError before anything is computed."""
    one = size(n_tokens) * 4 // 3
    n = n_layers * n_heads
    if n > 1 and n * one > LIMIT:
        raise TooLargeError(
            f"{n} heads of {n_tokens} tokens make a file of {n * one / 1e6:.0f} MB: pass layers= and heads= "
            f"for at most {max(1, LIMIT // one)} of them"
        )
