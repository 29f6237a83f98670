"""Values that are usual in a reference set of texts: their mean, or those of a text drawn from it.

Positions are matched as positions of real tokens, so that texts may be padded and of unequal lengths.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..cache import ActivationCache
from ..errors import InterventionError, KindError, count
from ..hooks import At
from ..keywords import checked_keywords
from ..sites import Selector, Site
from ._base import Replacing
from ._choice import POSITIONS, Choice, axis_of, columns_of


@dataclass(frozen=True)
class OfReference(Replacing):
    reference: ActivationCache = field(kw_only=True, repr=False)

    _otherwise: ClassVar[str] = ""

    @abstractmethod
    def n_positions(self, n_examples: int) -> Int[Tensor, " example"] | None:
        """How many positions there are values for, in each example of a run; None where any will do."""

    @abstractmethod
    def by_position(
        self, recorded: Float[Tensor, "text pos *rest"], positions: Int[Tensor, "example pos"]
    ) -> Float[Tensor, "example pos *rest"]:
        """What stands at these positions (-1: anything), of what was recorded in the reference set."""

    @abstractmethod
    def of_patterns(
        self, recorded: Float[Tensor, "text head query key"], n_examples: int
    ) -> Float[Tensor, "example head query key"]:
        """Of scores or patterns of texts that are all of one length."""

    def check(self, site: Site) -> None:
        super().check(site)
        if site.name not in self.reference:
            raise InterventionError(
                f"the reference set has not recorded {site.name}: it has {_listed(self.reference)}; record it with "
                f"names_filter={site.short.rpartition('.')[2]!r}"
            )
        if not self.reference.has_batch_dim:
            raise InterventionError("the reference set is a cache without a batch axis; one with it is wanted")

    def check_run(self, value: Tensor, at: At) -> None:
        if "key" in at.axes:
            self._check_patterns(value, at)
        needed, there = self._needed(value, at), self.n_positions(len(value))
        if there is not None and bool((short := needed >= there.to(needed.device)).any()):
            example = int(short.int().argmax())
            raise InterventionError(
                f"position {int(needed[example])} of example {example} is to be replaced at {at.name}, and the "
                f"reference has values of {count(int(there[example]), 'position')}; give a longer reference, or "
                f"choose positions={self._otherwise}"
            )

    def _needed(self, value: Tensor, at: At) -> Int[Tensor, " example"]:
        """The last position of each example that is changed, perhaps in a later step."""
        n_rows = value.shape[axis_of(at.site, POSITIONS)]
        last = at.columns.start + n_rows - 1
        chosen = [last] if self.positions is None else columns_of(self.positions, at.columns)
        end = at.columns.total - 1 if self.positions is None and at.columns.generating else max(chosen)
        within = at.positions[:, : max(0, end - at.columns.start) + 1].amax(1)
        return within + max(0, end - last)

    def _check_patterns(self, value: Tensor, at: At) -> None:
        positions, recorded = self.reference.positions, self.reference[at.name]
        padded = bool((positions < 0).any()) or bool((at.positions < 0).any())
        if padded or recorded.shape[1:] != value.shape[1:]:
            raise InterventionError(
                f"the reference's {at.name} is {list(recorded.shape)} and this run's {list(value.shape)}; what is over "
                "queries and keys is replaced among texts of one length, without padding"
            )

    def values(self, at: At, shape: Sequence[int]) -> Tensor:
        recorded = self.reference[at.name]
        if "key" in at.axes:
            return self.of_patterns(recorded, shape[0])
        axis = axis_of(at.site, POSITIONS)
        usual = self.by_position(recorded.movedim(axis, 1), at.positions.to(recorded.device))
        return usual.movedim(1, axis)


@dataclass(frozen=True)
class Mean(OfReference):
    _otherwise = " or per_position=False"
    per_position: bool = field(kw_only=True)
    skip_first: bool = field(kw_only=True)

    def n_positions(self, n_examples: int) -> Int[Tensor, " example"] | None:
        return (self.reference.positions.amax() + 1).expand(n_examples) if self.per_position else None

    def by_position(
        self, recorded: Float[Tensor, "text pos *rest"], positions: Int[Tensor, "example pos"]
    ) -> Float[Tensor, "example pos *rest"]:
        if self.per_position:
            there = self.reference.positions >= 0
            means = _means(recorded[there].float(), self.reference.positions[there])
            return means[positions.clamp(0, len(means) - 1)]  # the others are not chosen: `check_run`
        there = self.reference.positions >= int(self.skip_first)
        return recorded[there].float().mean(0).expand(*positions.shape, *recorded.shape[2:])

    def of_patterns(
        self, recorded: Float[Tensor, "text head query key"], n_examples: int
    ) -> Float[Tensor, "example head query key"]:
        return recorded.float().mean(0, keepdim=True).expand(n_examples, -1, -1, -1)

    def _check_patterns(self, value: Tensor, at: At) -> None:
        super()._check_patterns(value, at)
        if not self.per_position:
            raise InterventionError(f"{at.name} is over queries and keys, whose mean over positions is no pattern")


@dataclass(frozen=True)
class Resample(OfReference):
    seed: int = field(kw_only=True)

    def drawn(self, n_examples: int) -> Int[Tensor, " example"]:
        """Which text of the reference set stands in for each example."""
        generator = torch.Generator().manual_seed(self.seed)
        drawn = torch.randint(len(self.reference.positions), (n_examples,), generator=generator)
        return drawn.to(self.reference.positions.device)

    def n_positions(self, n_examples: int) -> Int[Tensor, " example"] | None:
        return (self.reference.positions.amax(1) + 1)[self.drawn(n_examples)]

    def by_position(
        self, recorded: Float[Tensor, "text pos *rest"], positions: Int[Tensor, "example pos"]
    ) -> Float[Tensor, "example pos *rest"]:
        text = self.drawn(len(positions))[:, None]
        columns = _column_of(self.reference.positions)
        return recorded[text, columns[text, positions.clamp(0, columns.shape[1] - 1)]]

    def of_patterns(
        self, recorded: Float[Tensor, "text head query key"], n_examples: int
    ) -> Float[Tensor, "example head query key"]:
        return recorded[self.drawn(n_examples)]


def _listed(cache: ActivationCache) -> str:
    kinds = sorted({site.short for site in cache.sites})
    return ", ".join(kinds[:4]) + (", ..." if len(kinds) > 4 else "")


def _means(values: Float[Tensor, "token *rest"], position: Int[Tensor, " token"]) -> Float[Tensor, "pos *rest"]:
    """Of the values at each position."""
    n_pos = int(position.max()) + 1
    sums = values.new_zeros(n_pos, *values.shape[1:]).index_add(0, position, values)
    return sums / position.bincount(minlength=n_pos).view(-1, *[1] * (values.ndim - 1))


def _column_of(positions: Int[Tensor, "text column"]) -> Int[Tensor, "text pos"]:
    """In which column each position of a text stands; 0 behind the last."""
    text, column = (positions >= 0).nonzero(as_tuple=True)
    columns = torch.zeros_like(positions)
    columns[text, positions[text, column]] = column
    return columns


@checked_keywords
def mean(
    reference: ActivationCache,
    site: Selector,
    layers: Choice = None,
    positions: Choice = None,
    heads: Choice = None,
    neurons: Choice = None,
    per_position: bool = True,
    skip_first: bool = False,
) -> Mean:
    """Put the mean over a reference set in place of a site's values (Wang et al. 2022, section 2.2).

        _, usual = model.run_with_cache(texts, "z")
        model(text, hooks=[wb.mean(usual, "z", layers=9, heads=6)])

    reference:    a cache of the reference set; padding in it is never counted.
    per_position: the mean at each position, over the texts that are that long; otherwise one over all positions.
    skip_first:   leave the first token, on which attention rests when it has nothing to do, out of the one over all.
    """
    if skip_first and per_position:
        raise InterventionError("skip_first is for the mean over positions; give per_position=False with it")
    reference = _checked(reference, "mean")
    if skip_first and not bool((reference.positions > 0).any()):
        raise InterventionError("the reference set has first tokens only, and skip_first leaves these out")
    return Mean(
        site, layers, positions, heads, neurons, reference=reference, per_position=per_position, skip_first=skip_first
    )


@checked_keywords
def resample(
    reference: ActivationCache,
    site: Selector,
    layers: Choice = None,
    positions: Choice = None,
    heads: Choice = None,
    neurons: Choice = None,
    seed: int = 0,
) -> Resample:
    """Put the values of another text in place of a site's: for each example one text of a reference set, drawn by
    `seed`, the same at every site (Chan et al. 2022, "causal scrubbing")."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise KindError(f"seed is {seed!r}; a whole number from 0 on is wanted")
    reference = _checked(reference, "resample")
    return Resample(site, layers, positions, heads, neurons, reference=reference, seed=seed)


def _checked(reference: object, name: str) -> ActivationCache:
    if not isinstance(reference, ActivationCache):
        raise KindError(f"wb.{name} takes a cache of the reference set first, not {type(reference).__name__}")
    return reference
