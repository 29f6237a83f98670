"""What is measured in an attention pattern: the attention that falls on certain places, or how spread its rows are.

A measure is made once for some texts and reads every layer's pattern over them. Queries of all texts count alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeAlias

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

Pairs: TypeAlias = tuple[Int[Tensor, " place"], Int[Tensor, " place"]]


@dataclass(frozen=True)
class Texts:
    """tokens [batch, pos], and where they are `real`: padding, on either side, is not."""

    tokens: Int[Tensor, "batch pos"]
    real: Bool[Tensor, "batch pos"]

    @cached_property
    def columns(self) -> list[Int[Tensor, " pos"]]:
        """For each text, the columns of the batch in which its tokens stand."""
        return [row.nonzero()[:, 0] for row in self.real]

    @property
    def ids(self) -> list[Int[Tensor, " pos"]]:
        return [row[columns] for row, columns in zip(self.tokens, self.columns, strict=True)]


class Measure(Protocol):
    """unit: "share" of attention, or "nats". n_queries: how many it looks at."""

    unit: str

    @property
    def n_queries(self) -> int: ...

    @property
    def chance(self) -> float:
        """What uniform attention to all of the text so far would score; NaN without queries."""
        ...

    def of(self, pattern: Float[Tensor, "batch head query key"]) -> Float[Tensor, " head"]: ...


@dataclass(frozen=True)
class Places:
    """The attention that queries pay to places, the mean over the queries that have any.

    example, query, key: [place] the columns of each, in order of queries.
    chance: of uniform attention: 1 / (position + 1) for each place.
    """

    example: Int[Tensor, " place"]
    query: Int[Tensor, " place"]
    key: Int[Tensor, " place"]
    n_queries: int
    chance: float
    unit = "share"

    @classmethod
    def of_pairs(cls, pairs: Callable[[Int[Tensor, " pos"]], Pairs], texts: Texts, skip_first: bool) -> Places:
        """skip_first: leave out the places whose key is a text's first token."""
        places, n_queries, attention = [], 0, 0.0
        for text, (ids, columns) in enumerate(zip(texts.ids, texts.columns, strict=True)):
            query, key = pairs(ids)
            kept = key >= int(skip_first)
            query, key = query[kept], key[kept]
            n_queries += len(query.unique())
            attention += float((1 / (query.double() + 1)).sum())
            places.append(torch.stack([torch.full_like(query, text), columns[query], columns[key]]))
        found = torch.cat(places, 1)
        example, query, key = found[:, found[1].argsort(stable=True)]
        return cls(example, query, key, n_queries, attention / n_queries if n_queries else torch.nan)

    def of(self, pattern: Float[Tensor, "batch head query key"]) -> Float[Tensor, " head"]:
        return self.of_rows(pattern, 0)

    def of_rows(self, rows: Float[Tensor, "batch head row key"], start: int) -> Float[Tensor, " head"]:
        """What rows from `start` on add to it: those of all rows sum to it. Their keys may end with the last row."""
        ends = torch.tensor([start, start + rows.shape[2]], device=self.query.device)
        there = slice(*torch.searchsorted(self.query, ends).tolist())
        places = (self.example[there], self.query[there] - start, self.key[there])
        example, query, key = (index.to(rows.device) for index in places)
        return rows[example, :, query, key].float().sum(0) / self.n_queries


class Entropy:
    """The mean entropy of rows in nats, 0 log 0 being 0. A row is a distribution over the keys that count: it is
    divided by its sum, and one without anything there is left out."""

    unit = "nats"

    def __init__(self, texts: Texts, skip_first: bool):
        """skip_first: leave out the first token's column, and the row of that token, which has no other."""
        self._columns = [columns[int(skip_first) :] for columns in texts.columns]

    @property
    def n_queries(self) -> int:
        return sum(map(len, self._columns))

    @property
    def chance(self) -> float:
        """log of how many keys each row has."""
        logs = [torch.arange(1, len(columns) + 1).double().log().sum() for columns in self._columns]
        return float(sum(logs)) / self.n_queries if self.n_queries else torch.nan

    def of(self, pattern: Float[Tensor, "batch head query key"]) -> Float[Tensor, " head"]:
        return torch.stack([self._of_head(head) for head in pattern.unbind(1)])  # one at a time: they are large

    def _of_head(self, pattern: Float[Tensor, "batch query key"]) -> Float[Tensor, ""]:
        columns = [some.to(pattern.device) for some in self._columns]
        rows = [text[some[:, None], some].float() for text, some in zip(pattern, columns, strict=True)]
        sums = [text.sum(-1, keepdim=True) for text in rows]
        spread = [torch.special.entr(text / s.where(s != 0, 1)).sum() for text, s in zip(rows, sums, strict=True)]
        return torch.stack(spread).sum() / torch.stack([(s != 0).sum() for s in sums]).sum()
