"""Positions that have a name: one in each example, counted over its real tokens."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from jaxtyping import Bool
from torch import Tensor

from ..errors import InterventionError, KindError, count
from ..inputs import Text
from ..interventions._choice import numbers_of, within
from ..metrics import Labels
from ..metrics._base import column_of


def read_labels(positions: object, text: Text) -> Labels:
    """Of `positions={label: [position of each example]}`, from the end of a text where negative. InterventionError
    where they do not fit the texts; nothing where positions are not given by labels."""
    if not isinstance(positions, Mapping):
        return {}
    if not positions:
        raise InterventionError("positions holds no label; {label: [position of each example]} is wanted")
    for label in positions:
        if not isinstance(label, str):
            raise KindError(f"a label is a text; {label!r} came")
    return {label: _of_each(label, given, text) for label, given in positions.items()}


def _of_each(label: str, given: object, text: Text) -> Tensor:
    lengths = (text.positions >= 0).sum(1).tolist()
    numbers = None if isinstance(given, Mapping) else numbers_of(given)
    if numbers is None:
        raise KindError(f"label {label!r} is a position for each example, an int or a list of ints; {given!r} came")
    if isinstance(given, int):
        numbers = numbers * len(lengths)
    if len(numbers) != len(lengths):
        raise InterventionError(
            f"label {label!r} has {count(len(numbers), 'position')} for {count(len(lengths), 'example')}"
        )
    try:
        return torch.tensor([within(n, length, "position")[0] for n, length in zip(numbers, lengths, strict=True)])
    except InterventionError as error:
        raise InterventionError(f"label {label!r}: {error}") from None


def columns_of_labels(labels: Labels, text: Text) -> Bool[Tensor, "label example column"]:
    """Where they stand, padding counted."""
    n_columns = text.tokens.shape[1]
    columns = column_of(torch.stack(list(labels.values()), 1), text.positions >= 0)
    return (columns.t()[..., None] == torch.arange(n_columns)).contiguous()
