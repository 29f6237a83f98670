"""What a metric was taken apart into."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..errors import InputError, count, nearest
from ..keywords import checked_keywords

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

UNITS = ("head", "neuron", "expert")  # kinds of which a layer has several, numbered


@dataclass(frozen=True, repr=False)
class Attribution:
    """The parts whose sum is a metric.

    values: [example, part], in order of depth.
    labels: the name of each part: "embed", "0_attn_out", "L3H5", "L3N17", "3_b_O", "ln_final_bias", ...
    kinds:  what each part is, one of "embed", "pos_embed", "attn_out", "mlp_out", "head", "neuron", "expert",
            "shared_out", "bias" and "edit", which is what a hook put in place of a sum.
    layers: [part] the layer of each; -1 outside the layers.
    units:  [part] the number of each head, neuron or expert in its layer; -1 for other parts.
    total:  [example] the metric of the run, which the parts sum to; before any softcap of the logits.
    by:     "component", "head" or "neuron".
    of:     "logit" or "logit_diff".
    softcapped: whether the model's logits have a softcap, so that the total is not the metric of its capped logits.
    """

    values: Float[Tensor, "example part"]
    labels: tuple[str, ...]
    kinds: tuple[str, ...]
    layers: Int[Tensor, " part"]
    units: Int[Tensor, " part"]
    total: Float[Tensor, " example"]
    by: str
    of: str
    softcapped: bool

    @property
    def mean(self) -> Float[Tensor, " part"]:
        """Of each part, over examples."""
        return self.values.mean(0)

    def grid(self) -> Float[Tensor, "example layer unit"]:
        """Heads by layer, [example, layer, head], or neurons, of a mixture its experts; NaN where a layer has fewer, or
        was not split."""
        chosen = self.units >= 0
        if not chosen.any():
            raise InputError(f"this attribution is by {self.by} and has no heads or neurons; take it by='head'")
        layers, units = self.layers[chosen], self.units[chosen]
        shape = (len(self.values), int(self.layers.max()) + 1, int(units.max()) + 1)
        grid = self.values.new_full(shape, torch.nan)
        grid[:, layers, units] = self.values[:, chosen]
        return grid

    def to_dataframe(self) -> pd.DataFrame:
        """Long form: one row per example and part."""
        import pandas as pd  # slow to import, and few programs ask for a table

        parts, n_parts = self._table(), len(self.labels)
        table = pd.concat([parts] * len(self.values), ignore_index=True)
        table.insert(0, "example", [example for example in range(len(self.values)) for _ in range(n_parts)])
        return table.assign(value=self.values.flatten().numpy())

    @checked_keywords
    def top(self, n: int = 10, kind: str | None = None) -> pd.DataFrame:
        """The n parts that add or take away most, by their mean over examples; kind: only of this kind. To ablate the
        strongest heads:

            heads = list(parts.top(5, kind="head")[["layer", "head"]].itertuples(index=False))
            wb.ablate(model, tokens, metric, selection=heads)
        """
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise InputError(f"n is {n!r}; a whole number from 1 on is wanted")
        if kind is not None and kind not in self.kinds:
            raise InputError(f"no part is of kind {kind!r}; {nearest(str(kind), dict.fromkeys(self.kinds))}")
        table = self._table().assign(value=self.mean.numpy())
        table = table if kind is None else table.loc[table["kind"] == kind]
        return table.sort_values("value", key=abs, ascending=False, kind="stable").head(n).reset_index(drop=True)

    def _table(self) -> pd.DataFrame:
        """A row for each part: its name, kind and layer, and its number where it has one."""
        import pandas as pd

        kinds, layers, units = (
            pd.Series(list(column)) for column in (self.kinds, self.layers.tolist(), self.units.tolist())
        )
        table = pd.DataFrame({"part": list(self.labels), "kind": kinds})
        table["layer"] = layers.astype("Int64").mask(layers < 0)
        for unit in UNITS:
            if unit in self.kinds:
                table[unit] = units.astype("Int64").where(kinds == unit)
        return table

    def __repr__(self) -> str:
        parts, examples = count(len(self.labels), "part"), count(len(self.values), "example")
        capped = ", before the softcap" if self.softcapped else ""
        return f"Attribution of {self.of} by {self.by}: {parts}, {examples}, mean {self.total.mean():.3f}{capped}"

    def figure(self) -> go.Figure:
        """Bars in order of depth, or heads by layer."""
        from .. import figures

        return figures.attribution(self)
