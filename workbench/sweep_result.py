"""What a sweep found: a metric at each place of a grid, with named axes, and the effects that follow from it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

_LEAST = 1e-6  # of base and other; float32 rounds at 6e-8


class Work(NamedTuple):
    """How much was computed, as tokens that went through a layer: by a sweep, the runs that it recorded included, and
    by one that runs the whole text for each cell."""

    computed: int
    naive: int


@dataclass(frozen=True, repr=False)
class SweepResult:
    """What an intervention did to a metric, at each place of a grid.

    values:    [example, *axes] the metric of the edited run.
    axes:      the grid's axes, e.g. ("layer", "pos").
    labels:    for each axis, what its places are called: numbers, or tokens for positions.
    places:    for each axis, the numbers of its places.
    clean, corrupted: [example] the metric of the untouched runs; for an ablation corrupted is empty.
    site, direction:  what was changed; "denoise", "noise" or "ablate".
    unchanged: [*axes] where the new values equalled the old ones, so that nothing could happen.
    work:      what was computed, beside what a whole run for each cell would be.
    """

    values: Float[Tensor, " example *axes"]
    axes: tuple[str, ...]
    labels: dict[str, tuple[str, ...]]
    places: dict[str, tuple[int, ...]]
    clean: Float[Tensor, " example"]
    corrupted: Float[Tensor, " *example"]
    site: str
    direction: str
    unchanged: Bool[Tensor, " *axes"]
    work: Work

    @property
    def mean(self) -> Float[Tensor, " *axes"]:
        """The metric of each cell, over examples."""
        return self.values.mean(0)

    @property
    def _base_and_other(self) -> tuple[Tensor, Tensor]:
        return (self.corrupted, self.clean) if self.direction == "denoise" else (self.clean, self.corrupted)

    @property
    def effect(self) -> Float[Tensor, " *axes"]:
        """(mean value - mean base) / (mean other - mean base): 0 nothing moved, 1 moved all the way. The base is the
        run that is edited, the other the run patched from. For an ablation: mean value - mean clean.

        NaN where base and other do not differ.
        """
        if self.direction == "ablate":
            return self.mean - self.clean.mean()
        base, other = self._base_and_other
        return (self.mean - base.mean()) / difference(base.mean(), other.mean())

    @property
    def effect_each(self) -> Float[Tensor, " example *axes"]:
        """The effect of each example on its own."""
        over = (slice(None), *[None] * len(self.axes))
        if self.direction == "ablate":
            return self.values - self.clean[over]
        base, other = self._base_and_other
        return (self.values - base[over]) / difference(base, other)[over]

    def to_dataframe(self) -> pd.DataFrame:
        """Long form: one row per example and cell, with value and effect; tokens, where positions are named by them."""
        import pandas as pd  # slow to import, and few programs ask for a table

        cells = product(range(len(self.values)), *(self.places[axis] for axis in self.axes))
        index = pd.DataFrame(list(cells), columns=["example", *self.axes])
        if "pos" in self.axes and self.labels["pos"] != tuple(map(str, self.places["pos"])):
            token_of = dict(zip(self.places["pos"], self.labels["pos"], strict=True))
            index["token"] = [token_of[position] for position in index["pos"]]
        return index.assign(value=self.values.flatten().numpy(), effect=self.effect_each.flatten().numpy())

    def __repr__(self) -> str:
        shape = " x ".join(f"{len(self.labels[axis])} {axis}" for axis in self.axes)
        return f"SweepResult of {self.site} ({self.direction}): {shape}, {len(self.values)} examples"

    def figure(self) -> go.Figure:
        """The effects as a heat map."""
        from . import figures

        return figures.patching(self)


def difference(base: Tensor, other: Tensor) -> Tensor:
    """other - base; NaN where it is no more than rounding."""
    moved = other - base
    return torch.where(moved.abs() <= _LEAST * (base.abs() + other.abs()), torch.nan, moved)
