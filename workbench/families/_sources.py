"""Where a parameter lies in a published file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
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
    stack:  further tensors of the same layout, which stand behind the first along a new axis in front.
    """

    name: str
    view: Callable[[Tensor], Tensor] = as_it_is
    equal_parts: int = 1
    cut: int = -1
    of_head: bool = False  # beside the backbone, so never under its prefix
    copied: bool = False
    stack: tuple[str, ...] = ()

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


def stacked(names: Iterable[str], view: Callable[[Tensor], Tensor] = as_it_is) -> Source:
    """Tensors of one shape as a single parameter with an axis in front: a copy."""
    first, *others = names
    return Source(first, view, stack=tuple(others), copied=True)


def in_out(tensor: Tensor) -> Tensor:
    """Weights of experts [expert, out, in], laid out as a product over all of them reads them."""
    return tensor.mT.contiguous()


def in_layers(n_layers: int, their_layers: str, names: Mapping[str, str], fields: str = "weight bias") -> Sources:
    """`blocks.3.attn.q.weight` and its like: ours to the file's name within a layer, in every layer."""
    return {
        f"blocks.{layer}.{ours}.{field}": Source(f"{their_layers}.{layer}.{theirs}.{field}")
        for layer in range(n_layers)
        for ours, theirs in names.items()
        for field in fields.split()
    }


def gated_experts(ours: str, n_experts: int, *, each: str, together: str, names: Mapping[str, str]) -> Sources:
    """The gated experts of one layer, wherever they lie; none where the layer is dense.

    ours:     our prefix, e.g. "blocks.3.mlp.experts".
    each:     prefix of experts that lie one by one, as in files; names are those within one, e.g. gate: "gate_proj".
    together: prefix of tensors that hold all experts: gate and linear branch fused, as in transformers' memory since
              its release 5, or a tensor for each, as in GGUF.
    """
    if not n_experts:
        return {}
    fused = f"{together}.gate_up_proj"
    memory = {
        "gate": Source(fused, partial(_half, index=0), copied=True),
        "in_": Source(fused, partial(_half, index=1), copied=True),
        "out": Source(f"{together}.down_proj", in_out, copied=True),
    }
    found: Sources = {}
    for name, theirs in names.items():
        alone = stacked((f"{each}.{index}.{theirs}.weight" for index in range(n_experts)), Tensor.t)
        apart = Source(f"{together}.{_BRANCHES[name]}.weight", in_out, copied=True)
        found[f"{ours}.{name}.weight"] = (alone, memory[name], apart)
    return found


_BRANCHES = {"gate": "gate_proj", "in_": "up_proj", "out": "down_proj"}


def _half(tensor: Tensor, index: int) -> Tensor:
    return in_out(tensor.chunk(2, dim=1)[index])
