"""The parts of a metric: what each component, head or neuron wrote at the row that is read, along the direction of
the metric.

Writes are taken in the order in which they were added to the stream, so that parts stand in order of depth and nothing
is left out. Inside a write that is split each bias is a part of its own. Where a hook stands on a value that is
otherwise a sum (a stream, or the output of what is split), what it put there is one as well.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple, TypeAlias

from einops import einsum
from jaxtyping import Float
from torch import Tensor

from ..decompose import expert_outputs
from ..model.moe import MixtureOfExperts
from ..model.norms import Norm
from ..sites import Site
from ..spec import Component
from .readout import Direction, Each, Readout, along


class Parts(NamedTuple):
    """Some parts of one kind and layer; None outside the layers."""

    kind: str
    layer: int | None
    labels: list[str]
    values: Float[Tensor, "example part"]


Split: TypeAlias = Callable[[Readout, int, Direction], Iterator[Parts]]


def parts_of(readout: Readout, splits: dict[str, Split], layers: Collection[int]) -> Iterator[Parts]:
    """splits: what takes apart which write ("attn_out", "mlp_out") of these layers; all others stay whole."""
    model, stream = readout.model, 0.0
    written = {*model.embedding.sites, *model.pos_embedding.sites}
    written |= {site for block in model.blocks for site in block.writes.values()}
    streams = {site for block in model.blocks for site in (*block.streams.values(), block.hook_resid_post)}
    for site in model.sites:
        if site in written:
            of_layer = splits if site.layer in layers else {}
            yield from _written(readout, site, of_layer.get(site.short))
            stream = stream + readout[site]
        elif site in streams:
            if readout.edited([site]):
                yield _part("edit", site.layer, f"{site.short}_edit", along(readout[site] - stream, readout.direction))
            stream = readout[site]
    yield from _end(readout)


def _written(readout: Readout, site: Site, split: Split | None) -> Iterator[Parts]:
    """A write; or what it is made of, each part through the output norm at the run's own scale."""
    whole, layer = along(readout[site], readout.direction), site.layer
    if split is None or layer is None:
        yield _part(site.short, layer, site.short, whole)
        return
    name = "ln1_post" if site.short == "attn_out" else "ln2_post"
    norm = getattr(readout.model.blocks[layer], name)
    parts = list(split(readout, layer, readout.before(norm, readout.direction)))
    parts += _bias(layer, f"{name}_bias", norm, readout.direction)
    yield from parts
    if readout.edited([*_behind_scale(norm), site]):
        yield _part("edit", layer, f"{site.short}_edit", whole - _sum(parts))


def _end(readout: Readout) -> Iterator[Parts]:
    """What comes after the last stream."""
    model, direction = readout.model, readout.output_direction
    bias = list(_bias(None, "ln_final_bias", model.ln_final, direction))
    yield from bias
    if readout.edited(_behind_scale(model.ln_final)):
        stream = along(readout[model.blocks[-1].hook_resid_post], readout.direction)
        yield _part("edit", None, "ln_final_edit", along(readout.output, direction) - stream - _sum(bias))
    if model.unembedding.bias is not None:
        yield _part("bias", None, "unembed_bias", readout.unembed_bias)


def by_head(readout: Readout, layer: int, direction: Direction) -> Iterator[Parts]:
    """L0H0, L0H1, ...: z W_O, the biases of values in it; and b_O."""
    attn = readout.model.blocks[layer].attn
    onto = einsum(direction, attn.W_O.to(direction), "example d_model, head d_head d_model -> example head d_head")
    yield _units("head", layer, (readout[attn.hook_z] * onto).sum(-1))
    yield from _bias(layer, "b_O", attn.o, direction)


def by_neuron(readout: Readout, layer: int, direction: Direction) -> Iterator[Parts]:
    """L0N0, L0N1, ...: each neuron's activation times what its row of W_out adds, so that what neurons write is never
    made; and b_out. Of a mixture it is the experts, L0E0, L0E1, ..., and what shared ones add."""
    mlp = readout.model.blocks[layer].mlp
    if isinstance(mlp, MixtureOfExperts):
        outputs = expert_outputs(readout.cache, layer)[:, 0]
        yield _units("expert", layer, along(outputs, direction[:, None]))
        for site in mlp.shared.sites:
            yield _part("shared_out", layer, "shared_out", along(readout[site], direction))
        return
    onto = einsum(direction, mlp.W_out.to(direction), "example d_model, d_mlp d_model -> example d_mlp")
    yield _units("neuron", layer, readout[mlp.hook_post] * onto)
    yield from _bias(layer, "b_out", mlp.out, direction)


def _units(kind: str, layer: int, values: Float[Tensor, "example unit"]) -> Parts:
    return Parts(kind, layer, [f"L{layer}{kind[0].upper()}{unit}" for unit in range(values.shape[1])], values)


def _part(kind: str, layer: int | None, name: str, value: Each) -> Parts:
    return Parts(kind, layer, [name if layer is None else f"{layer}_{name}"], value[:, None])


def _bias(layer: int | None, name: str, of: object, direction: Direction) -> Iterator[Parts]:
    """The bias of a norm or a projection, where it has one."""
    if (bias := getattr(of, "bias", None)) is not None:
        yield _part("bias", layer, name, along(bias, direction))


def _behind_scale(norm: Component) -> list[Site]:
    """Where an edit of a norm is not one of its scale, which is taken as it was in the run."""
    return [norm.hook_normalized, norm.hook_out] if isinstance(norm, Norm) else []


def _sum(parts: list[Parts]) -> Each | float:
    return sum((some.values.sum(1) for some in parts), 0.0)
