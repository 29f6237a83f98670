"""An attention dashboard's state as JSON, for a file that has no kernel to ask."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from ..errors import InputError, TooLargeError
from .opened import Opened
from .subjects import indices

LIMIT = 8_000_000  # bytes of base64 in one file


def attention_state(
    opened: Opened, traits: dict[str, Any], layers: Sequence[int] | None, heads: Sequence[int] | None
) -> dict[str, Any]:
    """The widget's traits and, by "layer.head", what the kernel would send for a head.

    Raises InputError for a layer or head that is not shown, TooLargeError for more named heads than `LIMIT` bytes hold.
    """
    taken = _taken(opened, traits, layers, heads)
    place = traits["layer"], traits["head"]
    if place not in taken:
        place = taken[0]
    weighed = [quantity for quantity in opened.quantities() if quantity != "attention" and opened.can(quantity)]
    sent = {}
    for layer, head in taken:
        columns = [opened.columns(layer, head, quantity) for quantity in weighed]
        sent[f"{layer}.{head}"] = [_plain(opened.pattern(layer, head)), *map(_plain, columns)]
    named = layers is not None or heads is not None
    left_out = 0 if named else len(opened.heads) - len(taken)
    more = f"Of {len(opened.heads)} heads {len(taken)} are in this file in full; layers= and heads= choose others."
    selection = [list(pair) for pair in traits["selection"] if pair in taken or not named]
    quantity = traits["quantity"] if traits["quantity"] in weighed else "attention"
    chosen = {**traits, "layer": place[0], "head": place[1], "selection": selection, "quantity": quantity}
    first = _plain(opened.first_message(taken if named else None))
    note = " ".join(filter(None, [opened.note, more if left_out else ""]))
    return {"traits": {**first, **chosen, "_note": note, "_quantities": ["attention", *weighed]}, "sent": sent}


def _taken(
    opened: Opened, traits: dict[str, Any], layers: Sequence[int] | None, heads: Sequence[int] | None
) -> list[tuple[int, int]]:
    """The (layer, head) whose patterns go along."""
    n, place = len(opened.positions), (traits["layer"], traits["head"])
    one = len(opened.pattern(*place)["_pattern"]) * 4 // 3  # bytes of the one shown stand for others
    most = max(1, LIMIT // one)
    layers_taken = indices("layer", layers, opened.first.n_layers)
    heads_taken = indices("head", heads, max(opened.first.n_heads))
    named = [pair for pair in opened.heads if pair[0] in layers_taken and pair[1] in heads_taken]
    if layers is not None or heads is not None:
        if not named:
            raise InputError("none of these heads is shown; name layers= and heads= that are")
        if len(named) > most:
            raise TooLargeError(
                f"{len(named)} heads of {n} tokens make a file of {len(named) * one / 1e6:.0f} MB: pass layers= and "
                f"heads= for at most {most} of them"
            )
        return named
    wanted = [place, *traits["selection"], *_outstanding(opened), *named]
    return sorted(list(dict.fromkeys(wanted))[:most])


def _outstanding(opened: Opened) -> list[tuple[int, int]]:
    """Heads in the order in which one would want to see them: the best of each score, the next best ..."""
    ranked = [
        sorted(zip(score["values"], opened.heads, strict=True), key=lambda pair: -abs(pair[0] or 0))
        for score in opened.scores()
        if score["unit"] != "nats"
    ]
    return [pair[1] for place in zip(*ranked, strict=True) for pair in place]


def _plain(message: dict[str, Any]) -> dict[str, Any]:
    """Bytes as {"base64": text}."""
    return {
        name: {"base64": base64.b64encode(value).decode("ascii")} if isinstance(value, bytes) else value
        for name, value in message.items()
    }
