"""The kinds of heads, each by what it is that such a head does with its pattern.

Most are a relation between positions: at which keys a query of this kind looks. A new one is a function from the ids of
one text to pairs of positions, and a line in `KINDS`. Positions count real tokens, so that padding has none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from .measures import Entropy, Measure, Pairs, Places, Texts


@dataclass(frozen=True)
class Attends:
    """A head that attends to some places.

    pairs:    the positions [place] of queries and [place] of the keys that they look at, of the ids [pos] of one text.
    to_first: whether the first token is what this kind is about, and not what `skip_first` leaves out.
    """

    pairs: Callable[[Int[Tensor, " pos"]], Pairs]
    to_first: bool = False

    def __call__(self, texts: Texts, skip_first: bool) -> Measure:
        return Places.of_pairs(self.pairs, texts, skip_first and not self.to_first)


def previous(ids: Int[Tensor, " pos"]) -> Pairs:
    """The token before (Elhage et al. 2021)."""
    query = torch.arange(1, len(ids), device=ids.device)
    return query, query - 1


def same_before(ids: Int[Tensor, " pos"]) -> Pairs:
    """Earlier positions of the query's own token (Wang et al. 2022, arXiv 2211.00593, section 3.2)."""
    query, key = (ids[:, None] == ids).tril(-1).nonzero(as_tuple=True)
    return query, key


def after_same_before(ids: Int[Tensor, " pos"]) -> Pairs:
    """Positions just after those, which say how the text went on (Olsson et al. 2022, arXiv 2209.11895)."""
    query, same = same_before(ids)
    ahead = same + 1 < query  # a token said twice in a row comes after itself
    return query[ahead], same[ahead] + 1


def first(ids: Int[Tensor, " pos"]) -> Pairs:
    """The text's first token, on which attention rests when it has nothing to do (Xiao et al. 2023, arXiv
    2309.17453)."""
    query = torch.arange(1, len(ids), device=ids.device)
    return query, torch.zeros_like(query)


KINDS: Mapping[str, Callable[[Texts, bool], Measure]] = {
    "previous_token": Attends(previous),
    "duplicate_token": Attends(same_before),
    "induction": Attends(after_same_before),
    "first_token": Attends(first, to_first=True),
    "entropy": Entropy,
}
DEFAULT_KINDS = ("previous_token", "duplicate_token", "induction", "first_token")
