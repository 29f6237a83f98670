"""What a metric reads of the rows: at which column, which logits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

import torch
from jaxtyping import Bool, Float, Int
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

    read: [example column] the columns that it reads; last: [example] the last of them.
    base: [example] what it says of the recorded run.
    of_token, of_row: how many numbers it computes for each token and each row of a cell.
    """

    read: Bool[Tensor, "example column"]
    base: Float[Tensor, " example"]
    of_token: int = 0
    of_row: int = 0

    @property
    def last(self) -> Int[Tensor, " example"]:
        return torch.where(self.read, torch.arange(self.read.shape[1], device=self.read.device), -1).amax(1)

    @abstractmethod
    def of(
        self, x: Float[Tensor, "token 1 d_model"], rows: Rows, changes: Mapping[str, Change], n_cells: int
    ) -> Values:
        """What it says of each cell, given the last stream of what the cells changed; the base where they did not."""


class OfMetric(Reading):
    """A metric that says which columns it reads and perhaps which tokens: nothing else is computed."""

    def __init__(self, model: Transformer, recorded: Recorded, metric: Metric):
        self.model, self.recorded, self.metric = model, recorded, metric
        n_examples, n_columns, device = recorded.n_examples, recorded.n_columns, recorded.positions.device
        ids = metric.ids(n_examples, model.spec.vocab_size)
        self.ids = None if ids is None else ids.to(device)
        self.columns = metric.columns(n_examples, n_columns).to(device)
        self.read = (self.columns[..., None] == torch.arange(n_columns, device=device)).any(1)
        # logits, and what softmax makes of them
        self.of_row = 3 * self.columns.shape[1] * (model.spec.vocab_size if ids is None else ids.shape[1])
        example, read = (self.columns >= 0).nonzero(as_tuple=True)
        column = self.columns[example, read]
        every = torch.arange(n_examples, device=device)
        rows = Rows(every, every, example, column, torch.zeros_like(column))
        self.each = torch.zeros(self.columns.shape, device=device)
        self.each[example, read] = self._scores(rows.of_tokens(recorded.streams[-1])[:, None], rows, read, {})
        self.base = self.each.sum(1)

    def of(
        self, x: Float[Tensor, "token 1 d_model"], rows: Rows, changes: Mapping[str, Change], n_cells: int
    ) -> Values:
        each = self.each.repeat(n_cells, 1, 1)
        token, read = (self.columns[rows.example[rows.row]] == rows.column[:, None]).nonzero(as_tuple=True)
        there = Rows(rows.cell, rows.example, rows.row[token], rows.column[token], torch.zeros_like(token))
        cell, example = rows.cell[there.row], rows.example[there.row]
        each[cell, example, read] = self._scores(x[token], there, read, changes)
        return each.sum(2)

    def _scores(
        self,
        x: Float[Tensor, "token 1 d_model"],
        rows: Rows,
        read: Int[Tensor, " token"],
        changes: Mapping[str, Change],
    ) -> Float[Tensor, " token"]:
        """What each of these tokens adds."""
        example = rows.example[rows.row]
        normed = self.model.ln_final(x, ConePass(self.recorded, rows, changes))[:, 0]
        unembedding = self.model.unembedding
        logits = unembedding(normed) if self.ids is None else unembedding.picked(normed, self.ids[example])
        return self.metric.score(logits.float(), example, read)


class OfCallable(Reading):
    """A function of whole logits, which is shown those of all examples, in order, once for each cell."""

    def __init__(self, model: Transformer, recorded: Recorded, metric: MetricLike):
        self.model, self.recorded, self.metric = model, recorded, metric
        self.of_token = 2 * model.spec.vocab_size
        self.read = recorded.real
        example = torch.arange(recorded.n_examples, device=recorded.positions.device)
        every = Rows.reached(example, example, torch.ones_like(recorded.real))
        self.logits = self._logits(every.of_tokens(recorded.streams[-1])[:, None], every, {})
        self.logits = self.logits.view(recorded.n_examples, recorded.n_columns, -1)
        self.base = measure(metric, self.logits.clone()).to(example.device)

    def of(
        self, x: Float[Tensor, "token 1 d_model"], rows: Rows, changes: Mapping[str, Change], n_cells: int
    ) -> Values:
        values = self.base.repeat(n_cells, 1)
        cell, example, new = rows.cell[rows.row], rows.example[rows.row], self._logits(x, rows, changes)
        for number in rows.cell.unique().tolist():
            here = (cell == number).nonzero()[:, 0]
            logits = self.logits.clone()  # the metric may write into what it is given
            logits[example[here], rows.column[here]] = new[here]
            values[number] = measure(self.metric, logits).to(values.device)
        return values

    def _logits(self, x: Float[Tensor, "token 1 d_model"], rows: Rows, changes: Mapping[str, Change]) -> Tensor:
        return self.model.unembed(x, ConePass(self.recorded, rows, changes))[:, 0]


def reading_of(model: Transformer, recorded: Recorded, metric: MetricLike) -> Reading:
    """metric: in columns of the recorded text, `Metric.of_texts`."""
    if isinstance(metric, Metric):
        return OfMetric(model, recorded, metric)
    return OfCallable(model, recorded, metric)
