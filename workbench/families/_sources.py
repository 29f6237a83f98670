"""Where a parameter lies in a published file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from torch import Tensor


def as_it_is(tensor: Tensor) -> Tensor:
    return tensor


@dataclass(frozen=True)
class Source:
    """A tensor of the file and the part of it that is the parameter, [out, in] for a projection.

    view returns a view wherever it can: parameters are the file's own memory, not copies.
    equal_parts: into how many the view cuts the file's axis `cut`; one that does not come out even is refused.
    copied: where it cannot be a view, so that it takes memory of its own even from a mapped file.
    """

    name: str
    view: Callable[[Tensor], Tensor] = as_it_is
    equal_parts: int = 1
    cut: int = -1
    of_head: bool = False  # beside the backbone, so never under its prefix
    copied: bool = False

    def split_unevenly(self, shape: tuple[int, ...]) -> bool:
        """Whether the file's axis cannot be cut into the equal parts that this source expects."""
        return bool(shape) and shape[self.cut] % self.equal_parts != 0


Sources: TypeAlias = dict[str, Source | tuple[Source, ...]]


def transposed(name: str) -> Source:
    """A projection that the file keeps [in, out]."""
    return Source(name, lambda tensor: tensor.t())


def part(name: str, index: int, of: int) -> Source:
    """One of several equal parts that the file keeps side by side along the last axis, e.g. k of a fused q, k, v."""
    return Source(name, lambda tensor: tensor.chunk(of, dim=-1)[index].t(), of)


def rows(name: str, *sizes: int, index: int) -> Source:
    """One of several parts that the file keeps below each other, with these numbers of rows."""
    return Source(name, lambda tensor: tensor.split(list(sizes))[index])


def in_layers(n_layers: int, their_layers: str, names: Mapping[str, str], fields: str = "weight bias") -> Sources:
    """`blocks.3.attn.q.weight` and its like: ours to the file's name within a layer, in every layer."""
    return {
        f"blocks.{layer}.{ours}.{field}": Source(f"{their_layers}.{layer}.{theirs}.{field}")
        for layer in range(n_layers)
        for ours, theirs in names.items()
        for field in fields.split()
    }


def expert(
    name: str, index: int, of: int, view: Callable[[Tensor], Tensor] = as_it_is, *, copied: bool = False
) -> Source:
    """One expert's part of a tensor that holds all of them, [expert, ...]."""
    return Source(name, lambda tensor: view(tensor.unflatten(0, (of,))[index]), copied=copied)


def gated_experts(ours: str, n_experts: int, *, each: str, together: str, names: Mapping[str, str]) -> Sources:
    """The gated experts of one layer, wherever they lie.

    ours:     our prefix, e.g. "blocks.3.mlp.experts".
    each:     prefix of experts that lie one by one, as in files; names are those within one, e.g. gate: "gate_proj".
    together: prefix of tensors that hold all experts: gate and linear branch fused, as in transformers' memory since
              its release 5, or a tensor for each, as in GGUF.
    """
    fused, halves = f"{together}.gate_up_proj", {"gate": 0, "in_": 1}
    found: Sources = {}
    for index in range(n_experts):
        for name, theirs in names.items():
            alone = Source(f"{each}.{index}.{theirs}.weight")
            stacked = expert(f"{together}.{_BRANCHES[name]}.weight", index, n_experts)
            if name in halves:
                memory = expert(fused, index, n_experts, partial(_half, index=halves[name]))
            else:
                memory = expert(f"{together}.down_proj", index, n_experts)
            found[f"{ours}.{index}.{name}.weight"] = (alone, memory, stacked)
    return found


_BRANCHES = {"gate": "gate_proj", "in_": "up_proj", "out": "down_proj"}


def _half(tensor: Tensor, index: int) -> Tensor:
    return tensor.chunk(2)[index]
