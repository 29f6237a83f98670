"""Keeping values during a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import torch
from jaxtyping import Int
from torch import Tensor

from .cache import ActivationCache
from .decompose import as_index
from .errors import InputError, TooLargeError
from .inputs import Text
from .model.pass_ import Attended
from .model.transformer import Transformer
from .sites import Site
from .sizes import free_memory, size_text, usable_device

PosSlice: TypeAlias = int | slice | Sequence[int] | Tensor | None
LOOKED_AT = ("hook_attn_scores", "hook_pattern")


class CacheRecorder:
    """Keeps a copy of the value at each wanted site.

    Where gradients are wanted the run goes on with the kept tensor itself, so that it lies on the path from the
    embedding to the logits and `torch.autograd.grad(metric, cache[name])` is the run's own gradient.

    rows: the positions to keep, as indices along pos (or query); None for all.
    """

    def __init__(
        self, wanted: Sequence[Site], text: Text, pos_slice: PosSlice, device: torch.device | str | None, grad: bool
    ):
        self.wanted = {site.name: site for site in wanted}
        self.text = text
        self.rows = position_index(pos_slice, text.tokens.shape[1])
        if self.rows is not None:
            self.rows = self.rows.to(text.tokens.device)
        self.device = text.tokens.device if device is None else usable_device(device)
        self.grad = grad
        self._values: dict[str, Tensor] = {}
        if grad and torch.is_inference_mode_enabled():
            raise InputError("grad=True was asked for inside torch.inference_mode(), which keeps no graph")
        if grad and self.device != text.tokens.device:
            raise InputError("grad=True keeps the run's own tensors, which cannot be moved; leave device out")
        if grad and self.rows is not None and len(self.rows.unique()) < len(self.rows):
            raise InputError(
                f"pos_slice {pos_slice!r} names a position twice; its gradient would be split between them"
            )

    def keep(self, site: Site, value: Tensor) -> Tensor:
        if site.name not in self.wanted:
            return value
        kept = self._values[site.name] = self._copy(site, value)
        if not self.grad:
            return value
        return kept if self.rows is None else value.index_copy(position_axis(site), self.rows, kept)

    def needs(self, site: Site) -> bool:
        return self.grad and site.name in self.wanted

    def _copy(self, site: Site, value: Tensor) -> Tensor:
        if self.rows is not None:
            return value.index_select(position_axis(site), self.rows).to(self.device)
        return value.to(self.device, copy=True, memory_format=torch.contiguous_format)

    def cache(self, model: Transformer, attended: Mapping[int, Attended]) -> ActivationCache:
        """What was kept, once the run is over."""
        looked = {
            site.name: attended[site.layer].of_queries(self.rows).to(self.device)
            for site in self.wanted.values()
            if site.name not in self._values and site.layer is not None and site.name.endswith(LOOKED_AT)
        }
        positions = self.text.positions if self.rows is None else self.text.positions[:, self.rows]
        return ActivationCache(self._values, list(self.wanted.values()), positions.to(self.device), model, looked)

    def refuse_too_large(self, dtype: torch.dtype) -> None:
        """TooLargeError, before anything runs, for a cache that would not fit into free memory."""
        batch, n_keys = self.text.tokens.shape
        n_pos = n_keys if self.rows is None else len(self.rows)
        refuse_too_large(
            list(self.wanted.values()), batch, n_pos, dtype.itemsize, self.device, n_keys if self.grad else None
        )


def cache_bytes(sites: Sequence[Site], batch: int, pos: int, itemsize: int, n_keys: int | None = None) -> int:
    """What a cache of these sites takes. Scores and pattern of a layer share the queries and keys they are kept as;
    n_keys reckons them written out instead, head x key for each position, as a run with gradients keeps them."""
    per_token: dict[object, int] = {}
    for site in sites:
        if not site.name.endswith(LOOKED_AT):
            per_token[site.name] = site.width * (max(itemsize, 4) if site.exact else itemsize)
        elif n_keys is None:
            per_token[site.layer, "queries and keys"] = site.width * itemsize
        else:
            per_token[site.name] = (site.sizes[site.axes.index("head")] or 1) * n_keys * itemsize
    return batch * pos * sum(per_token.values())


def refuse_too_large(
    sites: Sequence[Site], batch: int, pos: int, itemsize: int, device: torch.device, n_keys: int | None = None
) -> None:
    """TooLargeError for a cache that would not fit into a device's free memory."""
    size, free = cache_bytes(sites, batch, pos, itemsize, n_keys), free_memory(device)
    if size > free:
        raise TooLargeError(
            f"a cache of {len(sites)} sites for {batch} x {pos} tokens takes "
            f"{size_text(size)} and {size_text(free)} are free; ask for fewer sites with names_filter= "
            f"(say 'resid_pre'), fewer positions, or another device="
        )


def position_index(pos_slice: PosSlice, n_pos: int) -> Int[Tensor, " kept"] | None:
    """The positions that a `pos_slice` keeps; None for all. An int keeps one, and the axis stays."""
    if pos_slice is None:
        return None
    where = as_index(pos_slice)
    kept = range(n_pos)[where] if isinstance(where, slice) else where
    index = torch.as_tensor(list(kept) if isinstance(kept, range) else kept).reshape(-1)
    if index.numel() == 0 or int(index.min()) < -n_pos or int(index.max()) >= n_pos:
        raise InputError(f"pos_slice {pos_slice!r} keeps no position or one outside the text, which has {n_pos}")
    return index % n_pos


def position_axis(site: Site) -> int:
    return next(axis for axis, word in enumerate(site.axes) if word in ("pos", "query"))
