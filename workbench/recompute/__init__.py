"""The engine: of a run in which something is changed, only what the change reaches.

Why it is exact. Norms, projections, feed-forwards, experts and logits act on one token at a time, and attention looks
back and never ahead. So a change at layer l and column p of a text leaves every value of earlier layers, and every
value of earlier columns, as it was; and a metric that reads column m cannot tell what happens after m. What is left is
the block of layers from l on and columns p to m, the cone, where attention finds the keys of columns before p as they
were recorded. That holds whatever is changed, as long as it is written down beforehand what stands there afterwards
(`Change`) and a changed pattern weighs no column ahead of its query.

How it goes. One run is recorded (`record`). Each cell, which is a change to try, makes a row of every example that it
changes at all; rows of many cells are packed (`rows`) and go through the layers together (`cone`), each joining at the
layer of its change, from the recorded stream there. In the last layer only the columns that are read need more than
keys and values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..model.transformer import Transformer
from .changes import Change
from .cone import ConePass
from .record import Recorded, declared, record
from .rows import Rows

__all__ = ["Batch", "Change", "ConePass", "Recorded", "Rows", "declared", "recompute", "record"]


@dataclass(frozen=True)
class Batch:
    """Cells that go through the model together.

    changes: what they change, by the name of the site.
    layer:   [cell example] where a cell's first change to an example lies: -1 at the embedding, n_layers at the end.
    first:   [cell example] the first column that it changes; behind all where it changes nothing.
    """

    changes: Mapping[str, Change]
    layer: Int[Tensor, "cell example"]
    first: Int[Tensor, "cell example"]


@torch.no_grad()
def recompute(
    model: Transformer, recorded: Recorded, batch: Batch, read: Bool[Tensor, "example column"]
) -> tuple[Float[Tensor, "token 1 d_model"], Rows, int]:
    """The last stream of what the cells of a batch reach, at the columns that are read; which rows that is of; and how
    many tokens went through how many layers for it."""
    work, n_layers = 0, len(model.blocks)
    last = torch.where(read, torch.arange(recorded.n_columns, device=read.device), -1).amax(1)
    rows = _joining(recorded, batch, -1, last)
    x = model.embed(rows.of_tokens(recorded.text.tokens)[:, None], ConePass(recorded, rows, batch.changes))
    for layer, stream in enumerate(recorded.streams):
        if len(joining := _joining(recorded, batch, layer, last)):
            x, rows = torch.cat([x, joining.of_tokens(stream)[:, None]]), rows.and_(joining)
        if layer < n_layers and len(rows):
            at = ConePass(recorded, rows, batch.changes, read if layer == n_layers - 1 else None)
            x = model.blocks[layer](x, at)
            rows = at.rows  # of the last layer, those that went on
            work += rows.n_tokens
    return x, rows, work


def _joining(recorded: Recorded, batch: Batch, layer: int, last: Int[Tensor, " example"]) -> Rows:
    """The rows whose first change lies there."""
    cell, example = ((batch.layer == layer) & (batch.first <= last)).nonzero(as_tuple=True)
    column = torch.arange(recorded.n_columns, device=last.device)
    reached = (column >= batch.first[cell, example][:, None]) & (column <= last[example][:, None])
    return Rows.reached(cell, example, reached & recorded.real[example])
