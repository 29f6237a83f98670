"""Ablation: take away what a place says, and measure what is lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import InputError, InterventionError, count
from ..hooked import HookedTransformer
from ..hooks import HookLike
from ..inputs import Text, TextLike
from ..interventions import Intervention, mean, project_out, resample, zero
from ..interventions._choice import Choice, within
from ..keywords import checked_keywords
from ..metrics import MetricLike, resolve
from ..recompute.changes import UNITS, n_units
from ..sites import Site
from ..sweep_result import SweepResult, difference
from .grid import Selection, Where, grid_of, grid_of_selections, pairs_of, sites_of
from .labels import read_labels
from .texts import checked_model, read_one, result_of
from .ways import Way, swept, way_through

_KINDS = ("zero", "mean", "resample", "project")


@checked_keywords
def ablate(
    model: HookedTransformer,
    tokens: TextLike,
    metric: MetricLike,
    site: str = "z",
    kind: str = "zero",
    reference: TextLike | None = None,
    over: Sequence[str] | None = None,
    *,
    layers: Choice = None,
    heads: Choice = None,
    positions: Choice | Mapping[str, Sequence[int]] = None,
    neurons: Choice = None,
    window: int = 1,
    selection: Selection = None,
    hooks: Sequence[HookLike] = (),
    attention_mask: Tensor | None = None,
    per_position: bool = True,
    skip_first: bool = False,
    seed: int = 0,
    progress: bool = True,
    memory: int | None = None,
) -> SweepResult:
    """Take away what one site says, at each place of a grid, and measure what the metric loses.

    kind:      what stands there instead. "zero": 0. "mean": the mean over a reference set, at each position (Wang et
               al. 2022). "resample": the values of a text of the reference set, one drawn for each example by `seed`
               (Chan et al. 2022, "causal scrubbing"). "project": what is there, less its part along directions.
    reference: for mean and resample texts or tokens, at least as long as those that are ablated; for project
               directions [width] or [several, width].
    per_position, skip_first: of the mean, as in `wb.mean`: per_position=False takes one over all positions, and
               skip_first leaves each text's first token out of it.
    selection: (layer, head) pairs that are ablated all at once.

    The other arguments, sites and axes as in `activation_patching`. The effect is the metric's change.
    """
    check_kind(kind, reference, skip_first or not per_position)
    model, metric = checked_model(model).with_hooks(hooks), resolve(metric, model.tokenizer)
    text = read_one(model, tokens, attention_mask)
    labels = read_labels(positions, text)
    where = Where(over, layers, heads, neurons, positions, window, selection)
    grid = grid_of(model, site, where, text, labels)
    if kind == "project" and grid.sites[0].axes[-1] in UNITS and not grid.units.all():
        raise InputError(f"a direction runs through all of {site!r}'s {grid.sites[0].axes[-1]}; sweep over other axes")
    way = way_through(model, metric, text, labels, memory)
    change, n_tokens = _change(way, site, _Kind(kind, reference, per_position, skip_first, seed), grid.sites)
    base = way.base(text, grid.sites)
    done = swept(way, base, grid, change, progress)
    done = done._replace(computed=done.computed + n_tokens * model.spec.n_layers)
    return result_of(model, text, None, grid, labels, done, base.measured, torch.empty(0), "ablate")


@dataclass(frozen=True, repr=False)
class Faithfulness:
    """How much of what a model does a set of heads does alone.

    kept:  [example] the metric where all other heads are ablated.
    full:  [example] of the untouched model; empty: where all heads are ablated.
    """

    kept: Float[Tensor, " example"]
    full: Float[Tensor, " example"]
    empty: Float[Tensor, " example"]

    @property
    def mean(self) -> float:
        """F(C) = (m(C) - m(empty)) / (m(full) - m(empty)), of the means over examples (Wang et al. 2022, section 4;
        Marks et al. 2024, equation 4): 1 where the set does it all. NaN where full and empty do not differ."""
        kept, full, empty = (run.mean() for run in (self.kept, self.full, self.empty))
        return float((kept - empty) / difference(empty, full))

    @property
    def each(self) -> Float[Tensor, " example"]:
        """The same for each example."""
        return (self.kept - self.empty) / difference(self.empty, self.full)

    def __repr__(self) -> str:
        runs = ", ".join(f"{name} {getattr(self, name).mean():.3f}" for name in ("kept", "full", "empty"))
        return f"Faithfulness {self.mean:.3f} ({runs}; {count(len(self.kept), 'example')})"


@checked_keywords
def faithfulness(
    model: HookedTransformer,
    tokens: TextLike,
    metric: MetricLike,
    keep: Sequence[tuple[int, int]],
    site: str = "z",
    kind: str = "zero",
    reference: TextLike | None = None,
    *,
    hooks: Sequence[HookLike] = (),
    attention_mask: Tensor | None = None,
    per_position: bool = True,
    skip_first: bool = False,
    seed: int = 0,
    memory: int | None = None,
) -> Faithfulness:
    """Keep a set of (layer, head) pairs, ablate all others, and measure what is left.

    site, kind, reference, per_position, skip_first, seed: how the others are ablated, as in `ablate`; the empty set, to
    which it is compared, is ablated alike. keep=[] is that set.
    """
    check_kind(kind, reference, skip_first or not per_position)
    model, metric = checked_model(model).with_hooks(hooks), resolve(metric, model.tokenizer)
    text = read_one(model, tokens, attention_mask)
    sites = sites_of(model, site)
    every = [(found.layer or 0, unit) for found in sites for unit in range(n_units(found))]
    kept = _among(keep, every, model.spec.n_layers)
    others = [pair for pair in every if pair not in kept]
    way = way_through(model, metric, text, {}, memory)
    base = way.base(text, tuple(sites))
    change, _ = _change(way, site, _Kind(kind, reference, per_position, skip_first, seed), tuple(sites))
    grid = grid_of_selections(model, site, [every, others or every], text)
    of_empty, of_kept = swept(way, base, grid, change, progress=False).values
    return Faithfulness(of_kept if others else base.measured, base.measured, of_empty)


def _among(keep: Sequence[tuple[int, int]], every: list[tuple[int, int]], n_layers: int) -> set[tuple[int, int]]:
    """The pairs, counted from the front; InterventionError for one that does not exist."""
    if not (pairs := pairs_of(keep, "a set of heads")):
        return set()
    layers, units = zip(*pairs, strict=True)
    size = 1 + max(unit for _, unit in every)
    counted = set(zip(within(layers, n_layers, "layer"), within(units, size, "head"), strict=True))
    if lacking := sorted(counted - set(every)):
        raise InterventionError(f"there is no head {lacking[0]} to keep")
    return counted


def check_kind(kind: object, reference: object, averaged: bool) -> None:
    """InputError where kind and reference do not fit, or what is said of a mean is said of something else."""
    if not isinstance(kind, str) or kind not in _KINDS:
        raise InputError(f"kind is {kind!r}; one of {', '.join(map(repr, _KINDS))} is wanted")
    if averaged and kind != "mean":
        raise InputError(f"per_position and skip_first are for kind 'mean', and the kind is {kind!r}")
    if kind == "zero" and reference is not None:
        raise InputError("reference= is for kind 'mean', 'resample' and 'project'; zeros need none")
    if kind != "zero" and reference is None:
        what = "directions that are left out" if kind == "project" else "texts or tokens whose values stand in"
        raise InputError(f"kind {kind!r} needs reference=, {what}")


class _Kind(NamedTuple):
    """What is put in place of values."""

    name: str
    reference: TextLike | None
    per_position: bool
    skip_first: bool
    seed: int


def _change(way: Way, site: str, kind: _Kind, sites: tuple[Site, ...]) -> tuple[Intervention, int]:
    """What is put in place of values, and how many tokens were run for it."""
    if kind.name == "zero":
        return zero(site), 0
    if kind.name == "project":
        return project_out(site, kind.reference), 0  # type: ignore[arg-type]
    text: Text = read_one(way.model, kind.reference)  # type: ignore[arg-type]
    cache = way.recorded(text, sites).cache
    if kind.name == "resample":
        return resample(cache, site, seed=kind.seed), text.tokens.numel()
    return mean(cache, site, per_position=kind.per_position, skip_first=kind.skip_first), text.tokens.numel()
