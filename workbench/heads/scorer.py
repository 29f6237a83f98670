"""Scores of heads from patterns at hand."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..errors import InputError, KindError, nearest
from .kinds import DEFAULT_KINDS, KINDS
from .measures import Places, Texts


class Scorer:
    """What heads do, read off any pattern over the same tokens. Made once for the texts and cheap for each layer: only
    the places that count are looked at (all of the rows for "entropy").

        scorer = Scorer(tokens, real)
        scorer.of(attention[5])         # [kind, head]

    kinds:  their names, in order; chance, units: of each. What they are, and `skip_first`: see `wb.head_scores`.
    empty:  those without a place in these texts, which score NaN.
    """

    def __init__(
        self,
        tokens: Int[Tensor, "batch pos"],
        real: Bool[Tensor, "batch pos"] | None = None,
        kinds: str | Sequence[str] = DEFAULT_KINDS,
        skip_first: bool = True,
    ):
        """real: True where there is a token, everywhere if None. Raises InputError or KindError in a sentence."""
        if not isinstance(skip_first, bool):
            raise KindError(f"skip_first is {skip_first!r}; True or False is wanted")
        real = torch.ones_like(tokens, dtype=torch.bool) if real is None else real.bool()
        if tokens.ndim != 2 or tokens.shape != real.shape:
            raise InputError(
                f"tokens are {list(tokens.shape)} and real {list(real.shape)}; [batch, pos] is wanted twice"
            )
        self.kinds = checked_kinds(kinds)
        self._shape = tokens.shape
        texts = Texts(tokens, real)
        self._measures = [KINDS[kind](texts, skip_first) for kind in self.kinds]
        self.units = tuple(measure.unit for measure in self._measures)
        self.empty = tuple(k for k, measure in zip(self.kinds, self._measures, strict=True) if not measure.n_queries)

    @property
    def chance(self) -> Float[Tensor, " kind"]:
        """What uniform causal attention over the same texts would score."""
        return torch.tensor([measure.chance for measure in self._measures])

    @torch.no_grad()
    def of(self, pattern: Float[Tensor, "batch head query key"]) -> Float[Tensor, "kind head"]:
        """Each head's scores, in float32."""
        batch, pos = self._shape
        if pattern.ndim != 4 or (*pattern.shape[:1], *pattern.shape[2:]) != (batch, pos, pos):
            raise InputError(f"a pattern {list(pattern.shape)} came; [{batch}, head, {pos}, {pos}] is wanted")
        return torch.stack([measure.of(pattern) for measure in self._measures])

    @torch.no_grad()
    def of_rows(self, rows: Float[Tensor, "batch head row key"], start: int) -> Float[Tensor, "kind head"]:
        """What some rows, from `start` on, add to the scores, so that a large pattern is scored a few rows at a time.
        Their keys may end with the last row. A mean entropy is no sum over rows: that kind wants all of them at once.
        """
        pos = self._shape[1]
        if start == 0 and rows.shape[2:] == (pos, pos):
            return self.of(rows)
        whole = [kind for kind, m in zip(self.kinds, self._measures, strict=True) if not isinstance(m, Places)]
        if whole:
            raise InputError(f"{whole[0]!r} is scored from all rows at once, and {rows.shape[2]} came")
        return torch.stack([measure.of_rows(rows, start) for measure in self._measures if isinstance(measure, Places)])


def checked_kinds(kinds: object) -> tuple[str, ...]:
    """Names of kinds that exist, each once; a single name will do."""
    names = (kinds,) if isinstance(kinds, str) else kinds
    if not isinstance(names, Sequence):
        raise KindError(f"kinds are names such as 'induction', not {type(kinds).__name__}")
    if not names:
        raise InputError(f"no kinds came; at least one is wanted; {nearest('', KINDS)}")
    for name in names:
        if not isinstance(name, str):
            raise KindError(f"kinds are names such as 'induction', not {name!r}")
        if name not in KINDS:
            raise InputError(f"there is no kind of head {name!r}; {nearest(name, KINDS)}")
        if names.count(name) > 1:
            raise InputError(f"the kind {name!r} came twice; once is enough")
    return tuple(names)
