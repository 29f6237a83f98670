"""What a sweep found: a metric at each place of a grid, with named axes, and the effects that follow from it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from .errors import InputError, LoadError, MissingError
from .files import atomic_file

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

_TENSORS = ("values", "clean", "corrupted", "unchanged")
_TEXTS = ("clean_tokens", "corrupted_tokens", "label_positions")  # may be missing
_AT_A_TIME = 512  # cells, or patterns of signs, that are resampled at a time
_LEAST = 1e-6  # of base and other; float32 rounds at 6e-8


class Work(NamedTuple):
    """How much was computed, as tokens that went through a layer: by a sweep, the runs that it recorded included, and
    by one that runs the whole text once for each cell."""

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
    clean_tokens, corrupted_tokens: [example, column] the ids of the texts, -1 where a column is padding; None where
               they are not known (an ablation has no corrupted text, and files of earlier versions have neither).
    label_positions: [example, label] where each label of the axis "label" stands in each text, counted over its tokens;
               None without that axis, or in files of earlier versions.
    """

    values: Float[Tensor, " example *axes"]
    axes: tuple[str, ...]
    labels: dict[str, tuple[str, ...]]
    places: dict[str, tuple[int | str, ...]]
    clean: Float[Tensor, " example"]
    corrupted: Float[Tensor, " *example"]
    site: str
    direction: str
    unchanged: Bool[Tensor, " *axes"]
    work: Work
    clean_tokens: Int[Tensor, "example column"] | None = None
    corrupted_tokens: Int[Tensor, "example column"] | None = None
    label_positions: Int[Tensor, "example label"] | None = None

    @property
    def mean(self) -> Float[Tensor, " *axes"]:
        """The metric of each cell, over the examples that have one there: NaN is a cell at which an example has no
        token, or that was not computed."""
        return self.values.nanmean(0)

    @property
    def _base_and_other(self) -> tuple[Tensor, Tensor]:
        return (self.corrupted, self.clean) if self.direction == "denoise" else (self.clean, self.corrupted)

    @property
    def effect(self) -> Float[Tensor, " *axes"]:
        """(mean value - mean base) / (mean other - mean base): 0 nothing moved, 1 moved all the way. The base is the
        run that is edited, the other the run patched from. For an ablation: mean value - mean clean.

        NaN where base and other do not differ.
        """
        effect = self._effect_of_means(*(part.nanmean(0) for part in self._parts))
        return effect.reshape(self.values.shape[1:])

    @property
    def effect_each(self) -> Float[Tensor, " example *axes"]:
        """The effect of each example on its own."""
        over = (slice(None), *[None] * len(self.axes))
        if self.direction == "ablate":
            return self.values - self.clean[over]
        base, other = self._base_and_other
        return (self.values - base[over]) / difference(base, other)[over]

    def interval(self, level: float = 0.95, n_resamples: int = 2000, seed: int = 0) -> Float[Tensor, " 2 *axes"]:
        """Between which effects the middle `level` of resampled ones lies, lower and upper: the percentile bootstrap
        (Efron 1979), in which pairs are drawn anew together with their baselines, so that the whole ratio varies.

        NaN where a cell has a single example, which says nothing about others.
        """
        if not isinstance(level, float) or not 0 < level < 1:
            raise InputError(f"level is {level!r}; a share between 0 and 1 is wanted, such as 0.95")
        n_examples, n_resamples = len(self.values), _positive(n_resamples, "n_resamples")
        drawn = torch.randint(n_examples, (n_resamples, n_examples), generator=_generator(seed))
        times = torch.zeros(n_resamples, n_examples).scatter_add(1, drawn, torch.ones(n_resamples, n_examples))
        tails = torch.tensor([(1 - level) / 2, (1 + level) / 2])
        found = []
        for parts in zip(*(part.split(_AT_A_TIME, 1) for part in self._parts), strict=True):
            n_there = times @ (~parts[0].isnan()).float()
            effects = self._effect_of_means(*((times @ part.nan_to_num()) / n_there for part in parts))
            found.append(effects.t().contiguous().nanquantile(tails, dim=1))
        return torch.cat(found, 1).masked_fill(self._alone, torch.nan).reshape(2, *self.mean.shape)

    def p_values(self, n_flips: int = 10_000, seed: int = 0) -> Float[Tensor, " *axes"]:
        """How often chance alone moves some cell as far: examples' changes (value - base) with random signs, and the
        largest mean change of all cells against each cell's own, which allows for there being many (Westfall and Young
        1993). Every pattern of signs is tried where there are no more than n_flips; NaN where a cell has a single
        example."""
        n_examples, n_flips = len(self.values), _positive(n_flips, "n_flips")
        changes = self._parts[0] - self._parts[1]
        shares = changes.nan_to_num() / (~changes.isnan()).sum(0).clamp(min=1)  # whose sum is the mean change
        shares = shares.masked_fill(self._alone, 0.0)
        if 2**n_examples <= n_flips:
            signs = torch.tensor(list(product((1.0, -1.0), repeat=n_examples)))
        else:
            drawn = torch.randint(2, (n_flips, n_examples), generator=_generator(seed))
            signs = torch.cat([torch.ones(1, n_examples), 2.0 * drawn - 1])  # what was seen is one of the patterns
        largest = torch.cat([(some @ shares).abs().amax(1) for some in signs.split(_AT_A_TIME)]).sort().values
        seen = shares.sum(0).abs() * (1 - 1e-6)  # so that rounding does not tell a pattern from itself
        p_values = 1 - torch.searchsorted(largest, seen) / len(largest)
        return p_values.masked_fill(self._alone, torch.nan).reshape(self.mean.shape)

    @property
    def _parts(self) -> tuple[Tensor, Tensor, Tensor]:
        """Values, base and other, [example, cell], NaN in the same places; an ablation has no other."""
        base, other = self._base_and_other
        values, other = self.values.reshape(len(self.values), -1), other if other.numel() else torch.zeros_like(base)
        base, other = (run[:, None].where(~values.isnan(), torch.nan) for run in (base, other))
        return values, base, other

    @property
    def _alone(self) -> Bool[Tensor, " cell"]:
        """Cells of fewer than two examples."""
        return (~self._parts[0].isnan()).sum(0) < 2

    def _effect_of_means(self, value: Tensor, base: Tensor, other: Tensor) -> Tensor:
        return value - base if self.direction == "ablate" else (value - base) / difference(base, other)

    def save(self, path: str | Path) -> None:
        """One safetensors file, nothing pickled. Written whole or not at all."""
        described = {
            "axes": self.axes,
            "labels": self.labels,
            "places": self.places,
            "site": self.site,
            "direction": self.direction,
            "work": self.work,
        }
        known = [name for name in (*_TENSORS, *_TEXTS) if getattr(self, name) is not None]
        tensors = {name: getattr(self, name).clone().contiguous() for name in known}
        with atomic_file(path) as temporary:
            save_file(tensors, temporary, {"workbench_sweep": json.dumps(described)})

    @classmethod
    def load(cls, path: str | Path) -> SweepResult:
        """A saved result; MissingError or LoadError in a sentence."""
        if not Path(path).is_file():
            raise MissingError(f"there is no file {str(path)!r}")
        try:
            with safe_open(path, "pt") as file:
                described = json.loads((file.metadata() or {})["workbench_sweep"])
                known = [name for name in _TEXTS if name in set(file.keys())]
                tensors = {name: file.get_tensor(name) for name in (*_TENSORS, *known)}
            return cls(
                **tensors,
                axes=tuple(described["axes"]),
                labels={axis: tuple(labels) for axis, labels in described["labels"].items()},
                places={axis: tuple(places) for axis, places in described["places"].items()},
                site=described["site"],
                direction=described["direction"],
                work=Work(*described["work"]),
            )
        except (SafetensorError, KeyError, ValueError, TypeError, AttributeError) as error:
            raise LoadError(f"{str(path)!r} is not a saved sweep or is damaged: {error}") from None

    def to_dataframe(self) -> pd.DataFrame:
        """Long form: one row per example and cell, with value and effect; tokens, where positions are named by them."""
        import pandas as pd  # slow to import, and few programs ask for a table

        cells = product(range(len(self.values)), *(self.places[axis] for axis in self.axes))
        index = pd.DataFrame(list(cells), columns=["example", *self.axes])
        if "pos" in self.axes and self.labels["pos"] != tuple(map(str, self.places["pos"])):
            token_of = dict(zip(self.places["pos"], self.labels["pos"], strict=True))
            index["token"] = [token_of[position] for position in index["pos"]]
        return index.assign(value=self.values.flatten().numpy(), effect=self.effect_each.flatten().numpy())

    def top(self, n: int = 10) -> pd.DataFrame:
        """The n places with the largest effects of either sign, largest first: a row each, with the mean value and the
        effect of the means (`effect`, not a mean of `effect_each`).

            heads = list(r.top(5)[["layer", "head"]].itertuples(index=False))
            wb.ablate(model, clean, metric, selection=heads)
        """
        import pandas as pd

        table = pd.DataFrame(list(product(*(self.places[axis] for axis in self.axes))), columns=list(self.axes))
        table = table.assign(value=self.mean.flatten().numpy(), effect=self.effect.flatten().numpy())
        return table.sort_values("effect", key=abs, ascending=False, kind="stable").head(n).reset_index(drop=True)

    def __repr__(self) -> str:
        shape = " x ".join(f"{len(self.labels[axis])} {axis}" for axis in self.axes) or "one cell"
        return f"SweepResult of {self.site} ({self.direction}): {shape}, {len(self.values)} examples"

    def figure(self) -> go.Figure:
        """The effects as a heat map."""
        from . import figures

        return figures.patching(self)


def difference(base: Tensor, other: Tensor) -> Tensor:
    """other - base; NaN where it is no more than rounding."""
    moved = other - base
    return torch.where(moved.abs() <= _LEAST * (base.abs() + other.abs()), torch.nan, moved)


def _positive(given: object, word: str) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or given < 1:
        raise InputError(f"{word} is {given!r}; a whole number from 1 on is wanted")
    return given


def _generator(seed: object) -> torch.Generator:
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise InputError(f"seed is {seed!r}; a whole number from 0 on is wanted")
    return torch.Generator().manual_seed(seed)
