"""What each head of a model does, as numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from ..cache import ActivationCache
from ..errors import InputError, KindError, TooLargeError, count, nearest
from ..hooked import HookedTransformer
from ..hooks import HookLike
from ..inputs import Text, TextLike, read_text
from ..keywords import checked_keywords
from ..sizes import free_memory, size_text
from .kinds import DEFAULT_KINDS
from .repeated import repeated_tokens
from .scorer import Scorer, checked_kinds

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go


@dataclass(frozen=True, repr=False)
class HeadScores:
    """How much of each kind every head is.

    values: [kind, layer, head], NaN where a layer has no such head or the texts have no place for a kind.
    kinds:  their names;  units: "share" (of attention, 0 to 1) or "nats" of each.
    chance: [kind] what uniform causal attention, to all of the text so far, scores in the same places. A layer with a
            sliding window sees less, and its uniform attention would score otherwise.

    `scores["induction"]` is [layer, head].
    """

    values: Float[Tensor, "kind layer head"]
    kinds: tuple[str, ...]
    chance: Float[Tensor, " kind"]
    units: tuple[str, ...]

    def __getitem__(self, kind: str) -> Float[Tensor, "layer head"]:
        if kind not in self.kinds:
            raise InputError(f"there are no scores of {kind!r}; {nearest(str(kind), self.kinds)}")
        return self.values[self.kinds.index(kind)]

    def top(self, kind: str, n: int = 10) -> pd.DataFrame:
        """The n heads that score highest: layer, head and score of each, highest first.

        heads = list(scores.top("induction", 3)[["layer", "head"]].itertuples(index=False))
        wb.ablate(model, text, metric, selection=heads)
        """
        self[kind]
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise InputError(f"n is {n!r}; a whole number from 1 on is wanted")
        table = self.to_dataframe()
        of_kind = table.loc[table["kind"] == kind, ["layer", "head", "score"]].dropna()
        return of_kind.nlargest(n, "score").reset_index(drop=True)

    def to_dataframe(self) -> pd.DataFrame:
        """Long form: one row per kind, layer and head."""
        import pandas as pd  # slow to import, and few programs ask for a table

        layers, heads = map(range, self.values.shape[1:])
        index = pd.MultiIndex.from_product([self.kinds, layers, heads], names=["kind", "layer", "head"])
        return pd.DataFrame({"score": self.values.flatten().numpy()}, index=index).reset_index()

    def __repr__(self) -> str:
        _, layers, heads = self.values.shape
        return f"HeadScores of {', '.join(self.kinds)}: {count(layers, 'layer')} x {count(heads, 'head')}"

    def figure(self) -> go.Figure:
        """A heat map over layers and heads for each kind."""
        from .. import figures

        return figures.head_scores(self)


@checked_keywords
def head_scores(
    model: HookedTransformer,
    kinds: str | Sequence[str] = DEFAULT_KINDS,
    tokens: TextLike | None = None,
    seed: int = 0,
    *,
    skip_first: bool = True,
    hooks: Iterable[HookLike] = (),
    attention_mask: Tensor | None = None,
) -> HeadScores:
    """How much every head attends as heads of these kinds do, from the patterns of one run.

    "previous_token"   to the token before the query.
    "duplicate_token"  to all earlier positions of the query's own token.
    "induction"        to all positions just after those, the query itself left out (Elhage et al. 2021; Olsson et al.
                       2022, arXiv 2209.11895).
    "first_token"      to the text's first token, the attention sink, of queries after it.
    "entropy"          not a share but the mean entropy of the rows, in nats, each divided by its sum.

    A share is the sum over a query's places and the mean over all queries, of all texts, that have any place; it is
    not renormalised. Padding is no token. The result says what uniform causal attention would score (`chance`).

    tokens:     text, texts or ids; None: 4 sequences of 50 different random tokens, each said twice (fewer in a short
                context), drawn by `seed`, none of them special, after the BOS where the tokenizer's rule puts one.
    skip_first: the first token takes what attention has no use for, often nearly all, and that is no behaviour. So
                places whose key is that token do not count for the first three kinds (of the previous token that is
                the second token's only place, so it is no query), and entropy is that of the rows without its column,
                which the first token's own row has nothing beside. "first_token" is that share and stays as it is.
    hooks:      as in any run, beside those of a view; patterns are those that the run used.

    A kind that has no place in the texts (no token comes back) scores NaN among the default ones; asked for by name it
    is an InputError, as is a name that does not exist. Patterns are made one layer at a time and dropped;
    TooLargeError where one layer's would not fit into memory.
    """
    if not isinstance(model, HookedTransformer):
        raise KindError(
            f"the heads are a model's, which wb.load or HookedTransformer gives, not {type(model).__name__}'s"
        )
    named = kinds is not DEFAULT_KINDS  # not `!=`: who writes these four out asks for them by name
    kinds = checked_kinds(kinds)
    text = _read(model, tokens, seed, attention_mask)
    scorer = Scorer(text.tokens, text.positions >= 0, kinds, skip_first)
    _refuse_empty(scorer, named)
    _refuse_too_large(model, text)
    _, cache = model.run_with_cache(
        text.tokens, "pattern", hooks, stop_at_layer=model.spec.n_layers, attention_mask=text.positions >= 0
    )
    return HeadScores(_scored(cache, scorer, model.spec.n_layers), scorer.kinds, scorer.chance, scorer.units)


def _read(model: HookedTransformer, tokens: TextLike | None, seed: int, attention_mask: Tensor | None) -> Text:
    if tokens is None:
        if attention_mask is not None:
            raise InputError("attention_mask is for tokens, and none came; random tokens have no padding")
        tokens = repeated_tokens(model, seed)
    return read_text(tokens, model.spec, model.tokenizer, model.device, attention_mask)


@torch.no_grad()
def _scored(cache: ActivationCache, scorer: Scorer, n_layers: int) -> Float[Tensor, "kind layer head"]:
    """Layers may have different numbers of heads."""
    n_heads = max(site.sizes[site.axes.index("head")] or 0 for site in cache.sites)
    values = torch.full((len(scorer.kinds), n_layers, n_heads), torch.nan)
    for site in cache.sites:
        scores = scorer.of(cache[site])
        values[:, site.layer, : scores.shape[1]] = scores.cpu()
    return values


def _refuse_empty(scorer: Scorer, named: bool) -> None:
    if scorer.empty and (named or len(scorer.empty) == len(scorer.kinds)):
        raise InputError(
            f"these texts have no place for {scorer.empty[0]!r}: too few tokens, or none that comes back; leave tokens "
            "out for random ones said twice"
        )


def _refuse_too_large(model: HookedTransformer, text: Text) -> None:
    """TooLargeError, before anything runs, where the scores and the pattern of one layer would not fit."""
    n_heads = max(site.sizes[site.axes.index("head")] or 0 for site in model.sites.select("pattern"))
    batch, pos = text.tokens.shape
    size, free = 2 * batch * n_heads * pos**2 * model.dtype.itemsize, free_memory(model.device)
    if size > free:
        raise TooLargeError(
            f"the attention of one layer over {batch} x {pos} tokens takes {size_text(size)} and {size_text(free)} are "
            "free; give fewer or shorter texts"
        )
