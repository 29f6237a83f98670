"""Taking a stream apart: the arithmetic behind the cache's methods. Every function reads a cache and returns tensors.

A stream is the sum of what was written to it, so it can be split by writer, by head, or watched as it grows; a norm
with its scale frozen is linear, and so is the unembedding, so each part has a share of a logit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias, cast

import torch
from einops import einsum
from jaxtyping import Float
from torch import Tensor

from .errors import InputError, KindError
from .model.block import TwoPartBlock
from .model.moe import MixtureOfExperts
from .model.norms import NoNorm, Norm
from .model.precision import at_least_float32
from .model.transformer import Transformer
from .tokenizer import Tokenizer

if TYPE_CHECKING:
    from .cache import ActivationCache

Index: TypeAlias = int | slice | Sequence[int] | Tensor | None
Token: TypeAlias = int | str | Tensor | Sequence[int] | Sequence[str]


def last_layer(cache: ActivationCache, layer: int | None) -> int:
    """A layer to stop before: 0 to n_layers; None and -1 mean n_layers."""
    n_layers = cache.model.spec.n_layers
    if layer is None or layer == -1:
        return n_layers
    if not isinstance(layer, int) or isinstance(layer, bool):
        raise KindError(f"layer is {layer!r}; a layer number is wanted, or None for the last stream")
    if not 0 <= layer <= n_layers:
        raise InputError(f"layer is {layer!r}; a number from 0 to {n_layers} is wanted, or None for the last stream")
    return layer


def streams(cache: ActivationCache, layer: int | None, incl_mid: bool, mlp_input: bool) -> dict[str, Tensor]:
    """The stream before each layer, labelled as TransformerLens does: 0_pre, 0_mid, ..., final_post. A block without a
    stream between its components has no mid."""
    stop, parts = last_layer(cache, layer), {}
    for index, block in enumerate(cache.model.blocks[:stop]):
        for name, site in list(block.streams.items())[: None if incl_mid else 1]:
            parts[f"{index}_{name}"] = cache[site]
    if stop == cache.model.spec.n_layers:
        parts["final_post"] = cache["resid_post", stop - 1]
    else:
        read = list(cache.model.blocks[stop].streams.items())
        for name, site in read if mlp_input and _mlp_block(cache, stop).before_mlp else read[:1]:
            parts[f"{stop}_{name}"] = cache[site]
    return parts


def _mlp_block(cache: ActivationCache, layer: int) -> TwoPartBlock:
    block = cache.model.blocks[layer]
    if not isinstance(block, TwoPartBlock):
        raise InputError(f"layer {layer} has no feed-forward; leave mlp_input out")
    return block


def refuse_unless_sum(model: Transformer, stop: int) -> None:
    """InputError where the stream before a layer is not the sum of what was written to it."""
    for index, block in enumerate(model.blocks[:stop]):
        if not block.adds:
            raise InputError(
                f"layer {index} norms the stream after each addition ({type(block).__name__}), so the stream is not "
                "a sum of writes and cannot be taken apart into them"
            )


def writes(
    cache: ActivationCache, layer: int | None, mlp_input: bool, mode: str, incl_embeds: bool
) -> dict[str, Tensor]:
    """What was added to the stream before a layer, in order: embed, pos_embed, 0_attn_out, 0_mlp_out, ..."""
    if mode not in ("all", "attn", "mlp"):
        raise InputError(f"mode is {mode!r}; 'all', 'attn' or 'mlp' is wanted")
    stop, parts = last_layer(cache, layer), {}
    refuse_unless_sum(cache.model, stop)
    if incl_embeds:
        outside = {site.short: site for site in cache.model.sites if site.layer is None}
        parts |= {name: cache[name] for name in ("embed", "pos_embed") if name in outside}

    def wanted(name: str) -> bool:
        return mode == "all" or name == f"{mode}_out"

    for index, block in enumerate(cache.model.blocks[:stop]):
        parts |= {f"{index}_{name}": cache[site] for name, site in block.writes.items() if wanted(name)}
    if mlp_input and stop < cache.model.spec.n_layers:
        block = _mlp_block(cache, stop)
        parts |= {f"{stop}_{name}": cache[block.writes[name]] for name in block.before_mlp if wanted(name)}
    return parts


def head_results(cache: ActivationCache, layer: int) -> Float[Tensor, "*batch pos head d_model"]:
    z, W_O = cache["z", layer], cache.model.blocks[layer].attn.W_O
    return einsum(z, W_O.to(z.device), "... head d_head, head d_head d_model -> ... head d_model")


def head_values(cache: ActivationCache, layer: int) -> Float[Tensor, "*batch pos kv_head d_head"]:
    """The values that heads mix, whether a site of their own or expanded from what is: see `value_site`."""
    attn = cache.model.blocks[layer].attn
    return attn.values(cache[attn.value_site].to(attn.W_O.device))


def head_writes(cache: ActivationCache, layer: int) -> Float[Tensor, "*batch pos head d_model"]:
    """What of attention's write each head is: its result, through the output norm with the run's own scale."""
    output, results = cache.model.blocks[layer].ln1_post, head_results(cache, layer)
    scale = None if output.hook_scale is None else cache[output.hook_scale][..., None, :]
    return output.frozen(results, scale).to(results.dtype)


def expert_outputs(cache: ActivationCache, layer: int) -> Float[Tensor, "*batch pos expert d_model"]:
    block = cache.model.blocks[layer]
    mlp = getattr(block, "mlp", None)
    if not isinstance(mlp, MixtureOfExperts):
        held = "has no feed-forward" if mlp is None else f"has one feed-forward, a {type(mlp).__name__}"
        raise InputError(f"layer {layer} {held}, and no experts")
    read = cache["ln2.out", layer] if block.mlp_reader.sites else cache["mlp_in", layer]
    weights = cache["expert_weights", layer]
    return mlp.expert_outputs(read.to(mlp.router.weight.device), weights.to(mlp.router.weight.device)).to(read.device)


def heads(cache: ActivationCache, layer: int | None, incl_remainder: bool) -> dict[str, Tensor]:
    """What each head of the layers before `layer` writes, and perhaps the rest of that stream."""
    stop = last_layer(cache, layer)
    if stop == 0:
        raise InputError("no head writes to the stream before layer 0; ask for layer 1 or more")
    refuse_unless_sum(cache.model, stop)
    parts = {
        f"L{index}H{head}": result
        for index in range(stop)
        for head, result in enumerate(head_writes(cache, index).unbind(-2))
    }
    if incl_remainder:
        whole = list(streams(cache, layer, incl_mid=False, mlp_input=False).values())[-1]
        parts["remainder"] = whole - torch.stack(list(parts.values())).sum(0)
    return parts


def stacked(parts: Sequence[Tensor]) -> Tensor:
    if not parts:
        raise InputError("nothing was written to the stream there, so there is nothing to stack")
    return torch.stack(list(parts))


def as_index(index: Index) -> int | slice | Tensor | None:
    """What a slice argument means. A tuple is (start, stop) or (start, stop, step), as in TransformerLens; a list
    names its places."""
    if index is None or isinstance(index, slice) or (isinstance(index, int) and not isinstance(index, bool)):
        return index
    try:
        if isinstance(index, tuple):
            return slice(*index)
        places = torch.as_tensor(index)
    except (TypeError, ValueError, RuntimeError):
        places = None
    if places is None or (places.numel() and places.dtype not in (torch.int64, torch.int32)):
        raise KindError(f"{index!r} came; an int, a slice or a list of ints is wanted")
    return int(places) if places.ndim == 0 else places.long()


def at_positions(value: Tensor, index: Index, axis: int) -> Tensor:
    """Some places along an axis; a single one, given as an int, drops the axis."""
    where = as_index(index)
    if where is None:
        return value
    axis = axis % value.ndim
    if isinstance(where, Tensor):
        where = where.to(value.device)
    try:
        chosen = value[(slice(None),) * axis + (where,)]
    except IndexError:
        raise InputError(f"{index!r} is outside the {value.shape[axis]} that there are") from None
    if not chosen.numel():
        raise InputError(f"{index!r} keeps none of the {value.shape[axis]} that there are")
    return chosen


def reader(cache: ActivationCache, layer: int | None, mlp_input: bool) -> Norm | NoNorm:
    """The norm through which a stream is read: by attention in `layer`, by its feed-forward, or at the end."""
    stop = last_layer(cache, layer)
    if stop == cache.model.spec.n_layers:
        return cast(Norm | NoNorm, cache.model.ln_final)
    block = _mlp_block(cache, stop) if mlp_input else cache.model.blocks[stop]
    return cast(Norm | NoNorm, block.mlp_reader if isinstance(block, TwoPartBlock) and mlp_input else block.attn_reader)


def apply_norm(
    cache: ActivationCache,
    stack: Float[Tensor, "component *rows d_model"],
    layer: int | None,
    mlp_input: bool,
    pos_slice: Index,
    batch_slice: Index,
    has_batch_dim: bool | None,
    recompute: bool,
) -> Float[Tensor, "component *left d_model"]:
    """In float32 or better, as norms are."""
    has_batch_dim, batch_slice = _batch_axis(cache, has_batch_dim, batch_slice)
    if has_batch_dim:
        stack = at_positions(stack, batch_slice, 1)
    norm = reader(cache, layer, mlp_input)
    if not isinstance(norm, Norm):
        return stack
    if stack.shape[-1] != norm.d_model:
        raise InputError(f"a stack [component ... {norm.d_model}] is wanted; {list(stack.shape)} came")
    if recompute:
        return norm.frozen(stack, norm.scale(norm.center(stack.to(at_least_float32(stack)))))
    scale = at_positions(cache[norm.hook_scale], pos_slice, -2)
    if cache.has_batch_dim:
        scale = at_positions(scale, batch_slice, 0)
    if stack.shape[1:-1] != scale.shape[:-1]:
        raise InputError(
            f"the stack's rows are {list(stack.shape[1:-1])} and the recorded scale's {list(scale.shape[:-1])}; "
            "give the pos_slice and batch_slice that the stack was made with"
        )
    return norm.frozen(stack, scale)


def _batch_axis(cache: ActivationCache, has_batch_dim: bool | None, batch_slice: Index) -> tuple[bool, Index]:
    """Whether a stack has a batch axis, and the examples of the cache that it is about."""
    if not cache.has_batch_dim:
        if has_batch_dim or batch_slice is not None:
            raise InputError("this cache has no batch axis; leave has_batch_dim and batch_slice out")
        return False, None
    if has_batch_dim is None or has_batch_dim:
        return True, batch_slice
    if batch_slice is None and len(cache.positions) == 1:
        return False, 0
    if not isinstance(as_index(batch_slice), int):
        raise InputError("a stack without a batch axis is about one example; say which with batch_slice=")
    return False, batch_slice


def onto_logits(
    cache: ActivationCache,
    normed: Float[Tensor, "component *rows d_model"],
    tokens: Token,
    incorrect: Token | None,
    batch_slice: Index,
    has_batch_dim: bool | None,
) -> Float[Tensor, " component *rows"]:
    _, batch_slice = _batch_axis(cache, has_batch_dim, batch_slice)
    direction = _directions(cache, tokens, normed, batch_slice)
    if incorrect is not None:
        direction = direction - _directions(cache, incorrect, normed, batch_slice)
    return (normed * direction).sum(-1)


def _directions(cache: ActivationCache, tokens: Token, normed: Tensor, batch_slice: Index) -> Tensor:
    """Rows of the unembedding, shaped to meet [component, batch, pos, d_model]: one for all, one per example, or one
    per example and position."""
    ids, vocab_size = _ids(cache, tokens), cache.model.spec.vocab_size
    if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < vocab_size:
        raise InputError(f"token {tokens!r} came; the vocabulary is 0 to {vocab_size - 1}")
    if ids.ndim and cache.has_batch_dim:
        if len(ids) != len(cache.positions):
            raise InputError(f"{len(ids)} tokens came for {len(cache.positions)} examples")
        per_example = ids.ndim == 1
        ids = at_positions(ids, batch_slice, 0)
        if per_example and ids.ndim:
            ids = ids.reshape(-1, *[1] * (normed.ndim - 3))
    rows = cache.model.unembedding.directions(ids.to(cache.model.embedding.weight.device)).to(normed)
    try:
        torch.broadcast_shapes(rows.shape, normed.shape[1:])
        fits = rows.ndim < normed.ndim
    except RuntimeError:
        fits = False
    if not fits:
        raise InputError(
            f"tokens of shape {list(ids.shape)} came for a stack {list(normed.shape)}; one token, one per example, "
            "or one per example and position is wanted"
        )
    return rows


def _ids(cache: ActivationCache, tokens: Token) -> Tensor:
    """Ids: one [], one per example [batch], or one per example and position [batch, pos]."""
    if isinstance(tokens, str):
        return torch.tensor(_single(cache, tokens))
    if isinstance(tokens, (list, tuple)):
        tokens = [_single(cache, token) if isinstance(token, str) else token for token in tokens]
    try:
        ids = torch.as_tensor(tokens)
    except (TypeError, ValueError, RuntimeError):
        ids = None
    if ids is None or ids.is_floating_point() or ids.dtype == torch.bool or ids.ndim > 2:
        raise KindError(f"a token is an id, a text or a list with one per example, not {tokens!r}")
    return ids.long()


def _single(cache: ActivationCache, text: str) -> int:
    tokenizer: Tokenizer | None = getattr(cache.model, "tokenizer", None)
    if tokenizer is None:
        raise KindError("this model has no tokenizer, so tokens are given as ids and not as text")
    return tokenizer.single(text)
