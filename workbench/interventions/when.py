"""Hooks during generation: on what was given, on what is made, or (a plain hook) on all of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import InterventionError
from ..hooks import At, Columns, Hook, HookLike, apply, bind
from ..sites import Site, Sites
from ._base import axis_of


@dataclass(frozen=True)
class When:
    """Hooks of which only some columns of the text keep what they return."""

    hooks: tuple[HookLike, ...]
    concerned: Callable[[Columns, int], Sequence[bool]]

    def bind(self, sites: Sites) -> list[tuple[Site, Hook]]:
        bound = bind(self.hooks, sites)
        return [(sites.one(name), self._only_there(hook)) for name, hooks in bound.items() for hook in hooks]

    def _only_there(self, hook: Hook) -> Hook:
        def hook_there(value: Tensor, at: At) -> Tensor | None:
            axis = axis_of(at.site, ("pos", "query"))
            there = self.concerned(at.columns, value.shape[axis])
            if not any(there):
                return None
            changed = apply([hook], value, at)
            keep = torch.tensor(there, device=value.device).view(-1, *[1] * (value.ndim - axis - 1))
            return torch.where(keep, changed, value)

        return hook_there


def on_prompt(*hooks: HookLike) -> When:
    """These hooks, on the given text only: where tokens are generated, what they say of the new ones does not count.

    model.generate(text, hooks=[wb.on_prompt(("mlp_out", halve))])
    """
    return When(hooks, _prompt)


def on_generated(*hooks: HookLike) -> When:
    """These hooks, on the tokens that are generated only. InterventionError in a run that generates none.

    model.generate(text, hooks=[wb.on_generated(wb.zero("z", layers=3, heads=1))])
    """
    return When(hooks, _generated)


def _prompt(columns: Columns, n_rows: int) -> list[bool]:
    return [columns.start + row < columns.prompt for row in range(n_rows)]


def _generated(columns: Columns, n_rows: int) -> list[bool]:
    if not columns.generating:
        raise InterventionError("a hook is for generated tokens only and this run has none; give it to generate")
    return [not given for given in _prompt(columns, n_rows)]
