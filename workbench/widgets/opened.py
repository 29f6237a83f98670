"""One text of an attention dashboard, opened: what is sent to the view, and when.

at once         tokens, thumbnails and scores of every head
for a head      its pattern, or two; what its columns are weighted by, when that is asked for
for a lock      the locked rows in float32, where patterns travel in 16 bits
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from ..errors import InputError
from ..figures.arrays import Array
from ..figures.tokens import visible
from ..heads import HeadScores, Scorer
from .coding import EXACT, encode
from .patterns import WHOLE, Patterns
from .runs import Sources
from .thumbnails import Thumbnails, thumbnails

KINDS = ("previous_token", "duplicate_token", "induction", "first_token")
NEIGHBOURS = ("previous_token", "induction")  # which tell nothing of positions with gaps between them
DIRECT = "direct_logit"  # what a head adds to the metric: a score once it is asked for


class Opened:
    """first, second: the patterns of one run, or two;  heads: (layer, head) pairs shown;  ids: [1, pos] its tokens.
    scores: those of `wb.head_scores` to show in place of what these patterns score;  sources: one for each run.
    note: what of it all is not shown."""

    def __init__(
        self,
        first: Patterns,
        second: Patterns | None,
        heads: list[tuple[int, int]],
        ids: Int[Tensor, "1 pos"],
        scores: HeadScores | None,
        sources: Sequence[Sources],
        note: str,
    ) -> None:
        self.first, self.second, self.heads, self.ids = first, second, heads, ids
        self.given, self.sources, self.note = scores, sources, note
        self.direct: dict[str, Any] | None = None  # what each head adds to the metric, once somebody asked

    @property
    def runs(self) -> list[Patterns]:
        return [self.first, *([self.second] if self.second else [])]

    @property
    def positions(self) -> list[int]:
        return self.first.positions

    # At once.

    @cached_property
    def grid(self) -> Thumbnails:
        scorer = self._scorer(self._kinds) if self._kinds else None
        return thumbnails(self.first, self.heads, scorer, self.second)

    @cached_property
    def _kinds(self) -> tuple[str, ...]:
        """Those that these tokens have places for."""
        if self.given is not None or len(self.positions) < 2:
            return ()
        first, last, n = self.positions[0], self.positions[-1], len(self.positions)
        left_out = {*(("first_token",) if first else ()), *(NEIGHBOURS if last - first + 1 > n else ())}
        # Logarithms of every weight of a long text would take longer than the run.
        kinds = [*(kind for kind in KINDS if kind not in left_out), *(("entropy",) if n <= WHOLE else ())]
        empty = self._scorer(kinds).empty
        return tuple(kind for kind in kinds if kind not in empty)

    def _scorer(self, kinds: Sequence[str]) -> Scorer:
        """The text's first token is left out, where it is among the shown ones."""
        return Scorer(self.ids, None, kinds, skip_first=self.positions[0] == 0)

    def scores(self) -> list[dict[str, Any]]:
        """{name, unit, chance, values} of each kind, values in the order of heads."""
        found = [self._scored(kind, self.grid.scores[kind]) for kind in self._kinds]
        if self.given is not None:
            found = [self._of_given(kind) for kind in self.given.kinds]
        if self.second:
            found.append(
                {
                    "name": "difference",
                    "unit": "share",
                    "chance": None,
                    "values": _round(self.grid.scores["difference"]),
                }
            )
        return [*found, *([self.direct] if self.direct else [])]

    def _scored(self, kind: str, values: Sequence[float]) -> dict[str, Any]:
        scorer = self._scorer((kind,))
        whole = self.positions[0] == 0 and self.positions[-1] == len(self.positions) - 1
        chance = round(float(scorer.chance[0]), 4) if whole else None  # of a part of a text rows are not whole
        return {"name": kind, "unit": scorer.units[0], "chance": chance, "values": _round(values)}

    def _of_given(self, kind: str) -> dict[str, Any]:
        assert self.given is not None
        table, at = self.given[kind], self.given.kinds.index(kind)
        if table.shape[0] != self.first.n_layers or table.shape[1] < max(self.first.n_heads):
            raise InputError(
                f"scores are of {table.shape[0]} layers x {table.shape[1]} heads; {self.first.n_layers} x "
                f"{max(self.first.n_heads)} are shown"
            )
        values = [float(table[layer, head]) for layer, head in self.heads]
        (chance,) = _round([float(self.given.chance[at])])
        return {"name": kind, "unit": self.given.units[at], "chance": chance, "values": _round(values)}

    def first_message(self, heads: Collection[tuple[int, int]] | None = None) -> dict[str, Any]:
        """The traits that a view needs to open; heads: these only."""
        kept = [i for i, pair in enumerate(self.heads) if heads is None or pair in heads]
        scores = [{**score, "values": [score["values"][i] for i in kept]} for score in self.scores()]
        return {
            "_tokens": [visible(token) for token in self.first.tokens],
            "_against": [visible(token) for token in self.second.tokens] if self.second else [],
            "_positions": self.positions,
            "_heads": [[layer, head, self._kv_head(layer, head)] for layer, head in map(self.heads.__getitem__, kept)],
            "_thumbs": self.grid.to_bytes(kept),
            "_thumbs_of": {"side": self.grid.side, "half": self.grid.half},
            "_scores": scores,
            "_quantities": self.quantities(),
            "_note": self.note,
        }

    def _kv_head(self, layer: int, head: int) -> int:
        """-1 where no heads share keys and values."""
        group = self.first.n_heads[layer] // self.first.n_kv_heads[layer]
        return head // group if group > 1 else -1

    def quantities(self) -> list[str]:
        """Which can be shown: what weighs columns wants a model."""
        return ["attention", *(["value_weighted", "contribution"] if self.sources else [])]

    # For a head.

    def pattern(self, layer: int, head: int) -> dict[str, Any]:
        """Its pattern in each run."""
        self.check(layer, head)
        coded = [encode(run.head(layer, head)) for run in self.runs]
        parts = [{**coding.to_json(), "bytes": len(data)} for coding, data in coded]
        return {
            "_pattern": b"".join(data for _, data in coded),
            "_shown": {"example": self.first.example, "layer": layer, "head": head, "parts": parts},
        }

    def check(self, layer: int, head: int) -> None:
        if (layer, head) not in self._shown:
            self.first.head(layer, head)  # says what does not exist
            raise InputError(
                f"layer {layer}, head {head} is not among the heads shown; choose layers= and heads= with it"
            )

    def heads_of(self, layer: int) -> list[int]:
        """Those shown of a layer."""
        return [head for at, head in self.heads if at == layer]

    @cached_property
    def _shown(self) -> set[tuple[int, int]]:
        return set(self.heads)

    def columns(self, layer: int, head: int, quantity: str) -> dict[str, Any]:
        """What its columns are multiplied by, float32 [run, key]. Of a contribution also where it is made, to what, and
        what the head adds in all; `changed`: a hook saw to it that this is not what its pattern says."""
        factors = [self._factors(source, layer, quantity)[head].numpy() for source in self.sources]
        data = b"".join(each.astype("<f4").tobytes() for each in factors)
        of: dict[str, Any] = {"layer": layer, "head": head, "quantity": quantity}
        if quantity == "contribution":
            source = self.sources[0]
            adds = _round([float(each.direct(layer)[head]) for each in self.sources])
            changed = any(each.changed(layer) for each in self.sources)
            of |= {"metric": source.label, "query": source.position, "adds": adds, "changed": changed}
        return {"_columns": data, "_columns_of": of}

    def _factors(self, source: Sources, layer: int, quantity: str) -> Float[Tensor, "head key"]:
        if quantity == "contribution":
            source.check()  # a view's choice comes here even where it was refused
            return source.contributions(layer)
        return source.norms(layer)

    def check_quantity(self, quantity: str) -> None:
        """InputError where it cannot be had of what is shown."""
        if quantity != "attention" and not self.sources:
            raise InputError(f"quantity {quantity!r} needs the model, and only weights came")
        if quantity == "contribution":
            for source in self.sources:
                source.check()

    def can(self, quantity: str) -> bool:
        try:
            self.check_quantity(quantity)
        except InputError:
            return False
        return True

    def with_direct(self) -> None:
        """Adds what each head adds to the metric to the scores."""
        source = self.sources[0]
        of_layer = {layer: source.direct(layer) for layer in dict.fromkeys(layer for layer, _ in self.heads)}
        values = [float(of_layer[layer][head]) for layer, head in self.heads]
        self.direct = {"name": DIRECT, "unit": "logit", "chance": None, "values": _round(values)}

    def present(
        self, layer: int, head: int, quantity: str, hidden: Sequence[int], renormalise: bool, run: int = 0
    ) -> Array:
        """[query, key] of a run as a view shows it: columns hidden, rows perhaps renormalised, columns weighed.
        A contribution is made at one query; others are 0."""
        shown = self.runs[run].head(layer, head).copy()
        shown[:, list(hidden)] = 0
        if renormalise and len(hidden):
            sums = shown.sum(1, keepdims=True)
            shown = np.divide(shown, sums, out=np.zeros_like(shown), where=sums > 0)
        if quantity == "attention":
            return shown
        shown = shown * self._factors(self.sources[run], layer, quantity)[head].numpy()
        if quantity == "contribution":
            shown[np.arange(len(shown)) != self.sources[run].query] = 0
        return shown

    # For a lock.

    def rows(self, layer: int, head: int, queries: Sequence[int], direction: str) -> dict[str, Any]:
        """Locked rows, or columns, as float32 [run, locked, pos]."""
        of = {"layer": layer, "head": head, "queries": list(queries), "direction": direction}
        if len(self.positions) <= EXACT or not queries:  # patterns travel in float32 then
            return {"_row": b"", "_row_of": of}
        where = [self.positions.index(query) for query in queries]
        chosen = [run.head(layer, head) for run in self.runs]
        rows = [each[where] if direction == "attends_to" else each[:, where].T for each in chosen]
        return {"_row": np.stack(rows).astype("<f4").tobytes(), "_row_of": of}


def _round(values: Sequence[float]) -> list[float | None]:
    """Four figures are as many as a person compares; NaN is no JSON."""
    return [None if value != value else float(f"{value:.4g}") for value in values]
