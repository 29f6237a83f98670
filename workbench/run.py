"""Runs: a forward pass with hooks, with a recorder, from a recorded stream, up to a layer.

Hooks come as arguments, live in the run's `Pass` and are gone with it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import index
from typing import TypeAlias, cast, overload

import torch
from jaxtyping import Float
from torch import Tensor

from .cache import ActivationCache
from .errors import InputError, KindError, SiteError
from .hooks import At, BoundHooks, HookLike, as_sequence, bind, merge
from .inputs import Rows, Text
from .model.pass_ import Attended, Pass
from .model.transformer import Transformer
from .recorder import CacheRecorder, PosSlice
from .sites import Selector, Site, Sites

NamesFilter: TypeAlias = Selector | Collection[Selector] | None


class AttentionWeights(Sequence[Tensor]):
    """The attention of a run: item l is [batch, head, query, key], the pattern that layer l used, hooks included.

    Each look computes the weights anew from the run's queries and keys, so that no tensor of size query x key is
    held. Looking is differentiable when the run was.
    """

    def __init__(self, attended: dict[int, Attended], n_layers: int, start: int = 0):
        self._attended, self._n_layers, self._start = attended, n_layers, start

    def __len__(self) -> int:
        return self._n_layers

    @overload
    def __getitem__(self, index: int) -> Float[Tensor, "batch head query key"]: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Tensor, ...]: ...
    def __getitem__(self, index: int | slice) -> Tensor | tuple[Tensor, ...]:
        if isinstance(index, slice):
            return tuple(self[layer] for layer in range(*index.indices(len(self))))
        layer = index + len(self) if index < 0 else index
        if not 0 <= layer < len(self):  # IndexError is what ends an iteration
            raise IndexError(f"layer {index} was asked for; there is attention of layers 0 to {len(self) - 1}")
        if layer < self._start:
            raise SiteError(f"layer {layer} did not run: this run started at layer {self._start}")
        return self._attended[layer].weights()

    def __iter__(self) -> Iterator[Tensor]:
        return (self[layer] for layer in range(len(self)))

    def __repr__(self) -> str:
        return (
            f"AttentionWeights of layers {self._start} to {len(self) - 1}; index a layer for [batch, head, query, key]"
        )


def forward(
    model: Transformer, text: Text, hooks: BoundHooks
) -> tuple[Float[Tensor, "batch pos vocab"], AttentionWeights]:
    """Logits and attention of one pass."""
    at = Pass(text.positions, padded=text.padded, hooks=hooks)
    x = model.run_blocks(model.embed(text.tokens, at), at)
    return model.unembed(x, at), AttentionWeights(at.attended, model.spec.n_layers)


def forward_hidden(
    model: Transformer, text: Text, hooks: BoundHooks, final_norm: bool
) -> Float[Tensor, "batch pos d_model"]:
    """The last stream, perhaps normed, without logits."""
    at = Pass(text.positions, padded=text.padded, hooks=hooks)
    x = model.run_blocks(model.embed(text.tokens, at), at)
    return model.ln_final(x, at) if final_norm else x


def resume(
    model: Transformer, resid: Tensor, start_at_layer: int, hooks: BoundHooks, rows: Rows
) -> tuple[Float[Tensor, "batch pos vocab"], AttentionWeights]:
    """Logits and attention from the stream that enters a layer; earlier blocks do not run."""
    at = Pass(rows.positions, padded=rows.padded, hooks=hooks)
    x = model.run_blocks(resid, at, start=start_at_layer)
    return model.unembed(x, at), AttentionWeights(at.attended, model.spec.n_layers, start_at_layer)


def run_with_cache(
    model: Transformer,
    text: Text,
    view_hooks: BoundHooks,
    hooks: Iterable[HookLike] = (),
    names_filter: NamesFilter = None,
    stop_at_layer: int | None = None,
    pos_slice: PosSlice = None,
    device: torch.device | str | None = None,
    grad: bool = False,
) -> tuple[Tensor, ActivationCache]:
    """Logits, or the stream entering `stop_at_layer`, and the values at the sites asked for."""
    stop = checked_layer(model, stop_at_layer, "stop_at_layer")
    span = Span(stop=stop_at_layer)
    wanted = select(names_filter, model.sites, span)
    bound = merge(view_hooks, bind_within(hooks, model.sites, span))
    recorder = CacheRecorder(wanted, text, pos_slice, device, grad)
    recorder.refuse_too_large(model.embedding.weight.dtype)
    if grad:
        embeddings = [*model.embedding.sites, *model.pos_embedding.sites]
        bound = merge({site.name: (_leaf,) for site in embeddings}, bound)
    with torch.set_grad_enabled(grad):
        at = Pass(text.positions, padded=text.padded, hooks=bound, recorder=recorder)
        x = model.run_blocks(model.embed(text.tokens, at), at, stop=stop)
        out = x if stop_at_layer is not None else model.unembed(x, at)
    return out, recorder.cache(model, at.attended)


def _leaf(embed: Tensor, at: At) -> Tensor:
    """The embedding becomes a leaf of the graph, so that gradients flow although the weights are frozen."""
    return embed.detach().requires_grad_()


@dataclass(frozen=True)
class Span:
    """The part of the model that a run passes through.

    start: the first block; a run that resumes there does not embed.
    stop:  the block before which it ends; None for a run to the logits.
    """

    start: int = 0
    stop: int | None = None
    resumed: bool = False

    def reaches(self, site: Site) -> bool:
        if site.layer is not None:
            return self.start <= site.layer and (self.stop is None or site.layer < self.stop)
        return self.stop is None if site.name.startswith("ln_final") else not self.resumed


def bind_within(hooks: Iterable[HookLike], sites: Sites, span: Span) -> BoundHooks:
    """Bind hooks to the sites that will fire; one that would never be called is an error."""
    merged: BoundHooks = {}
    for item in as_sequence(hooks):
        bound = bind([item], sites)
        reached = {name: given for name, given in bound.items() if span.reaches(sites.one(name))}
        if not reached:
            raise SiteError(f"a hook at {next(iter(bound))} would never be called: this run does not reach it")
        merged = merge(merged, reached)
    return merged


def select(names_filter: NamesFilter, sites: Sites, span: Span) -> list[Site]:
    """The sites to record, in firing order. Each entry must match something that this run passes through."""
    several = isinstance(names_filter, (list, set, frozenset))
    given = _every if names_filter is None else names_filter
    entries = cast("Collection[Selector]", given if several else [given])
    if not entries:
        raise SiteError("names_filter is an empty list, which records nothing; leave it out to record every site")
    chosen: set[str] = set()
    for entry in entries:
        matched = sites.select(entry)
        reached = [site.name for site in matched if span.reaches(site)]
        if not reached and names_filter is not None:
            raise SiteError(f"names_filter {entry!r} matches {matched[0].name}, which this run does not reach")
        chosen.update(reached)
    return [site for site in sites if site.name in chosen]


def _every(name: str) -> bool:
    return True


def checked_layer(model: Transformer, layer: int | None, word: str) -> int:
    """A place between blocks: 0 before the first, n_layers (also None) after the last."""
    n_layers = model.spec.n_layers
    if layer is None:
        return n_layers
    try:
        layer = index(None if isinstance(layer, bool) else layer)  # type: ignore[arg-type]
    except (TypeError, RuntimeError):
        raise KindError(f"{word} is {layer!r}; a layer number is wanted") from None
    if not 0 <= layer <= n_layers:
        raise InputError(f"{word} is {layer}; this model's streams are 0 (embedding) to {n_layers} (after the last)")
    return layer


@torch.no_grad()
def stream_logits(model: Transformer, stream: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch pos vocab"]:
    """The final norm, with the stream's own statistics, and the unembedding."""
    positions = torch.arange(stream.shape[1], device=stream.device).expand(stream.shape[:2])
    return model.unembed(stream, Pass(positions))
