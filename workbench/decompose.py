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

from .errors import InputError, KindError, SiteError
from .model.norms import Norm
from .model.transformer import NoNorm
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
    if not isinstance(layer, int) or not 0 <= layer <= n_layers:
        raise InputError(f"layer is {layer!r}; a number from 0 to {n_layers} is wanted, or None for the last stream")
    return layer


def streams(cache: ActivationCache, layer: int | None, incl_mid: bool, mlp_input: bool) -> dict[str, Tensor]:
    """The stream before each layer, labelled as TransformerLens does: 0_pre, 0_mid, ..., final_post."""
    stop, parts = last_layer(cache, layer), {}
    for index in range(stop):
        parts[f"{index}_pre"] = cache["resid_pre", index]
        if incl_mid:
            parts[f"{index}_mid"] = cache["resid_mid", index]
    if stop == cache.model.spec.n_layers:
        parts["final_post"] = cache["resid_post", stop - 1]
    else:
        parts[f"{stop}_pre"] = cache["resid_pre", stop]
        if mlp_input:
            parts[f"{stop}_mid"] = cache["resid_mid", stop]
    return parts


def writes(
    cache: ActivationCache, layer: int | None, mlp_input: bool, mode: str, incl_embeds: bool
) -> dict[str, Tensor]:
    """What was added to the stream before a layer, in order: embed, pos_embed, 0_attn_out, 0_mlp_out, ..."""
    if mode not in ("all", "attn", "mlp"):
        raise InputError(f"mode is {mode!r}; 'all', 'attn' or 'mlp' is wanted")
    stop, parts = last_layer(cache, layer), {}
    if incl_embeds:
        parts |= {name: cache[name] for name in ("embed", "pos_embed") if _has(cache, name)}
    kinds = [kind for kind in ("attn", "mlp") if mode in ("all", kind)]
    for index in range(stop):
        parts |= {
            f"{index}_{kind}_out": cache[f"{kind}_out", index] for kind in kinds if _has(cache, f"{kind}_out", index)
        }
    if mlp_input and stop < cache.model.spec.n_layers and "attn" in kinds:
        parts[f"{stop}_attn_out"] = cache["attn_out", stop]
    return parts


def _has(cache: ActivationCache, short: str, layer: int | None = None) -> bool:
    """Whether the model has this site; one that it has and the cache lacks is an error where it is read."""
    try:
        cache.model.sites.one((short, layer))
    except SiteError:
        return False
    return True


def head_results(cache: ActivationCache, layer: int) -> Float[Tensor, "*batch pos head d_model"]:
    z, W_O = cache["z", layer], cache.model.blocks[layer].attn.W_O
    return einsum(z, W_O.to(z.device), "... head d_head, head d_head d_model -> ... head d_model")


def heads(cache: ActivationCache, layer: int | None, incl_remainder: bool) -> dict[str, Tensor]:
    """What each head of the layers before `layer` writes, and perhaps the rest of that stream."""
    stop = last_layer(cache, layer)
    if stop == 0:
        raise InputError("no head writes to the stream before layer 0; ask for layer 1 or more")
    parts = {
        f"L{index}H{head}": result
        for index in range(stop)
        for head, result in enumerate(head_results(cache, index).unbind(-2))
    }
    if incl_remainder:
        whole = list(streams(cache, layer, incl_mid=False, mlp_input=False).values())[-1]
        parts["remainder"] = whole - torch.stack(list(parts.values())).sum(0)
    return parts


def at_positions(value: Tensor, index: Index, axis: int) -> Tensor:
    """Some positions along an axis; a single one, given as an int, drops the axis."""
    if index is None:
        return value
    axis = axis % value.ndim
    if isinstance(index, (Sequence, Tensor)):
        index = torch.as_tensor(index, device=value.device)
    return value[(slice(None),) * axis + (index,)]


def reader(cache: ActivationCache, layer: int | None, mlp_input: bool) -> tuple[Norm | NoNorm, str]:
    """The norm through which a stream is read, and the short name of its scale's site."""
    stop = last_layer(cache, layer)
    if stop == cache.model.spec.n_layers:
        return cast(Norm | NoNorm, cache.model.ln_final), "ln_final.scale"
    name = "ln2" if mlp_input else "ln1"
    return getattr(cache.model.blocks[stop], name), f"{name}.scale"


def apply_norm(
    cache: ActivationCache,
    stack: Float[Tensor, "component *rows d_model"],
    layer: int | None,
    mlp_input: bool,
    pos_slice: Index,
    batch_slice: Index,
    recompute: bool,
) -> Float[Tensor, "component *rows d_model"]:
    norm, scale_site = reader(cache, layer, mlp_input)
    if not isinstance(norm, Norm):
        return stack
    centered = norm.center(stack)
    if recompute:
        scale = norm.scale(centered)
    else:
        stop = last_layer(cache, layer)
        scale = cache[scale_site, None if scale_site.startswith("ln_final") else stop]
        scale = at_positions(scale, pos_slice, -2)
        if cache.has_batch_dim:
            scale = at_positions(scale, batch_slice, 0)
    return norm.gain(centered / scale)


def onto_logits(
    cache: ActivationCache,
    normed: Float[Tensor, "component *rows d_model"],
    tokens: Token,
    incorrect: Token | None,
    batch_slice: Index,
) -> Float[Tensor, " component *rows"]:
    direction = _directions(cache, tokens, normed, batch_slice)
    if incorrect is not None:
        direction = direction - _directions(cache, incorrect, normed, batch_slice)
    return (normed * direction).sum(-1)


def _directions(cache: ActivationCache, tokens: Token, normed: Tensor, batch_slice: Index) -> Tensor:
    """Rows of the unembedding, shaped to meet [component, batch, pos, d_model]: one for all, one per example, or one
    per example and position."""
    ids = torch.as_tensor(_ids(cache, tokens))
    rows = cache.model.unembedding.weight[ids.to(cache.model.unembedding.weight.device)].to(normed)
    if ids.ndim and cache.has_batch_dim:
        rows = at_positions(rows, batch_slice, 0)
    missing = normed.ndim - 1 - rows.ndim if ids.ndim == 1 and cache.has_batch_dim else 0
    return rows.reshape(rows.shape[0], *[1] * missing, rows.shape[-1]) if missing > 0 else rows


def _ids(cache: ActivationCache, tokens: Token) -> int | Tensor | list[int]:
    if isinstance(tokens, (int, Tensor)):
        return tokens
    tokenizer = getattr(cache.model, "tokenizer", None)
    given = [tokens] if isinstance(tokens, str) else list(tokens)
    if tokenizer is None and any(isinstance(token, str) for token in given):
        raise KindError("this model has no tokenizer, so tokens are given as ids and not as text")
    ids = [cast(Tokenizer, tokenizer).single(token) if isinstance(token, str) else token for token in given]
    return ids[0] if isinstance(tokens, str) else ids
