"""A run at the one row of each example that a metric reads, and the metric as a direction there.

With the final norm's scale as it was in the run, the way from the last stream to a logit is linear, and so is the
metric in its logits. Read backwards, the whole way is one vector for each example: what a write adds to the metric is
its product with that vector. What a part of a write adds is found by going further back in the same manner.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor

from ..cache import ActivationCache
from ..hooked import HookedTransformer
from ..inputs import Text
from ..metrics import Metric
from ..model.norms import Norm
from ..model.pass_ import Pass
from ..model.precision import at_least_float32
from ..sites import Site
from ..spec import Component

Direction = Float[Tensor, "example d_model"]
Each = Float[Tensor, " example"]


@dataclass(frozen=True)
class Readout:
    """metric: linear in logits.
    cache:  values of the row at which each example is read, [example, 1, ...].
    ids:    the tokens whose logits count.
    """

    model: HookedTransformer
    metric: Metric
    cache: ActivationCache
    ids: Int[Tensor, "example picked"]

    def __getitem__(self, site: Site) -> Float[Tensor, "example *axes"]:
        return self.cache[site.name][:, 0]

    def edited(self, sites: Sequence[Site]) -> bool:
        """Whether a hook stands at one of them."""
        return any(site.name in self.model._view_hooks for site in sites)

    @cached_property
    def output(self) -> Float[Tensor, "example d_model"]:
        """What is unembedded."""
        norm = self.model.ln_final
        return self[norm.hook_out] if isinstance(norm, Norm) else self[self.model.blocks[-1].hook_resid_post]

    @cached_property
    def total(self) -> Each:
        """The metric of the run, before any softcap."""
        logits = self.model.unembedding.uncapped(self.output)
        return self._of_logits(logits.to(self.output_direction).gather(1, self.ids)[..., None])[:, 0]

    @cached_property
    def unembed_bias(self) -> Each:
        bias = self.model.unembedding.b_U.to(self.output_direction)
        return self._of_logits(bias[self.ids][..., None])[:, 0]

    @cached_property
    def output_direction(self) -> Direction:
        """What the final norm's output is projected onto."""
        of_tokens = self.model.unembedding.directions(self.ids)
        return self._of_logits(of_tokens.to(at_least_float32(of_tokens)))

    @cached_property
    def direction(self) -> Direction:
        """What the last stream, and so each write to it, is projected onto."""
        return self.before(self.model.ln_final, self.output_direction)

    def before(self, norm: Component, direction: Direction) -> Direction:
        """A direction after a norm as one before it: the transpose of `norm.frozen`, which centres, divides by the
        run's own scale and multiplies by a gain. Where no norm stands there is at most a factor."""
        if isinstance(norm, Norm):
            return norm.center(norm.gain(direction) / self[norm.hook_scale])
        return norm.frozen(direction, None)

    def _of_logits(self, logits: Float[Tensor, "example picked width"]) -> Float[Tensor, "example width"]:
        """The metric of its tokens' logits, or of directions in place of them: it is linear, and takes both alike."""
        n_examples, _, width = logits.shape
        rows = rearrange(logits, "example picked width -> (example width) picked")
        example = torch.arange(n_examples, device=logits.device).repeat_interleave(width)
        scores = self.metric.score(rows, example, torch.zeros_like(example))
        return rearrange(scores, "(example width) -> example width", width=width)


def along(value: Float[Tensor, "... d_model"], direction: Float[Tensor, "... d_model"]) -> Float[Tensor, "..."]:
    """What a value adds to the metric: of each example, and perhaps of several to an example."""
    return (value.to(direction) * direction).sum(-1)


def read_out(model: HookedTransformer, text: Text, metric: Metric) -> Readout:
    """Run a text. metric: in its columns."""
    (n_examples, n_columns), device = text.tokens.shape, text.tokens.device
    ids = metric.ids(n_examples, model.spec.vocab_size)
    assert ids is not None  # a metric that is linear in logits names them
    recorder = OneRowEach(model.sites, metric.columns(n_examples, n_columns)[:, 0].to(device))
    at = Pass(text.positions, padded=text.padded, hooks=model._view_hooks, recorder=recorder)
    model.ln_final(model.run_blocks(model.embed(text.tokens, at), at), at)
    return Readout(model, metric, recorder.cache(model, text), ids.to(device))


class OneRowEach:
    """A recorder that keeps one row of each example, at every site that has positions.

    columns: where it stands.
    """

    def __init__(self, sites: Sequence[Site], columns: Int[Tensor, " example"]):
        self.sites = {site.name: site for site in sites if "pos" in site.axes}
        self.rows = torch.arange(len(columns), device=columns.device), columns
        self.values: dict[str, Tensor] = {}

    def keep(self, site: Site, value: Tensor) -> Tensor:
        if site.name in self.sites:
            self.values[site.name] = value[self.rows][:, None]
        return value

    def needs(self, site: Site) -> bool:
        return False

    def cache(self, model: HookedTransformer, text: Text) -> ActivationCache:
        return ActivationCache(self.values, list(self.sites.values()), text.positions[self.rows][:, None], model)
