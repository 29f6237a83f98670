"""Hooks during generation: on what was given, on what is made, or (a plain hook) on all of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..errors import InterventionError, KindError
from ..hooks import At, Columns, Hook, HookLike, apply, bind
from ..sites import Site, Sites
from ._choice import POSITIONS, axis_of


@dataclass(frozen=True)
class When:
    """Hooks that change some columns of the text only: the given ones, or those that are generated."""

    hooks: tuple[HookLike, ...]
    generated: bool

    def bind(self, sites: Sites) -> list[tuple[Site, Hook]]:
        if any(isinstance(hook, When) and hook.generated != self.generated for hook in self.hooks):
            raise InterventionError("a hook on the prompt only and on generated tokens only is never called")
        bound = bind(self.hooks, sites)
        return [(sites.one(name), self._only_there(hook)) for name, hooks in bound.items() for hook in hooks]

    def _only_there(self, hook: Hook) -> Hook:
        def hook_there(value: Tensor, at: At) -> Tensor | None:
            axis = axis_of(at.site, POSITIONS)
            rows = self._concerned(at.columns, value.shape[axis])
            if not rows:
                return None
            total = at.columns.total if self.generated else at.columns.prompt  # beyond which it is not called
            columns = replace(at.columns, start=at.columns.start + rows.start, total=total)
            there = At(at.site, at.positions[:, rows.start : rows.stop], columns)
            before, part, after = value.split([rows.start, len(rows), value.shape[axis] - rows.stop], axis)
            return torch.cat([before, apply([hook], part, there), after], axis)

        return hook_there

    def _concerned(self, columns: Columns, n_rows: int) -> range:
        """The rows of a pass that these hooks are shown."""
        if self.generated and not columns.generating:
            raise InterventionError("a hook is for generated tokens only and this run has none; give it to generate")
        given = min(max(columns.prompt - columns.start, 0), n_rows)
        return range(given, n_rows) if self.generated else range(given)


def on_prompt(*hooks: HookLike) -> When:
    """These hooks, on the given text only: while tokens are generated they are not shown the new ones.

    model.generate(text, hooks=[wb.on_prompt(("mlp_out", halve))])
    """
    return When(_given(hooks), generated=False)


def on_generated(*hooks: HookLike) -> When:
    """These hooks, on the generated tokens only: they are not shown the given text. InterventionError in a run that
    generates none.

    model.generate(text, hooks=[wb.on_generated(wb.zero("z", layers=3, heads=1))])
    """
    return When(_given(hooks), generated=True)


def _given(hooks: tuple[HookLike, ...]) -> tuple[HookLike, ...]:
    if any(isinstance(hook, list) for hook in hooks):
        raise KindError("hooks are given one after the other, on_prompt(first, second), not as a list")
    return hooks
