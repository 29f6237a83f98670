"""What the components of a model count: parameters, those that one token uses, and weights that multiply it.

Everything is counted on the meta device, a layer of each kind once, so that nothing is allocated.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import torch
from torch import nn

from .model.linear import Multiplies
from .model.moe import MixtureOfExpertsSpec
from .sites import Place
from .spec import ComponentSpec, LayerSpec, ModelSpec

# In the order of a pass. Norms are those of the stream; one of queries, keys or latents belongs to its attention.
COMPONENTS: tuple[str, ...] = (
    "embedding",
    "positions",
    "attention",
    "feed_forward",
    "router",
    "experts",
    "shared_experts",
    "norms",
    "unembedding",
)


@dataclass(frozen=True)
class Count:
    """total:       trainable numbers.
    active:      those that one token's pass uses: of experts, as many as each token goes to.
    multiplying: of the active ones, weights that a token's row is multiplied by, a multiply-add each. Gains and biases
                 are none, and neither are the embedding and learned positions, of which a row is looked up; a tied
                 unembedding has no parameters of its own and multiplies.
    """

    total: int = 0
    active: int = 0
    multiplying: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(self.total + other.total, self.active + other.active, self.multiplying + other.multiplying)

    def __mul__(self, times: int) -> Count:
        return Count(self.total * times, self.active * times, self.multiplying * times)


def count_components(spec: ModelSpec) -> dict[str, Count]:
    """The count of each of COMPONENTS; the totals add up to `spec.n_params`."""
    found = dict.fromkeys(COMPONENTS, Count())
    with torch.device("meta"):
        for name, count in [*_around(spec).items(), *_layers(spec)]:
            found[name] += count
    return found


def _around(spec: ModelSpec) -> dict[str, Count]:
    embedding = spec.embed.build(spec.d_model, Place())
    unembedding = spec.unembed.build(spec.d_model, Place())
    n_own = _size(unembedding)
    unembedding.tie(embedding)
    return {
        "embedding": _counted(embedding),
        "positions": _counted(_built(spec.pos_embed, spec.d_model)),
        "norms": _counted(_built(spec.ln_final, spec.d_model)),
        "unembedding": Count(n_own, n_own, _counted(unembedding).multiplying),
    }


def _layers(spec: ModelSpec) -> list[tuple[str, Count]]:
    kinds = Counter(spec.layers)
    return [(name, count * n) for layer, n in kinds.items() for name, count in _layer(layer, spec.d_model).items()]


def _layer(layer: LayerSpec, d_model: int) -> dict[str, Count]:
    block = layer.build(d_model, Place())
    parts = {"attention": _counted(block.attn)} if layer.attn is not None else {}
    if isinstance(layer.mlp, MixtureOfExpertsSpec):
        router, experts = layer.mlp.router, _counted(block.mlp.experts)
        parts["router"] = _counted(block.mlp.router)
        # Every weight of the experts has an axis of them, so these divisions have no remainder.
        active, multiplying = (n * router.top_k // router.n_experts for n in (experts.active, experts.multiplying))
        parts["experts"] = Count(experts.total, active, multiplying)
        parts["shared_experts"] = _counted(block.mlp.shared)
    elif layer.mlp is not None:
        parts["feed_forward"] = _counted(block.mlp)
    n_left = _size(block) - sum(part.total for part in parts.values())
    return parts | {"norms": Count(n_left, n_left)}


def _built(part: ComponentSpec | None, d_model: int) -> nn.Module:
    return nn.Module() if part is None else part.build(d_model, Place())


def _counted(module: nn.Module) -> Count:
    weights = [part.weight.numel() for part in module.modules() if isinstance(part, Multiplies)]
    return Count(_size(module), _size(module), sum(weights))


def _size(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())
