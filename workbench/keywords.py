"""Keywords of the public functions: one that does not exist is a sentence with the nearest that does."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from typing import ParamSpec, TypeVar

from .errors import KindError, nearest

P = ParamSpec("P")
R = TypeVar("R")


def checked_keywords(function: Callable[P, R]) -> Callable[P, R]:
    """The same function, raising KindError (a TypeError) for an unknown keyword."""
    by_name = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    known = [name for name, given in signature(function).parameters.items() if given.kind in by_name and name != "self"]
    called = function.__qualname__.removesuffix(".__init__").rpartition(".")[2]  # a class is called by its own name

    @wraps(function)
    def checked(*arguments: P.args, **keywords: P.kwargs) -> R:
        if unknown := [name for name in keywords if name not in known]:
            raise KindError(f"{called} has no argument {unknown[0]!r}; {nearest(unknown[0], known)}")
        return function(*arguments, **keywords)

    return checked
