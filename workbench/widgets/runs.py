"""One run of a model, kept for looking at: its patterns, the values that heads move, and what they move a metric by."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import torch
from einops import einsum
from jaxtyping import Float
from torch import Tensor

from ..attribution.readout import Readout, read_out
from ..decompose import head_values, refuse_unless_sum
from ..errors import InputError, KindError, MetricError
from ..figures.tokens import visible
from ..hooked import HookedTransformer
from ..inputs import Text
from ..metrics import MetricLike, resolve
from ..metrics._answers import TokenLike, ids_of_each
from ..metrics.logits import Logit, LogitDiff
from .patterns import OfCache, check_index


class Run:
    """text: what was run, all of its examples;  cache: patterns, and what values are made of."""

    def __init__(self, model: HookedTransformer, text: Text) -> None:
        if not model.sites.select("pattern"):
            raise InputError("the model has no attention to show")
        values = [block.attn.value_site.name for block in model.blocks]
        self.model, self.text = model, text
        with torch.no_grad():
            logits, self.cache = model.run_with_cache(
                text.tokens, ["*hook_pattern", *dict.fromkeys(values)], attention_mask=text.positions >= 0
            )
        self.said = logits[torch.arange(len(logits)), text.positions.argmax(1)].argmax(-1).tolist()

    def tokens(self, example: int) -> list[str]:
        """The texts of its tokens, padding left out."""
        check_index("example", example, len(self.text.tokens))
        ids = self.text.tokens[example][self.text.positions[example] >= 0]
        return self.model.token_texts(ids.tolist())

    def patterns(self, example: int, positions: Sequence[int]) -> OfCache:
        tokens = self.tokens(example)
        return OfCache(self.cache, [tokens[position] for position in positions], example, positions)


def checked_model(model: object) -> HookedTransformer:
    if not isinstance(model, HookedTransformer):
        raise KindError(f"a model that wb.load or HookedTransformer gives is wanted, not {type(model).__name__}")
    return model


class Sources:
    """What a head takes from a position that it attends to, for one example of a run.

    metric: `wb.logit` or `wb.logit_diff`.
    """

    def __init__(self, run: Run, shown: OfCache, metric: MetricLike) -> None:
        self.run, self.shown, self.example = run, shown, shown.example
        given = resolve(metric, run.model.tokenizer)
        if not isinstance(given, (Logit, LogitDiff)):
            raise MetricError(f"a contribution is to wb.logit or wb.logit_diff, not to {type(given).__name__}")
        self.metric = given.of_texts(run.text.tokens, run.text.positions >= 0, {})

    @torch.no_grad()
    def norms(self, layer: int) -> Float[Tensor, "head key"]:
        """|v W_O| of each position, by which attention is weighted (Kobayashi et al. 2020, arXiv 2004.10102)."""
        v, W_O = self._values(layer), self._W_O(layer)
        gram = einsum(W_O, W_O, "head i d_model, head j d_model -> head i j")
        return einsum(v, gram, v, "key head i, head i j, key head j -> head key").clamp_min(0).sqrt().cpu()

    @torch.no_grad()
    def contributions(self, layer: int) -> Float[Tensor, "head key"]:
        """What a position adds to the metric through a head for each unit of attention to it: v W_O along the metric's
        direction, scales of norms being those of the run (Wang et al. 2022, section 3.1)."""
        return einsum(self._values(layer), self._onto(layer), "key head d, head d -> head key").cpu()

    @torch.no_grad()
    def direct(self, layer: int) -> Float[Tensor, " head"]:
        """What each head adds to the metric, of what it gathered from all positions, after hooks."""
        z = self.readout[self.run.model.blocks[layer].attn.hook_z][self.example].float()
        return einsum(z, self._onto(layer), "head d, head d -> head").cpu()

    def _onto(self, layer: int) -> Float[Tensor, "head d_value"]:
        """What a value is projected onto."""
        block = self.run.model.blocks[layer]
        direction = self.readout.before(block.ln1_post, self.readout.direction)[self.example].float()
        return einsum(self._W_O(layer), direction, "head d d_model, d_model -> head d")

    def changed(self, layer: int) -> bool:
        """Whether a hook changes what heads gathered, so that it is not what their patterns say."""
        return self.readout.edited([self.run.model.blocks[layer].attn.hook_z])

    @cached_property
    def readout(self) -> Readout:
        refuse_unless_sum(self.run.model, self.run.model.spec.n_layers)
        with torch.no_grad():
            return read_out(self.run.model, self.run.text, self.metric)

    def check(self) -> None:
        """InputError where it has no contributions: the stream is no sum, or the metric is read elsewhere."""
        _ = self.readout, self.query

    @property
    def position(self) -> int:
        """Where in the text the metric is read."""
        column = self.metric.columns(*self.run.text.tokens.shape)[self.example, 0]
        return int(self.run.text.positions[self.example, column])

    @property
    def query(self) -> int:
        """Its index among the positions shown. InputError where it is not among them."""
        if self.position not in self.shown.positions:
            raise InputError(
                f"the metric reads position {self.position}, which is not among those shown; choose positions= with it"
            )
        return self.shown.positions.index(self.position)

    @property
    def label(self) -> str:
        """The metric in words, tokens made visible."""
        names = [self._names(token) for token in self.metric.tokens or ()]
        return f"logit of {names[0]}" if len(names) == 1 else f"logit of {names[0]} less that of {names[1]}"

    def _names(self, token: TokenLike) -> str:
        ids, there = ids_of_each(token, len(self.run.text.tokens), self.run.model.spec.vocab_size)
        chosen = ids[self.example][there[self.example]].tolist()
        return "/".join(visible(text) for text in self.run.model.token_texts(chosen))

    def _values(self, layer: int) -> Float[Tensor, "key head d_value"]:
        """Of the positions shown, one for each query head."""
        values = head_values(self.run.cache, layer)[self.example, self.shown.columns]
        group = self.shown.n_heads[layer] // self.shown.n_kv_heads[layer]
        return values.float().repeat_interleave(group, 1)

    def _W_O(self, layer: int) -> Float[Tensor, "head d_value d_model"]:
        return self.run.model.blocks[layer].attn.W_O.float()
