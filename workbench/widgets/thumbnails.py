"""Every head as a small picture, and its scores, from one look at each layer.

A thumbnail is the pattern with each block of cells replaced by its largest: an average would fade an induction stripe
of 1.0 at 1024 tokens to 0.05, and every n-th cell would miss it. Coded as one byte, the square root.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor
from torch.nn import functional as F

from ..heads import Scorer
from .patterns import Patterns

SIDES = (48, 32, 24, 16)  # cells of a thumbnail's side: fewer where there are many heads
BUDGET = 3_000_000  # bytes of all thumbnails together


@dataclass(frozen=True)
class Thumbnails:
    """pixels: [head of all layers, row, column], the heads layer by layer; side: cells of each side.
    scores: {kind: [head of all layers]}."""

    pixels: UInt8[np.ndarray, "head row column"]
    side: int
    half: bool
    scores: dict[str, list[float]]

    def to_bytes(self, heads: Sequence[int]) -> bytes:
        """Of these, head by head, row by row; of causal patterns the half that can be non-zero."""
        pixels = self.pixels[list(heads)]
        if not self.half:
            return pixels.tobytes()
        rows, columns = np.tril_indices(self.side)
        return pixels[:, rows, columns].tobytes()


def side_of(n_tokens: int, n_heads: int) -> tuple[int, int]:
    """Cells of a thumbnail's side, and of the pattern in each of them, for so many heads."""
    most = next((side for side in SIDES if n_heads * side * side <= BUDGET), SIDES[-1])
    block = math.ceil(n_tokens / most)
    return math.ceil(n_tokens / block), block


@torch.no_grad()
def thumbnails(
    patterns: Patterns, heads: Sequence[tuple[int, int]], scorer: Scorer | None, against: Patterns | None
) -> Thumbnails:
    """Of these (layer, head), in order of layers. `difference` is among the scores where there is a second run."""
    side, block = side_of(len(patterns.tokens), len(heads))
    pixels, scores, half = [], [], True
    for layer in dict.fromkeys(layer for layer, _ in heads):
        chosen = torch.tensor([head for at, head in heads if at == layer])
        pooled, found = _of_layer(patterns, layer, side, block, scorer, against)
        pixels.append(pooled[chosen])
        scores.append(found[:, chosen])
        half = half and not pooled[chosen].triu(1).any()
    coded = (torch.cat(pixels).clamp(0, 1).sqrt() * 255).round().to(torch.uint8).numpy()
    kinds = (*(scorer.kinds if scorer else ()), *(("difference",) if against else ()))
    table = torch.cat(scores, 1).tolist() if kinds else []
    return Thumbnails(coded, side, half, dict(zip(kinds, table, strict=True)))


def _of_layer(
    patterns: Patterns, layer: int, side: int, block: int, scorer: Scorer | None, against: Patterns | None
) -> tuple[Float[Tensor, "head row column"], Float[Tensor, "kind head"]]:
    pooled = torch.zeros(patterns.n_heads[layer], side, side)
    sums = torch.zeros(len(scorer.kinds) if scorer else 0, patterns.n_heads[layer])
    moved = torch.zeros(int(against is not None), patterns.n_heads[layer])
    for start, rows in patterns.blocks(layer, block):
        small = pool(rows, block)
        at = start // block
        pooled[:, at : at + small.shape[1], : small.shape[2]] = small
        if scorer:
            sums += scorer.of_rows(rows[None], start)
        if against:
            moved += _moved(rows, against.rows(layer, start, start + rows.shape[1])) / len(patterns.tokens)
    return pooled, torch.cat([sums, moved])


def pool(rows: Float[Tensor, "head row key"], block: int) -> Float[Tensor, "head row column"]:
    """The largest of each block x block cells; what is short of a block at the end is one too."""
    tall = _filled(rows.mT, block).mT.unflatten(1, (-1, block)).amax(2)  # rows first: along memory
    return _filled(tall, block).unflatten(2, (-1, block)).amax(3)


def _filled(cells: Float[Tensor, "*rest n"], block: int) -> Float[Tensor, "*rest blocks"]:
    """With zeros up to a whole number of blocks."""
    short = -cells.shape[-1] % block
    return F.pad(cells, (0, short)) if short else cells


def _moved(rows: Float[Tensor, "head row key"], others: Float[Tensor, "head row other"]) -> Float[Tensor, " head"]:
    """Half the absolute difference, summed: of rows that sum to 1, the attention that moved."""
    width = max(rows.shape[2], others.shape[2])
    one, other = (F.pad(each, (0, width - each.shape[2])) for each in (rows, others))
    return (one - other).abs().sum((1, 2)) / 2
