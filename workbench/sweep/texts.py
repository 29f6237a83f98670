"""The texts of a sweep, and its result."""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor

from ..errors import InputError, KindError
from ..hooked import HookedTransformer
from ..inputs import Text, TextLike, read_text
from ..metrics import Labels
from ..sweep_result import SweepResult, Work
from .grid import Grid
from .ways import Swept


def read_one(model: HookedTransformer, given: TextLike, attention_mask: Tensor | None = None) -> Text:
    return read_text(given, model.spec, model.tokenizer, model.device, attention_mask)


def checked_model(model: object) -> HookedTransformer:
    if not isinstance(model, HookedTransformer):
        raise KindError(f"a sweep is over a model that wb.load or HookedTransformer gives, not {type(model).__name__}")
    return model


def read_pair(
    model: HookedTransformer, clean: TextLike, corrupted: TextLike, attention_mask: Tensor | None
) -> tuple[Text, Text]:
    """Both, which fit each other."""
    ours, theirs = read_one(model, clean, attention_mask), read_one(model, corrupted, attention_mask)
    if len(ours.tokens) != len(theirs.tokens):
        raise InputError(f"clean has {len(ours.tokens)} texts and corrupted {len(theirs.tokens)}; pairs are wanted")
    lengths = [(text.positions >= 0).sum(1).tolist() for text in (ours, theirs)]
    for pair, (a, b) in enumerate(zip(*lengths, strict=True)):
        if a != b:
            raise InputError(
                f"pair {pair} has {a} tokens in clean and {b} in corrupted; patching wants pairs of equal length"
            )
    if ours.positions.shape != theirs.positions.shape or not torch.equal(ours.positions, theirs.positions):
        raise InputError("clean and corrupted are padded differently; tokens that stand at the same place are wanted")
    return ours, theirs


def ids_of(text: Text) -> Int[Tensor, "example column"]:
    """Its tokens, -1 where there is none."""
    return text.tokens.masked_fill(text.positions < 0, -1).cpu()


def result_of(
    model: HookedTransformer,
    text: Text,
    against: Text | None,
    grid: Grid,
    labels: Labels,
    done: Swept,
    clean: Tensor,
    corrupted: Tensor,
    direction: str,
) -> SweepResult:
    """Of the clean text, and the corrupted one where there is one."""
    return SweepResult(
        values=done.values.t().reshape(-1, *grid.shape),
        axes=grid.axes,
        labels=grid.labels,
        places=grid.places,
        clean=clean,
        corrupted=corrupted,
        site=grid.site,
        direction=direction,
        unchanged=done.unchanged.reshape(grid.shape),
        work=Work(done.computed, grid.n_cells * text.tokens.numel() * model.spec.n_layers),
        clean_tokens=ids_of(text),
        corrupted_tokens=None if against is None else ids_of(against),
        label_positions=torch.stack(list(labels.values()), 1) if labels else None,
    )
