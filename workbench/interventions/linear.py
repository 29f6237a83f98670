"""Interventions that are arithmetic on the value at hand: add a direction, multiply, leave a subspace out."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import InterventionError, KindError
from ..hooks import At
from ..keywords import checked_keywords
from ..sites import Selector, Site
from ._base import Intervention, Part
from ._choice import Choice


@dataclass(frozen=True)
class OfDirections(Intervention):
    """directions: [width] or [several width], as wide as the last axis of the site."""

    directions: Tensor = field(kw_only=True, repr=False)

    def check(self, site: Site) -> None:
        super().check(site)
        width = site.sizes[-1]
        if self.neurons is not None:
            raise InterventionError(f"a direction runs through all neurons of {site.name}; leave neurons out")
        if width is None or self.directions.shape[-1] != width:
            wanted = "a site with a fixed width" if width is None else f"a width of {width}"
            raise InterventionError(
                f"the direction is {list(self.directions.shape)} and {site.name} is [{' '.join(site.axes)}]; "
                f"{wanted} is wanted"
            )


@dataclass(frozen=True)
class Steer(OfDirections):
    coefficient: float = field(kw_only=True)

    def changed(self, old: Tensor, at: At, part: Part) -> Tensor:
        return old + self.coefficient * self.directions.to(old)


@dataclass(frozen=True)
class ProjectOut(OfDirections):
    def changed(self, old: Tensor, at: At, part: Part) -> Tensor:
        basis = self.directions.to(old)  # orthonormal rows
        return old - old @ basis.T @ basis


@dataclass(frozen=True)
class Scale(Intervention):
    factor: float = field(kw_only=True)

    def changed(self, old: Tensor, at: At, part: Part) -> Tensor:
        return old * self.factor


@checked_keywords
def steer(
    site: Selector,
    direction: Float[Tensor, " width"],
    coefficient: float = 1.0,
    layers: Choice = None,
    positions: Choice = None,
    heads: Choice = None,
    neurons: Choice = None,
) -> Steer:
    """Add a direction, times a coefficient (Turner et al. 2023, "activation addition").

    model.generate(text, hooks=[wb.steer("resid_post", direction, 4.0, layers=12)])
    """
    return Steer(
        site, layers, positions, heads, neurons, directions=_directions(direction, 1), coefficient=_number(coefficient)
    )


@checked_keywords
def project_out(
    site: Selector,
    directions: Float[Tensor, "*several width"],
    layers: Choice = None,
    positions: Choice = None,
    heads: Choice = None,
    neurons: Choice = None,
) -> ProjectOut:
    """Leave out what lies along a direction, or in the subspace that several [several width] span (Ravfogel et al.
    2020; Arditi et al. 2024, equation 4)."""
    rows = _directions(directions, 2)
    rows = rows.reshape(-1, rows.shape[-1])
    basis, sizes, _ = torch.linalg.svd(rows.T, full_matrices=False)
    basis = basis[:, sizes > 1e-6 * sizes.max()]
    if not float(sizes.max()) > 0:
        raise InterventionError("the direction to project out is 0; one that points somewhere is wanted")
    return ProjectOut(site, layers, positions, heads, neurons, directions=basis.T.contiguous())


@checked_keywords
def scale(
    site: Selector,
    factor: float,
    layers: Choice = None,
    positions: Choice = None,
    heads: Choice = None,
    neurons: Choice = None,
) -> Scale:
    """Multiply a site's values.

    model(tokens, hooks=[wb.scale("mlp_out", 0.5, layers=3)])
    """
    return Scale(site, layers, positions, heads, neurons, factor=_number(factor))


def _directions(given: object, most_axes: int) -> Tensor:
    if not isinstance(given, Tensor) or not given.is_floating_point() or not 1 <= given.ndim <= most_axes:
        came = f"{given.dtype} {list(given.shape)}" if isinstance(given, Tensor) else type(given).__name__
        wanted = "[width]" if most_axes == 1 else "[width] or [several, width]"
        raise KindError(f"a direction is a tensor of floating point, {wanted}; {came} came")
    if not given.numel():
        raise InterventionError(f"the direction is empty, {list(given.shape)}")
    if not bool(given.isfinite().all()):
        raise InterventionError("the direction holds values that are not finite")
    return given.detach().float()


def _number(given: object) -> float:
    if isinstance(given, bool) or not isinstance(given, (int, float)):
        raise KindError(f"a factor is a number; {given!r} came")
    return float(given)
