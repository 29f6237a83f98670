"""Who sees whom: the one mask of the workbench.

A query sees a key when the key is a real token, does not lie ahead, and is within the window. Positions count
real tokens and are -1 where there is none, so causality, padding, sliding windows and cached generation are the
same three comparisons.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from jaxtyping import Bool, Float, Int
from torch import Tensor


def visible(
    query_pos: Int[Tensor, "batch query"], key_pos: Int[Tensor, "batch key"], window: int | None = None
) -> Bool[Tensor, "batch query key"]:
    """True where the query may attend to the key."""
    query, key = query_pos[:, :, None], key_pos[:, None, :]
    seen = (key <= query) & (key >= 0)
    return seen if window is None else seen & (query - key < window)


@dataclass(frozen=True)
class Visibility:
    """The mask of one attention, made when somebody needs it.

    plain: queries and keys are the same unpadded text, so that a kernel may use its own causal mask.
    n_open: keys at the start that every query sees, where somebody counted them: no time is spent on hiding those.
    """

    query_pos: Int[Tensor, "batch query"]
    key_pos: Int[Tensor, "batch key"]
    window: int | None = None
    plain: bool = False
    n_open: int = 0

    @cached_property
    def mask(self) -> Bool[Tensor, "batch query key"]:
        """True where the query sees the key. Every row of a plain batch sees the same, so there one is made."""
        rows = slice(0, 1) if self.plain else slice(None)
        return visible(self.query_pos[rows], self.key_pos[rows], self.window)

    @cached_property
    def hidden(self) -> Bool[Tensor, "batch 1 query key"]:
        return ~self.mask[:, None]

    @property
    def causal(self) -> bool:
        """Whether the mask is the lower triangle and nothing else."""
        return self.plain and (self.window is None or self.window >= self.key_pos.shape[1])

    def hide_(self, scores: Float[Tensor, "batch head query key"]) -> Float[Tensor, "batch head query key"]:
        """Set scores to -inf where the query must not look; in place, since the largest tensors here are these."""
        rest = scores[..., self.n_open :] if self.n_open else scores
        rest.masked_fill_(self.hidden[..., self.n_open :], float("-inf"))
        return scores

    def counted(self) -> Visibility:
        """The same, with its open keys counted: of a few rows of a long text most are."""
        by_all = self.mask.flatten(0, 1).all(0)
        return replace(self, n_open=int(by_all.long().cumprod(0).sum()))

    @cached_property
    def blind(self) -> Bool[Tensor, "batch 1 query"]:
        """True for a query without a token, which sees nothing."""
        return ~self.mask[:, None].any(-1)

    def finite(self, scores: Float[Tensor, "batch head query key"]) -> Float[Tensor, "batch head query key"]:
        """Scores that have a softmax: 0 in the rows of blind queries, since softmax over nothing is NaN, and so is its
        gradient, which reaches every weight."""
        return scores if self.plain else scores.masked_fill(self.blind[..., None], 0.0)

    def zero(self, pattern: Float[Tensor, "batch head query key"]) -> Float[Tensor, "batch head query key"]:
        """A pattern that is exactly 0 where masked; only blind queries need it."""
        return pattern if self.plain else pattern.masked_fill(self.hidden, 0.0)
