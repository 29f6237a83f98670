"""What a model takes, by arithmetic: parameters, FLOPs, the cache of keys and values, memory. Nothing is allocated.

A FLOP is an addition or a multiplication, so that a multiply-add is two. Counted is what grows with the product of two
sizes: projections, experts, logits, scores and the mixing of values. Norms, activations, rotations, softmax and biases
are left out, as everyone does.

    the rules       2 N FLOPs a token forward, 6 N in training, where backward is twice forward (Kaplan et al. 2020,
                    section 2.1). N here are all active parameters, embeddings too, as Hoffmann et al. 2022 (appendix F)
                    count; Kaplan leaves embeddings out. Attention to other tokens is in neither.
    exactly         2 x (weights that multiply a token's row) + 2 x (multiply-adds for a key) x (keys that a query
                    sees), the mean over a text that is passed once; in training three times that. Embeddings that are
                    looked up cost nothing; a tied one multiplies as unembedding all the same.
    training data   20 N tokens are compute-optimal (Hoffmann et al. 2022, table 3). The law was fitted to dense models;
                    of a mixture, too, N here are active parameters.
    training memory 16 bytes a parameter, activations not included (Rajbhandari et al. 2020, section 3.1): in mixed
                    precision 2 for the parameter, 2 for its gradient and 12 for Adam's copy, mean and variance in
                    float32; all in float32, 4 for each of parameter, gradient, mean and variance.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import dataclass
from typing import Any

import torch

from .counting import Count, count_components
from .errors import InputError, KindError
from .model.transformer import Transformer
from .spec import ComponentSpec, ModelSpec

BYTES_TO_TRAIN = 16
TOKENS_PER_PARAM = 20


@dataclass(frozen=True)
class Flops:
    """Of one token, the mean over a text.

    weights, attention: a forward pass's, exactly;  forward: both;  training: with the backward pass.
    rule_forward, rule_training: 2 N and 6 N.
    """

    weights: float
    attention: float
    forward: float
    training: float
    rule_forward: int
    rule_training: int


@dataclass(frozen=True)
class Bytes:
    """load: the parameters;  train: parameters, gradients and Adam's state;  kv_cache: of `batch` x `tokens`."""

    load: int
    train: int
    kv_cache: int


@dataclass(frozen=True)
class Costs:
    """What a model takes for `batch` texts of `tokens` tokens, its parameters and cache in `dtype`.

    components:             parameters by component, see `counting.Count`.
    kv_bytes_per_token:     what a memory keeps of one token;  kv_bytes_by_layer: the same in each layer. One with a
                            window keeps at most its window of tokens, and `memory.kv_cache` is reckoned so.
    compute_optimal_tokens: how many to train it on.
    """

    dtype: torch.dtype
    tokens: int
    batch: int
    n_params: int
    n_active_params: int
    components: dict[str, Count]
    flops_per_token: Flops
    kv_bytes_per_token: int
    kv_bytes_by_layer: tuple[int, ...] = dataclasses.field(repr=False)
    compute_optimal_tokens: int
    memory: Bytes

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        plain = dataclasses.asdict(self) | {"dtype": str(self.dtype).removeprefix("torch.")}
        return plain | {"kv_bytes_by_layer": list(self.kv_bytes_by_layer)}


def costs(
    model: ModelSpec | Transformer, dtype: torch.dtype | None = None, tokens: int | None = None, batch: int = 1
) -> Costs:
    """What a specification or a loaded model takes.

    dtype:  of parameters and cache; None for a model's own, and bfloat16 for a specification.
    tokens: length of a text; None for the longest that the model takes.
    """
    spec = _spec_of(model)
    if dtype is None:
        dtype = next(model.parameters()).dtype if isinstance(model, Transformer) else torch.bfloat16
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise KindError(f"dtype is {dtype!r}; one of floating point is wanted, such as torch.bfloat16")
    tokens = spec.n_ctx if tokens is None else _positive("tokens", tokens)
    components = count_components(spec)
    kept = tuple(attn.n_kept * dtype.itemsize for attn in _attentions(spec))
    return Costs(
        dtype=dtype,
        tokens=tokens,
        batch=_positive("batch", batch),
        n_params=spec.n_params,
        n_active_params=spec.n_active_params,
        components=components,
        flops_per_token=_flops(spec, components, tokens),
        kv_bytes_per_token=sum(kept),
        kv_bytes_by_layer=kept,
        compute_optimal_tokens=TOKENS_PER_PARAM * spec.n_active_params,
        memory=Bytes(
            load=spec.n_params * dtype.itemsize,
            train=spec.n_params * BYTES_TO_TRAIN,
            kv_cache=kv_cache_bytes(spec, tokens, batch, dtype.itemsize),
        ),
    )


def kv_cache_bytes(spec: ModelSpec, n_tokens: int, batch: int = 1, itemsize: int = 2) -> int:
    """What generation keeps of `batch` texts of `n_tokens`, at `itemsize` bytes a number."""
    return batch * itemsize * sum(attn.n_kept * _within(attn.reach, n_tokens) for attn in _attentions(spec))


def _flops(spec: ModelSpec, components: dict[str, Count], tokens: int) -> Flops:
    weights = 2.0 * sum(count.multiplying for count in components.values())
    kinds = Counter(_attentions(spec))
    attention = sum(2 * n * attn.n_mixed * _keys_seen(attn.reach, tokens) for attn, n in kinds.items()) / tokens
    n_active = spec.n_active_params
    return Flops(weights, attention, weights + attention, 3 * (weights + attention), 2 * n_active, 6 * n_active)


def _keys_seen(reach: int | None, tokens: int) -> int:
    """By all queries of a text together: the first sees itself, the next two, and so on up to the window."""
    width = _within(reach, tokens)
    return width * (width + 1) // 2 + (tokens - width) * width


def _within(reach: int | None, tokens: int) -> int:
    return tokens if reach is None else min(reach, tokens)


def _attentions(spec: ModelSpec) -> list[ComponentSpec]:
    return [layer.attn for layer in spec.layers if layer.attn is not None]


def _spec_of(model: object) -> ModelSpec:
    spec = model.spec if isinstance(model, Transformer) else model
    if not isinstance(spec, ModelSpec):
        raise KindError(
            f"a ModelSpec or a model is wanted, not {type(model).__name__}; wb.ModelSpec.preset takes names"
        )
    return spec


def _positive(name: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise KindError(f"{name} is {value!r}; a whole number, at least 1, is wanted")
    if value < 1:
        raise InputError(f"{name} is {value!r}; a whole number, at least 1, is wanted")
    return value
