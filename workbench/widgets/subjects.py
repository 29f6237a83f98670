"""What an attention dashboard is opened on: a model's run, or weights at hand; perhaps beside a second one."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError, KindError, TooLargeError, count
from ..figures.tokens import token_list
from ..hooked import HookedTransformer
from ..inputs import TextLike
from ..metrics import MetricLike, logit
from ..sweep.texts import read_one
from .opened import Opened
from .patterns import OfWeights, Patterns, check_index, one_example
from .runs import Run, Sources, checked_model

MAX_TOKENS = 1024  # more would be more than a megabyte for each head
MAX_HEADS = 2304  # more thumbnails than a page draws at once


class Subject(ABC):
    """n_examples: texts there are to choose from;  identity: what a saved state must be of."""

    n_examples: int
    identity: dict[str, Any]
    named: tuple[str, str]

    @abstractmethod
    def open(self, example: int) -> Opened:
        """InputError for an example that does not exist."""


class OfModel(Subject):
    def __init__(
        self,
        model: HookedTransformer,
        tokens: TextLike,
        against: HookedTransformer | TextLike | None,
        metric: MetricLike | None,
        attention_mask: Tensor | None,
        chosen: Chosen,
        named: tuple[str, str],
    ) -> None:
        self.chosen, self.named = chosen, named
        self.run = Run(checked_model(model), read_one(model, tokens, attention_mask))
        self.metric = logit(self.run.said) if metric is None else metric  # one for both runs, or they do not compare
        self.second = None if against is None else self._second(model, tokens, against, attention_mask)
        self.n_examples = len(self.run.text.tokens)
        for example in range(self.n_examples):
            chosen.positions_of(self._length(example))  # later would be when somebody turns to it
        spec = hashlib.sha256(json.dumps(model.spec.to_dict(), sort_keys=True).encode()).hexdigest()[:12]
        heads = max(block.attn.hook_z.sizes[2] for block in model.blocks)
        self.identity = {"what": "a model", "layers": model.spec.n_layers, "heads": heads, "spec": spec}

    def _second(self, model: HookedTransformer, tokens: TextLike, against: Any, attention_mask: Tensor | None) -> Run:
        """Another model on the same text, or the same model on another text of as many tokens."""
        other = isinstance(against, HookedTransformer)
        first = self.run
        second = Run(against, first.text) if other else Run(model, read_one(model, against, attention_mask))
        if second.text.positions.shape[0] != first.text.positions.shape[0]:
            ours, theirs = len(first.text.tokens), len(second.text.tokens)
            raise InputError(f"there are {count(ours, 'text')} and {theirs} in against=; as many are wanted")
        lengths = [(run.text.positions >= 0).sum(1).tolist() for run in (first, second)]
        for example, (ours, theirs) in enumerate(zip(*lengths, strict=True)):
            if ours != theirs:
                raise InputError(
                    f"text {example} has {count(ours, 'token')} and the one in against= {theirs}; two runs are laid "
                    "side by side where they have as many"
                )
        shapes = [[block.attn.hook_z.sizes[2] for block in run.model.blocks] for run in (first, second)]
        if shapes[0] != shapes[1]:
            raise InputError(
                f"the model has {len(shapes[0])} layers and the one in against= {len(shapes[1])}, or other heads; "
                "models with the same heads are wanted"
            )
        return second

    def open(self, example: int) -> Opened:
        check_index("example", example, self.n_examples)
        positions, note = self.chosen.positions_of(self._length(example))
        first = self.run.patterns(example, positions)
        second = self.second.patterns(example, positions) if self.second else None
        heads, more = self.chosen.heads_of(first)
        ids = self.run.text.tokens[example][first.columns][None]
        sources = [Sources(run, shown, self.metric) for run, shown in self._pairs(first, second)]
        return Opened(first, second, heads, ids.cpu(), self.chosen.scores, sources, " ".join([*note, *more]))

    def _length(self, example: int) -> int:
        """Its tokens, padding left out."""
        return int((self.run.text.positions[example] >= 0).sum())

    def _pairs(self, first: Any, second: Any) -> list[tuple[Run, Any]]:
        return [(self.run, first), *([(self.second, second)] if self.second else [])]


class OfTensors(Subject):
    def __init__(
        self, tokens: Iterable[str], weights: Any, against: Any, chosen: Chosen, named: tuple[str, str], example: int
    ) -> None:
        self.chosen, self.named, self.against = chosen, named, against
        try:
            n_layers = len(weights)
        except TypeError:
            kind = type(weights).__name__
            raise KindError(f"weights must be a sequence of tensors, one per layer, not {kind}") from None
        if not n_layers:
            raise InputError("weights has no layer")
        first = one_example(weights[0], example)
        self.tokens, self.weights = token_list(tokens, first.shape[-1], "the pattern"), weights
        self.n_examples = 1 if weights[0].ndim == 3 else weights[0].shape[0]
        self.identity = {"what": "weights", "layers": n_layers, "heads": first.shape[0], "spec": None}

    def open(self, example: int) -> Opened:
        positions, note = self.chosen.positions_of(len(self.tokens))
        first = OfWeights(self.tokens, self.weights, example, positions)
        second = None if self.against is None else OfWeights(self.tokens, self.against, example, positions)
        if second and second.n_heads != first.n_heads:
            raise InputError("weights and those in against= have other layers or heads; the same are wanted")
        heads, more = self.chosen.heads_of(first)
        names = {token: i for i, token in enumerate(dict.fromkeys(first.tokens))}
        ids = torch.tensor([[names[token] for token in first.tokens]])
        return Opened(first, second, heads, ids, self.chosen.scores, [], " ".join([*note, *more]))


class Chosen:
    """What of it all is shown: positions, layers and heads; by default what a page can hold."""

    def __init__(
        self, positions: Sequence[int] | None, layers: Sequence[int] | None, heads: Sequence[int] | None, scores: Any
    ):
        self.positions, self.layers, self.heads, self.scores = positions, layers, heads, scores

    def positions_of(self, n: int) -> tuple[list[int], list[str]]:
        """Positions to show of n, and a word about it where these are not all."""
        if self.positions is None:
            shown = min(n, MAX_TOKENS)
            note = f"Positions 0 to {shown - 1} of {n} are shown; positions= chooses others."
            return list(range(shown)), [note] if shown < n else []
        chosen = indices("position", self.positions, n)
        if len(chosen) > MAX_TOKENS:
            raise TooLargeError(
                f"{len(chosen)} positions came; a page shows {MAX_TOKENS} at most: pass positions= with fewer"
            )
        note = f"{len(chosen)} of {n} positions are shown, as positions= says; scores are of what is shown."
        return chosen, [note] if len(chosen) < n else []

    def heads_of(self, patterns: Patterns) -> tuple[list[tuple[int, int]], list[str]]:
        """(layer, head) pairs to show, layer by layer, and a word about it where these are not all."""
        layers = indices("layer", self.layers, patterns.n_layers)
        heads = None if self.heads is None else indices("head", self.heads, max(patterns.n_heads))
        shown = [
            (layer, head)
            for layer in layers
            for head in range(patterns.n_heads[layer])
            if heads is None or head in heads
        ]
        if not shown:
            raise InputError("none of these layers has one of these heads")
        if len(shown) <= MAX_HEADS:
            return shown, []
        if self.layers is not None:
            raise TooLargeError(
                f"{len(shown)} heads came; a page shows {MAX_HEADS} at most: pass fewer layers=, or some heads="
            )
        cut = shown[MAX_HEADS][0]  # the first layer that does not fit whole
        kept = [pair for pair in shown if pair[0] < max(1, cut)][:MAX_HEADS]
        note = (
            f"{len(kept)} of {len(shown)} heads are shown, layers 0 to {kept[-1][0]}; layers= and heads= choose others."
        )
        return kept, [note]


def indices(what: str, wanted: Sequence[int] | None, n: int) -> list[int]:
    """The indices to show, in order and each once; all where none are named."""
    if wanted is None:
        return list(range(n))
    try:
        chosen = sorted({int(index) for index in wanted})
    except (TypeError, ValueError):
        raise KindError(f"{what}s= is a list of numbers, not {wanted!r}") from None
    if not chosen:
        raise InputError(f"{what}s is empty: name at least one {what}")
    for index in chosen:
        check_index(what, index, n)
    return chosen
