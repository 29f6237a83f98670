"""One run, with everything that a change later in it leaves as it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..cache import ActivationCache
from ..hooks import BoundHooks
from ..inputs import Text
from ..interventions import Intervention, Replacing
from ..model.dot_product import DotProduct, Keys, Values
from ..model.memory import Kept, Nothing
from ..model.pass_ import Pass
from ..model.transformer import Transformer
from ..recorder import CacheRecorder
from ..sites import Site
from .changes import Change, at_text, held, n_units


class Keeping(Nothing):
    """A whole text at once, as in any run, and what each layer kept of it."""

    def __init__(self):
        self.kept: dict[int, Kept] = {}

    def extend(
        self, layer: int, positions: Int[Tensor, "batch pos"], new: Kept, window: int | None = None
    ) -> tuple[Int[Tensor, "batch key"], Kept]:
        self.kept[layer] = new
        return super().extend(layer, positions, new, window)


@dataclass(frozen=True)
class Recorded:
    """A run of examples [example, column].

    streams: what enters each layer, and then the last stream.
    kept:    what each layer's attention kept of it.
    cache:   the values at the sites that were asked for.
    held:    the interventions that it ran with, which the cells have too.
    """

    text: Text
    streams: tuple[Float[Tensor, "example column d_model"], ...]
    kept: dict[int, Kept]
    cache: ActivationCache
    held: Mapping[str, tuple[Change, ...]]
    _expanded: dict[int, tuple[Keys, Values]] = field(default_factory=dict, repr=False)

    @property
    def positions(self) -> Int[Tensor, "example column"]:
        return self.text.positions

    @property
    def real(self) -> Bool[Tensor, "example column"]:
        return self.text.positions >= 0

    @property
    def n_examples(self) -> int:
        return len(self.text.positions)

    @property
    def n_columns(self) -> int:
        return self.text.positions.shape[1]

    def keys_and_values(self, mixer: DotProduct) -> tuple[Keys, Values]:
        """Of one layer; expanded from latents once, where there are such."""
        if mixer.layer not in self._expanded:
            self._expanded[mixer.layer] = mixer.keys_and_values(self.kept[mixer.layer])
        return self._expanded[mixer.layer]


@torch.no_grad()
def record(model: Transformer, text: Text, sites: Sequence[Site] = (), hooks: BoundHooks | None = None) -> Recorded:
    """Run a text and keep it. Hooks that are functions count here, and cells know nothing of them: see `declared`."""
    hooks = hooks or {}
    memory, recorder = Keeping(), CacheRecorder(sites, text, None, None, grad=False)
    at = Pass(text.positions, padded=text.padded, memory=memory, recorder=recorder, hooks=hooks)
    streams = [model.embed(text.tokens, at)]
    for block in model.blocks:
        streams.append(block(streams[-1], at))
    if any(site in model.ln_final.sites for site in sites):
        model.ln_final(streams[-1], at)
    every = {
        name: tuple(held(hook, model.sites.one(name), text) for hook in given if isinstance(hook, Intervention))
        for name, given in hooks.items()
    }
    return Recorded(text, tuple(streams), memory.kept, recorder.cache(model, at.attended), every)


def declared(hooks: BoundHooks, model: Transformer, text: Text) -> bool:
    """Whether all that hooks do is written down beforehand, and none makes a query weigh what comes after it."""
    pairs = [(model.sites.one(name), hook) for name, given in hooks.items() for hook in given]
    return all(isinstance(hook, Intervention) and _looks_back(hook, site, text) for site, hook in pairs)


def _looks_back(hook: Intervention, site: Site, text: Text) -> bool:
    """A pattern is taken as it is given; scores are masked after any hook."""
    if not site.name.endswith("hook_pattern") or not isinstance(hook, Replacing):
        return True
    real, (n_examples, n_columns) = text.positions >= 0, text.tokens.shape
    pattern = hook.values(at_text(site, text), (n_examples, n_units(site), n_columns, n_columns))
    behind = torch.ones(n_columns, n_columns, dtype=torch.bool, device=real.device).tril()
    weighs = (pattern.to(real.device) != 0).any(1)
    return weighs.shape[1:] == behind.shape and not bool((weighs & ~(behind & real[:, None])).any())
