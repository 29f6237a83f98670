"""What a sweep puts in place of the values at a site: another run's, nothing, or what is usual in a reference set."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from ..errors import InputError
from ..inputs import Text


class Source(NamedTuple):
    """Where changes come from.

    text:     the run whose values they are made of; None for the run that is changed.
    becomes:  from a site's values there to what the site becomes.
    measured: whether the metric of that run is wanted too.
    """

    text: Text | None
    becomes: Callable[[Tensor], Tensor]
    measured: bool = False

    @property
    def n_tokens(self) -> int:
        return 0 if self.text is None else self.text.tokens.numel()


def as_it_is(values: Tensor) -> Tensor:
    return values


def ablation(kind: str, reference: Text | None, text: Text, seed: int) -> Source:
    """What an ablation puts in place of values; InputError where kind and reference do not fit."""
    if kind not in ("zero", "mean", "resample"):
        raise InputError(f"kind is {kind!r}; 'zero', 'mean' or 'resample' is wanted")
    if kind == "zero":
        if reference is not None:
            raise InputError("reference= is for kind 'mean' and 'resample'; zeros need none")
        return Source(None, torch.zeros_like)
    n_examples, n_columns = text.tokens.shape
    if reference is None:
        raise InputError(f"kind {kind!r} needs reference=, texts or tokens whose values stand in for those ablated")
    if reference.tokens.shape[1] != n_columns:
        raise InputError(
            f"the reference has {reference.tokens.shape[1]} tokens a text and what is ablated {n_columns}; "
            "a reference of the same length is wanted"
        )
    for padded in (reference, text):
        if padded.padded:
            raise InputError(f"kind {kind!r} is for texts of one length; the texts have unequal numbers of tokens")
    if kind == "mean":
        return Source(reference, lambda values: values.mean(0, keepdim=True).expand(n_examples, *values.shape[1:]))
    drawn = torch.randint(len(reference.tokens), (n_examples,), generator=torch.Generator().manual_seed(seed))
    return Source(reference, lambda values: values[drawn.to(values.device)])
