"""Rows of many cells, packed: the tokens that a change reaches, one behind another, with nothing between them.

Norms, projections and feed-forwards act on each token alone and see the packed tokens as [token, 1, ...]. Attention
needs rows: queries of a row side by side, padded to the longest, and the keys of its whole text, of which those that
were recomputed take the place of the recorded ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclass(frozen=True)
class Rows:
    """cell, example: [row] what each row is a run of.
    row, column, slot: [token] the row of each token, its column in the text, and its place within the row.
    """

    cell: Int[Tensor, " row"]
    example: Int[Tensor, " row"]
    row: Int[Tensor, " token"]
    column: Int[Tensor, " token"]
    slot: Int[Tensor, " token"]

    @classmethod
    def reached(
        cls, cell: Int[Tensor, " row"], example: Int[Tensor, " row"], reached: Bool[Tensor, "row column"]
    ) -> Rows:
        """Rows of which these columns are recomputed."""
        row, column = reached.nonzero(as_tuple=True)
        return cls(cell, example, row, column, (reached.cumsum(1) - 1)[row, column])

    def and_(self, others: Rows) -> Rows:
        """These rows, and then others."""
        return Rows(
            torch.cat([self.cell, others.cell]),
            torch.cat([self.example, others.example]),
            torch.cat([self.row, others.row + len(self.cell)]),
            torch.cat([self.column, others.column]),
            torch.cat([self.slot, others.slot]),
        )

    def only(self, tokens: Int[Tensor, " some"]) -> Rows:
        """Some of the tokens, in their order."""
        row = self.row[tokens]
        slot = torch.arange(len(row), device=row.device) - torch.searchsorted(row, row)  # rows stand in order
        return Rows(self.cell, self.example, row, self.column[tokens], slot)

    def __len__(self) -> int:
        return len(self.cell)

    @property
    def n_tokens(self) -> int:
        return len(self.row)

    @cached_property
    def n_slots(self) -> int:
        """Tokens of the longest row."""
        return int(self.slot.max()) + 1

    def of_tokens(self, recorded: Float[Tensor, "example column *rest"]) -> Float[Tensor, "token *rest"]:
        """What was recorded where these tokens stand."""
        return recorded[self.example[self.row], self.column]

    def side_by_side(self, packed: Float[Tensor, "token 1 *rest"]) -> Float[Tensor, "row slot *rest"]:
        """The tokens of each row next to each other, 0 where a row is shorter."""
        padded = packed.new_zeros(len(self), self.n_slots, *packed.shape[2:])
        padded[self.row, self.slot] = packed[:, 0]
        return padded

    def packed(self, padded: Float[Tensor, "row slot *rest"]) -> Float[Tensor, "token 1 *rest"]:
        """And back."""
        return padded[self.row, self.slot][:, None]

    def positions(self, positions: Int[Tensor, "example column"]) -> Int[Tensor, "row slot"]:
        """Of queries side by side; -1 where there is none."""
        padded = positions.new_full((len(self), self.n_slots), -1)
        padded[self.row, self.slot] = self.of_tokens(positions)
        return padded

    def over(
        self, recorded: Float[Tensor, "example column *rest"], new: Float[Tensor, "token 1 *rest"]
    ) -> Float[Tensor, "row column *rest"]:
        """The recorded values of each row's whole text, with the new ones in their places."""
        whole = recorded[self.example]
        whole[self.row, self.column] = new[:, 0]
        return whole
