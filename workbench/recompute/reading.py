"""What a metric reads of the rows: at which column, which logits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..metrics import Metric, MetricLike, measure
from ..model.transformer import Transformer
from .changes import Change
from .cone import ConePass
from .record import Recorded
from .rows import Rows

Values = Float[Tensor, "cell example"]


class Reading(ABC):
    """A metric at work on one recorded run.

    last: [example] the last column that it reads.
    base: [example] what it says of the recorded run.
    """

    last: Int[Tensor, " example"]
    base: Float[Tensor, " example"]

    @abstractmethod
    def of(
        self, x: Float[Tensor, "token 1 d_model"], rows: Rows, changes: Mapping[str, Change], n_cells: int
    ) -> Values:
        """What it says of each cell, given the last stream of what the cells changed; the base where they did not."""


class OfMetric(Reading):
    """A metric that says which column it reads and perhaps which tokens: nothing else is computed."""

    def __init__(self, model: Transformer, recorded: Recorded, metric: Metric):
        self.model, self.recorded, self.metric = model, recorded, metric
        n_examples, n_columns = recorded.n_examples, recorded.n_columns
        self.last = metric.positions(n_examples, n_columns).to(recorded.positions.device)
        ids = metric.ids(n_examples, model.spec.vocab_size)
        self.ids = None if ids is None else ids.to(recorded.positions.device)
        example = torch.arange(n_examples, device=self.last.device)
        rows = Rows(example, example, example, self.last, torch.zeros_like(example))
        self.base = self._scores(rows.of_tokens(recorded.streams[-1])[:, None], rows, {})

    def of(
        self, x: Float[Tensor, "token 1 d_model"], rows: Rows, changes: Mapping[str, Change], n_cells: int
    ) -> Values:
        values = self.base.repeat(n_cells, 1)
        ends = (rows.column == self.last[rows.example[rows.row]]).nonzero()[:, 0]
        ending = Rows(rows.cell, rows.example, rows.row[ends], rows.column[ends], torch.zeros_like(ends))
        values[rows.cell[ending.row], rows.example[ending.row]] = self._scores(x[ends], ending, changes)
        return values

    def _scores(self, x: Float[Tensor, "token 1 d_model"], rows: Rows, changes: Mapping[str, Change]) -> Tensor:
        """One for each of these tokens."""
        example = rows.example[rows.row]
        normed = self.model.ln_final(x, ConePass(self.recorded, rows, changes))[:, 0]
        unembedding = self.model.unembedding
        logits = unembedding(normed) if self.ids is None else unembedding.picked(normed, self.ids[example])
        return self.metric.score(logits.float(), example)


class OfCallable(Reading):
    """A function of whole logits, which is shown those of all examples, in order, once for each cell."""

    def __init__(self, model: Transformer, recorded: Recorded, metric: MetricLike):
        self.model, self.recorded, self.metric = model, recorded, metric
        column = torch.arange(recorded.n_columns, device=recorded.positions.device)
        self.last = torch.where(recorded.real, column, -1).amax(1)
        example = torch.arange(recorded.n_examples, device=column.device)
        every = Rows.reached(example, example, torch.ones_like(recorded.real))
        self.logits = self._logits(every.of_tokens(recorded.streams[-1])[:, None], every, {})
        self.logits = self.logits.view(recorded.n_examples, recorded.n_columns, -1)
        self.base = measure(metric, self.logits.clone()).to(column.device)

    def of(
        self, x: Float[Tensor, "token 1 d_model"], rows: Rows, changes: Mapping[str, Change], n_cells: int
    ) -> Values:
        values = self.base.repeat(n_cells, 1)
        cell, example = rows.cell[rows.row], rows.example[rows.row]
        for number in rows.cell.unique().tolist():
            here = (cell == number).nonzero()[:, 0]
            part = Rows(rows.cell, rows.example, rows.row[here], rows.column[here], rows.slot[here])
            logits = self.logits.clone()
            logits[example[here], rows.column[here]] = self._logits(x[here], part, changes)
            values[number] = measure(self.metric, logits).to(values.device)
        return values

    def _logits(self, x: Float[Tensor, "token 1 d_model"], rows: Rows, changes: Mapping[str, Change]) -> Tensor:
        return self.model.unembed(x, ConePass(self.recorded, rows, changes))[:, 0]


def reading_of(model: Transformer, recorded: Recorded, metric: MetricLike) -> Reading:
    if isinstance(metric, Metric):
        return OfMetric(model, recorded, metric.of_texts(recorded.real))
    return OfCallable(model, recorded, metric)
