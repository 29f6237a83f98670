"""A pass over packed rows: each row sees its own recomputed keys, and recorded ones before them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from jaxtyping import Bool
from torch import Tensor

from ..model.dot_product import DotProduct
from ..model.masks import Visibility
from ..model.memory import Kept
from ..model.pass_ import Mixer, Pass
from ..sites import Site
from .changes import Change
from .record import Recorded
from .rows import Rows

_SHORT = 32  # tokens, up to which explicit products are faster than the fused kernel, measured on a CPU


class ConePass(Pass):
    """Of one layer, since rows join between layers. What it fires at a site is what the cells change there.

    read: [example column] which columns of the stream behind this layer anybody reads; None for all. The others are
    there for their keys and values only, and end with them.
    """

    def __init__(
        self,
        recorded: Recorded,
        rows: Rows,
        changes: Mapping[str, Change],
        read: Bool[Tensor, "example column"] | None = None,
    ):
        super().__init__(rows.of_tokens(recorded.positions)[:, None], padded=True)
        self.lengths = (recorded.positions.amax(1) + 1)[rows.example[rows.row]]  # of the whole text, not of one token
        self.recorded, self.rows = recorded, rows
        self._changes = changes
        self._onward = None if read is None else rows.of_tokens(read).nonzero()[:, 0]

    # `settle` is what holds at a site whatever was changed: masked scores stay masked
    def __call__(self, site: Site, value: Tensor, settle: Callable[[Tensor], Tensor] | None = None) -> Tensor:
        changes = self._at(site)
        if not changes:
            return value
        for change in changes:
            value = change.applied(value, self.rows)
        return value if settle is None else settle(value)

    def wants(self, *sites: Site) -> bool:
        """Scores and patterns of short texts are made anyway: a few queries on few keys are faster so."""
        return self.recorded.n_columns <= _SHORT or any(self._at(site) for site in sites)

    def _at(self, site: Site) -> tuple[Change, ...]:
        """What the recorded run had changed already comes first."""
        every, own = self.recorded.held.get(site.name, ()), self._changes.get(site.name)
        return every if own is None else (*every, own)

    def onward(self, x: Tensor) -> Tensor:
        return x if self._onward is None else x[self._onward]

    def attend(self, mixer: Mixer, q: Tensor, new: Kept) -> Tensor:
        mixer = cast(DotProduct, mixer)
        keys_and_values = zip(self.recorded.keys_and_values(mixer), mixer.keys_and_values(new), strict=True)
        k, v = (self.rows.over(recorded, packed) for recorded, packed in keys_and_values)
        if self._onward is not None:  # from here on, sites fire for these rows only
            q, self.rows = q[self._onward], self.rows.only(self._onward)
        visible = Visibility(
            self.rows.positions(self.recorded.positions), self.recorded.positions[self.rows.example], mixer.window
        )
        z, _ = mixer.attend_to(self.rows.side_by_side(q), k, v, visible, self)
        return self.rows.packed(z)
