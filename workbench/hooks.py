"""Hooks: functions handed to one run, called where a site fires.

    def halve(value, at):                   # at.name, at.layer, at.axes, at.positions
        return value / 2                    # or None: unchanged

    model(tokens, hooks=[(("mlp_out", 3), halve)])

A hook gets a copy of its own, and only what it returns counts. Editing the copy in place and returning
nothing is an error rather than a change that silently did not happen. No hook outlives its run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import torch
from torch import Tensor

from .errors import HookError, KindError
from .sites import Selector, Site, Sites


@dataclass(frozen=True)
class Columns:
    """Which columns of a text a pass runs through. A column is a place in the tokens [batch, pos], padding counted.

    start:  the column of the pass's first position; above 0 in the steps of cached generation only.
    prompt: how many columns the given text has.
    total:  how many will be run through the model at most: more than the prompt's while tokens are generated.
    """

    start: int
    prompt: int
    total: int
    generating: bool = False


@dataclass(frozen=True)
class At:
    """Where a hook is called.

    positions: [batch, pos] the absolute position of each row of the value, counted over real tokens, also
               during cached generation; -1 where an attention mask says there is no token.
    columns:   which part of the text the value is of.
    """

    site: Site
    positions: Tensor
    columns: Columns

    @property
    def name(self) -> str:
        return self.site.name

    @property
    def layer(self) -> int | None:
        return self.site.layer

    @property
    def axes(self) -> tuple[str, ...]:
        return self.site.axes


Hook: TypeAlias = Callable[[Tensor, At], Tensor | None]


@runtime_checkable
class Bindable(Protocol):
    """What a run accepts beside (site, function) pairs: a value that knows which sites it changes."""

    def bind(self, sites: Sites) -> Sequence[tuple[Site, Hook]]: ...


HookLike: TypeAlias = tuple[Selector, Hook] | Bindable
BoundHooks: TypeAlias = dict[str, tuple[Hook, ...]]


def bind(hooks: Iterable[HookLike], sites: Sites) -> BoundHooks:
    """Site name -> hooks in the order given. Every selector is checked here, before anything runs."""
    bound: dict[str, list[Hook]] = {}
    for item in as_sequence(hooks):
        for site, hook in _pairs(item, sites):
            bound.setdefault(site.name, []).append(hook)
    return {name: tuple(given) for name, given in bound.items()}


def merge(first: BoundHooks, then: BoundHooks) -> BoundHooks:
    """The hooks of both, those of `first` called first."""
    return first | {name: (*first.get(name, ()), *hooks) for name, hooks in then.items()}


def as_sequence(hooks: Iterable[HookLike]) -> list[HookLike]:
    if isinstance(hooks, (str, dict)) or not isinstance(hooks, Iterable):
        raise KindError(f"hooks are a sequence of (site, function) pairs or interventions, not {hooks!r}")
    try:
        return list(hooks)
    except TypeError:  # a tensor without axes says that it can be iterated
        raise KindError(f"hooks are a sequence of (site, function) pairs or interventions, not {hooks!r}") from None


def _pairs(item: HookLike, sites: Sites) -> Sequence[tuple[Site, Hook]]:
    if isinstance(item, Bindable):
        return item.bind(sites)
    if isinstance(item, (tuple, list)) and len(item) == 2 and callable(item[1]):
        return [(site, item[1]) for site in sites.select(item[0])]
    raise KindError(f"a hook is a pair (site, function) or an intervention, not {item!r}")


def apply(hooks: Sequence[Hook], value: Tensor, at: At) -> Tensor:
    """Run hooks in order on a value; what comes back shares no memory with anything a hook has seen."""
    before = value
    for hook in hooks:
        value = _apply_one(hook, value, at)
    return value if value is before else value.clone()


def _apply_one(hook: Hook, value: Tensor, at: At) -> Tensor:
    own = value.clone()
    try:
        returned = hook(own, at)
    except Exception as error:
        note = f"raised in a hook at {at.name}"
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)
        raise
    if returned is not None:
        return _checked(returned, value, at)
    if not _same(own, value):
        raise HookError(f"a hook at {at.name} edited its value in place and returned nothing; return the edited value")
    return value


def _same(a: Tensor, b: Tensor) -> bool:
    """Equality that a NaN does not break."""
    if a.shape != b.shape:
        return False
    with torch.no_grad():
        return torch.equal(a, b) or bool(((a == b) | (a.isnan() & b.isnan())).all())


def _checked(returned: Any, value: Tensor, at: At) -> Tensor:
    if not isinstance(returned, Tensor):
        raise HookError(f"a hook at {at.name} returned {type(returned).__name__}; a tensor or None is wanted")
    for word, came, wanted in (
        ("shape", list(returned.shape), list(value.shape)),
        ("dtype", returned.dtype, value.dtype),
        ("device", returned.device, value.device),
    ):
        if came != wanted:
            raise HookError(
                f"a hook at {at.name} [{' '.join(at.axes)}] returned {word} {came}; {word} {wanted} is wanted"
            )
    return returned
