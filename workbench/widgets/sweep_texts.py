"""The texts of a sweep, where it knows them and there is a model: their tokens by name, and the attention on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jaxtyping import Int
from torch import Tensor

from ..figures.patching_map import TOKENS
from ..figures.tokens import visible
from ..hooked import HookedTransformer
from ..sweep_result import SweepResult
from .attention import AttentionDashboard
from .subjects import MAX_TOKENS

TOKEN_BYTES = 16  # of one token's text, about


@dataclass(frozen=True)
class Texts:
    result: SweepResult
    model: HookedTransformer | None

    @property
    def runs(self) -> dict[str, Int[Tensor, "example column"]]:
        """Those that are known, by name."""
        runs = {"clean": self.result.clean_tokens, "corrupted": self.result.corrupted_tokens}
        return {} if self.model is None else {name: ids for name, ids in runs.items() if ids is not None}

    @property
    def named(self) -> bool:
        """Whether tokens name places of the sweep."""
        return "clean" in self.runs and any(axis in TOKENS for axis in self.result.axes)

    @property
    def bytes_of_one(self) -> int:
        """About what the tokens of one pair take on a page."""
        return TOKEN_BYTES * sum(ids.shape[1] for ids in self.runs.values()) if self.named else 0

    def of(self, pair: int) -> dict[str, list[str]]:
        """{"clean": texts, "corrupted": texts} by column, "" for no token; nothing where they name no place."""
        if not self.named:
            return {}
        return {name: [visible(text) if text else "" for text in self._pieces(name, pair)] for name in self.runs}

    def labels(self, pair: int) -> dict[str, tuple[str, ...]]:
        """The labels of the result with the tokens of one pair."""
        if not self.named:
            return self.result.labels
        texts = self._pieces("clean", pair)
        axes = [axis for axis in self.result.axes if axis in TOKENS]
        return self.result.labels | {axis: tuple(texts[int(at)] for at in self.result.places[axis]) for axis in axes}

    def _pieces(self, name: str, pair: int) -> list[str]:
        assert self.model is not None
        return self.model.token_texts(self.runs[name][pair].tolist())

    # ---- attention -------------------------------------------------------------------------------------------------

    def place(self, pair: int, cell: Sequence[int]) -> dict[str, int]:
        """What a cell says of layer, head and query of an attention view."""
        assert self.model is not None
        at = dict(zip(self.result.axes, cell, strict=True))
        found = {name: at[name] for name in ("layer", "head") if name in at}
        if "kv_head" in at:  # the first of the heads that share it
            attn = self.model.blocks[at.get("layer", 0)].attn
            found["head"] = at["kv_head"] * (attn.hook_z.sizes[2] // attn.n_kv_heads)
        column = at.get("pos", at.get("query"))
        if column is not None:
            real = self.runs["clean"][pair] >= 0
            found["query"] = int(real[:column].sum()) if real[column] else -1
        if "label" in at and self.result.label_positions is not None:
            found["query"] = int(self.result.label_positions[pair, at["label"]])
        return found

    def shows(self, attention: AttentionDashboard | None, place: dict[str, int]) -> bool:
        """Whether an attention view has a place among what it shows."""
        return attention is not None and place.get("query", -1) in (-1, *attention.positions)

    def attention(self, pair: int, place: dict[str, int]) -> AttentionDashboard:
        """On the clean text of a pair, beside the corrupted one where there is one; of a long text the part that ends
        with the place's position."""
        assert self.model is not None
        names = ("clean", "corrupted")
        clean, corrupted = (self._without_padding(name, pair) for name in names)
        assert clean is not None
        stop = max(place.get("query", -1) + 1, MAX_TOKENS)
        window = range(stop - MAX_TOKENS, stop) if len(clean) > MAX_TOKENS else None
        chosen: dict[str, Any] = {**place, "positions": window, "names": names}
        return AttentionDashboard(self.model, clean, against=corrupted, **chosen)

    def _without_padding(self, name: str, pair: int) -> Int[Tensor, " pos"] | None:
        ids = self.runs.get(name)
        return None if ids is None else ids[pair][ids[pair] >= 0]
