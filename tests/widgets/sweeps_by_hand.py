"""Sweeps of drawn numbers, and what a page makes of the bytes that it is sent: read after sweep_bytes' description."""

import numpy as np
import torch

from workbench.sweep_result import SweepResult, Work

LABELS = ("s1", "s2", "end")


def sweep(axes, sizes=None, n=4, direction="denoise", holes=False, places=None, site="z", seed=0):
    """A result over these axes. holes: cells that some pairs, or all, have no value at, and one that is unchanged."""
    sizes = sizes or [2 if axis == "layer" else 3 for axis in axes]
    generator = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(*shape, generator=generator)  # noqa: E731
    clean, corrupted = 5 + draw(n), -4 + draw(n)
    values = corrupted.view(-1, *[1] * len(axes)) + 3 * draw(n, *sizes)
    unchanged = torch.zeros(tuple(sizes), dtype=torch.bool)
    if holes and axes:
        flat = values.view(n, -1)
        flat[1:, 0] = torch.nan  # one pair is left
        flat[:, 1] = torch.nan  # none is
        unchanged.view(-1)[-1] = True
    numbers = {axis: tuple(range(size)) for axis, size in zip(axes, sizes, strict=True)} | (places or {})
    if "label" in axes:
        numbers["label"] = LABELS
    return SweepResult(
        values=values,
        axes=tuple(axes),
        labels={axis: tuple(map(str, numbers[axis])) for axis in axes},
        places={axis: numbers[axis] for axis in axes},
        clean=clean,
        corrupted=torch.empty(0) if direction == "ablate" else corrupted,
        site=site,
        direction=direction,
        unchanged=unchanged,
        work=Work(1, 2),
    )


class OfPage:
    """order: the axes as the page lays them out, slowest first."""

    def __init__(self, traits, order):
        about = traits["_sweep"]
        sizes = {about[side]["name"]: len(about[side]["places"]) for side in ("sheets", "down", "across")}
        self.order, self.shape = order, [sizes[axis] for axis in order]
        cells = int(np.prod(self.shape))
        means = np.frombuffer(bytes(traits["_means"]), "<f4").reshape(len(about["means"]), cells)
        self.means = dict(zip(about["means"], means, strict=True))
        self.runs = np.frombuffer(bytes(traits["_runs"]), "<f4").reshape(3, about["pairs"])
        self.values = np.frombuffer(bytes(traits["_values"]), "<f4").reshape(len(traits["_sent"]), cells)

    def _at(self, place):
        at = 0
        for axis, size in zip(self.order, self.shape, strict=True):
            at = at * size + place[axis]
        return at

    def mean(self, place):
        return {name: float(values[self._at(place)]) for name, values in self.means.items()}

    def value(self, place, pair):
        return float(self.values[pair, self._at(place)])


of_page = OfPage


def mixed_sweep():
    """Layers by positions with every kind of cell, by hand. Base -4, other 6 in each pair, so that a tenth of what a
    value is above -4 is its effect.

    layer 0: +1.0 sure, 0 unchanged, no token in pair 1
    layer 1: -0.5 sure, +0.3 unsure, an infinite value
    """
    infinite = float("-inf")
    nan = float("nan")
    values = [
        [[6.0, -4.0, 2.0], [-9.0, 9.0, 0.0]],
        [[6.5, -4.0, nan], [-8.0, -6.0, infinite]],
        [[5.5, -4.0, 3.0], [-10.0, 0.0, 0.0]],
    ]
    unchanged = torch.zeros(2, 3, dtype=torch.bool)
    unchanged[0, 1] = True
    return SweepResult(
        values=torch.tensor(values),
        axes=("layer", "pos"),
        labels={"layer": ("0", "1"), "pos": ("0", "1", "2")},
        places={"layer": (0, 1), "pos": (0, 1, 2)},
        clean=torch.full((3,), 6.0),
        corrupted=torch.full((3,), -4.0),
        site="resid_pre",
        direction="denoise",
        unchanged=unchanged,
        work=Work(1, 2),
    )
