"""The door of every run: text or tokens in, checked ids with positions out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
from jaxtyping import Int
from torch import Tensor

from .errors import InputError, KindError
from .spec import ModelSpec
from .tokenizer import Tokenizer, pad_left

TextLike: TypeAlias = str | Sequence[str] | Tensor


@dataclass(frozen=True)
class Rows:
    """Where the rows of a run stand.

    positions: [batch, pos] counted over real tokens, -1 where there is none.
    padded:    whether any position is -1.
    """

    positions: Int[Tensor, "batch pos"]
    padded: bool


@dataclass(frozen=True)
class Text(Rows):
    """What a run reads: token ids [batch, pos] and where they stand."""

    tokens: Int[Tensor, "batch pos"]


def read_text(
    given: TextLike,
    spec: ModelSpec,
    tokenizer: Tokenizer | None,
    device: torch.device,
    attention_mask: Tensor | None = None,
    prepend_bos: bool | None = None,
) -> Text:
    """Ids and positions of a text, a list of texts (padded left) or an int tensor [pos] or [batch, pos].

    attention_mask: with tokens only; 1 where there is a token, [pos] or [batch, pos]. Padding may lie on either
    side. Raises InputError or KindError in one sentence.
    """
    if isinstance(given, Tensor):
        if prepend_bos is not None:
            raise InputError("prepend_bos is for text; these are tokens already, so put the BOS among them yourself")
        tokens = _checked_tokens(given, spec)
        mask = _checked_mask(attention_mask, given.shape)
    else:
        if attention_mask is not None:
            raise InputError("attention_mask is for tokens; the padding of text is known, leave the mask out")
        tokens, mask = _encode(given, tokenizer, prepend_bos)
        tokens = _checked_tokens(tokens, spec)
    placed = _placed(mask, tokens.shape, device, spec)
    return Text(placed.positions, placed.padded, tokens.to(device))


def read_stream(resid: Tensor, spec: ModelSpec, dtype: torch.dtype, attention_mask: Tensor | None = None) -> Rows:
    """Positions of a recorded stream [batch, pos, d_model] that a run resumes from."""
    if not isinstance(resid, Tensor) or resid.ndim != 3 or resid.shape[-1] != spec.d_model or not resid.numel():
        came = list(resid.shape) if isinstance(resid, Tensor) else type(resid).__name__
        raise InputError(f"a stream [batch, pos, {spec.d_model}] is wanted to resume from; {came} came")
    if resid.dtype != dtype:
        raise InputError(f"the stream to resume from is {resid.dtype} and the model {dtype}")
    return _placed(_checked_mask(attention_mask, resid.shape[:2]), resid.shape[:2], resid.device, spec)


def _placed(mask: Tensor | None, shape: tuple[int, ...], device: torch.device, spec: ModelSpec) -> Rows:
    mask = torch.ones(shape, dtype=torch.bool) if mask is None else mask.cpu()
    lengths = mask.sum(1)
    if int(lengths.min()) == 0:
        raise InputError(f"row {int(lengths.argmin())} of the attention mask holds no token; a row has at least one")
    if (longest := int(lengths.max())) > spec.n_ctx:
        raise InputError(f"the text has {longest} tokens; this model's context is {spec.n_ctx}")
    positions = torch.where(mask, mask.long().cumsum(1) - 1, -1)
    return Rows(positions.to(device), padded=not bool(mask.all()))


def _encode(
    given: str | Sequence[str], tokenizer: Tokenizer | None, prepend_bos: bool | None
) -> tuple[Tensor, Tensor | None]:
    texts = [given] if isinstance(given, str) else list(given) if isinstance(given, Sequence) else None
    if texts is None or not all(isinstance(text, str) for text in texts):
        raise KindError(
            "a text, a list of texts or an int tensor [pos] or [batch, pos] is wanted, not "
            + (f"{type(given).__name__}" if texts is None else f"a list holding {type(texts[0]).__name__}")
        )
    if tokenizer is None:
        raise InputError("this model has no tokenizer, so it takes an int tensor of token ids and not text")
    rows = [tokenizer.encode(text, prepend_bos) for text in texts]
    if not rows:
        raise InputError("an empty list of texts came; at least one text is wanted")
    for text, row in zip(texts, rows, strict=True):
        if not row:
            raise InputError(f"the prompt {text!r} has no tokens; a run needs at least one")
    tokens, mask = pad_left(rows)
    return tokens, None if bool(mask.all()) else mask


def _checked_tokens(tokens: Tensor, spec: ModelSpec) -> Tensor:
    if tokens.dtype not in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8):
        raise KindError(f"token ids are integers; a tensor of {tokens.dtype} came")
    if tokens.ndim not in (1, 2):
        raise InputError(f"tokens are [pos] or [batch, pos]; a tensor of shape {list(tokens.shape)} came")
    if tokens.numel() == 0:
        raise InputError(f"an empty prompt came (tokens of shape {list(tokens.shape)}); at least one token is wanted")
    tokens = tokens.long().reshape(-1, tokens.shape[-1])
    lowest, highest = tokens.aminmax()
    if lowest < 0 or highest >= spec.vocab_size:
        wrong = int(lowest) if lowest < 0 else int(highest)
        raise InputError(f"token id {wrong} is out of range; this model's vocabulary is 0 to {spec.vocab_size - 1}")
    return tokens


def _checked_mask(mask: Tensor | None, shape: torch.Size) -> Tensor | None:
    if mask is None:
        return None
    if not isinstance(mask, Tensor) or mask.shape != shape:
        came = list(mask.shape) if isinstance(mask, Tensor) else type(mask).__name__
        raise InputError(f"attention_mask is {came}; the shape {list(shape)} is wanted")
    if not bool(((mask == 0) | (mask == 1)).all()):
        raise InputError("attention_mask holds values other than 0 and 1")
    return mask.bool().reshape(-1, mask.shape[-1])
