"""Other libraries' ways of patching one run with another's values, as their users write them.

Each keeps the clean run's values at a site (`record`) and then runs the model for the cells of a sweep (`values`).
Weights are the file's: TransformerBridge folds and centres nothing unless it is asked to, nor does nnsight.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

Cell = tuple[int, ...]  # layer, then position or head, or both
Measure = Callable[[Tensor], Tensor]  # logits [example, pos, vocab] to [example]


class Peer(ABC):
    name: str

    @abstractmethod
    def record(self, clean: Tensor) -> Any:
        """What tokens [example, pos] have at the site, in every layer."""

    @abstractmethod
    def values(self, corrupted: Tensor, recorded: Any, measure: Measure, cells: Sequence[Cell]) -> Tensor:
        """The metric [cell, example] with each cell patched."""

    def drawn(self, cells: Sequence[Cell], n: int, chance: random.Random) -> list[Cell]:
        """n of the cells, in order; all where there are no more."""
        return sorted(chance.sample(cells, min(n, len(cells))))


class OwnLoop(Peer):
    """transformer_lens.patching: for each cell a run of the whole batch, with one hook."""

    def __init__(self, bridge: Any, patch: partial[Any]):
        """patch: one of its functions get_act_patch_..., which are partial applications of one loop."""
        self.name = f"TransformerLens {version('transformer-lens')}, its own loop"
        self.bridge, self.patch = bridge, patch
        self.site, self.axes = patch.keywords["activation_name"], patch.keywords["index_axis_names"]

    def record(self, clean: Tensor) -> Any:
        return recorded_by_bridge(self.bridge, clean, self.site)

    def values(self, corrupted: Tensor, recorded: Any, measure: Measure, cells: Sequence[Cell]) -> Tensor:
        index = pd.DataFrame(cells, columns=self.axes)
        cells_only = {"index_axis_names": None, "index_df": index, "reduce": "none"}
        return self.patch(self.bridge, corrupted, recorded, measure, **cells_only).values


class HandBatched(Peer):
    """The positions of a layer as rows of one batch, each patched at its own: the stream by layer and position."""

    def __init__(self, bridge: Any):
        self.name = f"TransformerLens {version('transformer-lens')}, a layer's positions a batch"
        self.bridge = bridge

    def record(self, clean: Tensor) -> Any:
        return recorded_by_bridge(self.bridge, clean, "resid_pre")

    def values(self, corrupted: Tensor, recorded: Any, measure: Measure, cells: Sequence[Cell]) -> Tensor:
        values = []
        for layer, of_layer in groupby(cells, key=lambda cell: cell[0]):
            positions = [pos for _, pos in of_layer]
            name = f"blocks.{layer}.hook_resid_pre"
            hook = partial(put_at, positions=positions, new=recorded[name][:, positions].transpose(0, 1))
            logits = self.bridge.run_with_hooks(corrupted.repeat(len(positions), 1), fwd_hooks=[(name, hook)])
            values += [measure(of_cell) for of_cell in logits.unflatten(0, (len(positions), -1))]
        return torch.stack(values)

    def drawn(self, cells: Sequence[Cell], n: int, chance: random.Random) -> list[Cell]:
        """Of n whole layers."""
        layers = sorted({layer for layer, _ in cells})
        layers = chance.sample(layers, min(n, len(layers)))
        return [cell for cell in cells if cell[0] in layers]


class Traces(Peer):
    """nnsight: for each cell a trace, in which the stream is written and the logits are read."""

    def __init__(self, folder: Path, device: str, dtype: torch.dtype):
        from nnsight.modeling.transformers import TransformersModel
        from transformers import AutoModelForCausalLM, AutoTokenizer

        self.name = f"nnsight {version('nnsight')}, a trace a cell"
        weights: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
        tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model: Any = TransformersModel(weights.to(device).eval(), task="text-generation", tokenizer=tokenizer)

    def record(self, clean: Tensor) -> Any:
        model, streams = self.model, []
        with model.trace(clean):
            for layer in model.model.layers:
                streams.append(layer.input.clone().save())
        return streams

    def values(self, corrupted: Tensor, recorded: Any, measure: Measure, cells: Sequence[Cell]) -> Tensor:
        model, values = self.model, []
        for layer, pos in cells:
            with model.trace(corrupted):
                model.model.layers[layer].input[:, pos] = recorded[layer][:, pos]
                values.append(measure(model.lm_head.output).save())
        return torch.stack(values)


def bridge(folder: Path, device: str, dtype: torch.dtype) -> Any:
    """TransformerLens' model from a folder, without a hub; eager attention, as it always has. Its bars are silenced."""
    from transformer_lens import patching
    from transformer_lens.model_bridge import TransformerBridge

    patching.tqdm = lambda cells: cells
    return TransformerBridge.boot_transformers(str(folder), device=device, dtype=dtype)


def recorded_by_bridge(bridge: Any, clean: Tensor, site: str) -> Any:
    return bridge.run_with_cache(clean, names_filter=lambda name: name.endswith(f"hook_{site}"))[1]


def put_at(value: Tensor, hook: Any, positions: list[int], new: Tensor) -> Tensor:
    """value: [cell x example, pos, d_model], where each cell gets new [cell, example, d_model] at its position."""
    by_cell = value.unflatten(0, (len(positions), -1))
    by_cell[torch.arange(len(positions)), :, positions] = new
    return value
