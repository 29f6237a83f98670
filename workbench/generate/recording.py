"""Keeping values while tokens are generated, step by step, so that no second forward is needed."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn import functional as F

from ..cache import ActivationCache
from ..inputs import Text
from ..model.pass_ import Attended, Pass
from ..model.transformer import Transformer
from ..recorder import LOOKED_AT, position_axis, refuse_too_large
from ..sites import Site


class StepRecorder:
    """Copies the value at each wanted site in every pass, and puts the passes together when all are over."""

    def __init__(self, wanted: Sequence[Site], device: torch.device):
        self.wanted = {site.name: site for site in wanted}
        self.device = device
        self._values: dict[str, list[Tensor]] = {}
        self._attended: dict[int, list[Attended]] = {}

    def refuse_too_large(self, text: Text, n_new: int, dtype: torch.dtype) -> None:
        """TooLargeError, before anything runs, for a cache that would not fit into free memory."""
        batch, n_pos = text.tokens.shape
        refuse_too_large(list(self.wanted.values()), batch, n_pos + n_new - 1, dtype.itemsize, self.device)

    @property
    def looked_at(self) -> list[Site]:
        """Sites that are kept as queries and keys and computed when somebody looks."""
        return [site for site in self.wanted.values() if site.name.endswith(LOOKED_AT)]

    def keep(self, site: Site, value: Tensor) -> Tensor:
        if site.name in self.wanted:
            kept = value.to(self.device, copy=True, memory_format=torch.contiguous_format)
            self._values.setdefault(site.name, []).append(kept)
        return value

    def needs(self, site: Site) -> bool:
        return False

    def after(self, at: Pass) -> None:
        """Once a pass is over: what its attention was made of."""
        for layer in {site.layer for site in self.looked_at if site.layer is not None}:
            self._attended.setdefault(layer, []).append(at.attended[layer])

    def cache(self, model: Transformer, positions: Int[Tensor, "batch pos"]) -> ActivationCache:
        """What was kept, of these positions."""
        looked = {
            site.name: self._joined(site.layer)
            for site in self.looked_at
            if site.layer is not None and site.name not in self._values
        }
        values = {name: self._whole(name, parts) for name, parts in self._values.items()}
        return ActivationCache(values, list(self.wanted.values()), positions.to(self.device), model, looked)

    def _joined(self, layer: int) -> Attended:
        first, *steps = self._attended[layer]
        return first.then(steps).to(self.device)

    def _whole(self, name: str, parts: list[Tensor]) -> Tensor:
        site = self.wanted[name]
        if "key" in site.axes:  # a step's row has as many keys as there were; those ahead of it are 0, or -inf
            fill = 0.0 if name.endswith("hook_pattern") else float("-inf")
            n_keys = parts[-1].shape[-1]
            parts = [F.pad(part, (0, n_keys - part.shape[-1]), value=fill) for part in parts]
        return torch.cat(parts, position_axis(site))
