"""Drawing: the same seed gives the same pairs, none of them twice, and no other random state is touched."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from numbers import Integral
from operator import index
from random import Random
from typing import TypeVar

from ..errors import InputError, KindError, count

Choice = TypeVar("Choice", bound=Hashable)


def check_whole(name: str, value: object, least: int) -> None:
    """KindError or InputError for what is not a whole number, or less."""
    wanted = f"{name} is {value!r}; a whole number, at least {least}, is wanted"
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise KindError(wanted)
    if index(value) < least:
        raise InputError(wanted)


def distinct(draw: Callable[[Random], Choice], n: int, seed: int, possible: int) -> list[Choice]:
    """n different draws, of which the first are those that fewer would be. InputError where n or seed is no number of
    draws, or n is more than there are, which is `possible`."""
    check_whole("n", n, 1)
    check_whole("seed", seed, 0)
    if n > possible:
        raise InputError(f"n is {n}; {count(possible, 'different pair')} can be made for this tokenizer")
    random, found = Random(index(seed)), dict[Choice, None]()
    while len(found) < n:
        found[draw(random)] = None
    return list(found)
