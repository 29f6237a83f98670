"""AttentionDashboard: every head of a text at a glance, one of them in full, and what each token looks at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import plotly.graph_objects as go
import traitlets
from torch import Tensor
from traitlets import observe

from .. import figures
from ..errors import KindError, nearest
from ..heads import HeadScores
from ..hooked import HookedTransformer
from ..inputs import TextLike
from ..metrics import MetricLike
from . import assets
from .attention_choices import AttentionChoices
from .choices import CHOICES, of_state
from .export import View
from .standalone import attention_state
from .subjects import Chosen, OfModel, OfTensors, Subject

if TYPE_CHECKING:
    import pandas as pd

SCRIPTS = ("base", "matrix", "weights", "heads", "strip", "pattern", "readout", "save", "attention")
STYLES = ("base", "attention")


class AttentionDashboard(AttentionChoices):
    """Thumbnails of all heads, the pattern of one, the tokens, and the weights of the token that is looked at.

    >>> w = AttentionDashboard(model, "When Mary and John went to the store")  # doctest: +SKIP
    >>> w.layer, w.head, w.query = 5, 3, 7  # doctest: +SKIP
    >>> wb.ablate(model, text, metric, selection=w.selection)  # doctest: +SKIP

    All of these go both ways, and so does `state`, which holds them all as JSON for the constructor to take back:

    layer, head:  the head shown in full.
    query:        the position that is locked, -1 for none;  queries: all that are, summed, `query` the last of them.
    selection:    the heads that are locked, (layer, head) pairs.
    example:      which text of a batch.
    quantity:     "attention"; "value_weighted", times |v W_O| (Kobayashi et al. 2020, arXiv 2004.10102);
                  "contribution", what each position adds to the metric through this head, at the metric's query, the
                  scales of norms frozen at the run's own (Wang et al. 2022, arXiv 2211.00593, section 3.1).
    direction:    "attends_to" or "attended_by".
    scale:        of the colours: "sqrt", "linear" or "log".
    hidden:       positions whose columns are hidden;  renormalise: whether the rest of a row is divided by its sum.
    score, ordered, minimum: what heads are marked by, whether they are sorted by it, and the least of those shown.
    arrangement:  "grid", or "scatter" over the scores x and y.

    Only the head that is looked at is computed and sent; pointing at things sends nothing.
    """

    _esm = assets.module(*SCRIPTS)
    _css = assets.style(*STYLES)

    # What the view needs and nobody sets; `Opened` says what each is.
    _tokens = traitlets.List(traitlets.Unicode()).tag(sync=True)
    _against = traitlets.List(traitlets.Unicode()).tag(sync=True)
    _positions = traitlets.List(traitlets.Int()).tag(sync=True)
    _heads = traitlets.List().tag(sync=True)
    _thumbs = traitlets.Bytes().tag(sync=True)
    _thumbs_of = traitlets.Dict().tag(sync=True)
    _quantities = traitlets.List(traitlets.Unicode()).tag(sync=True)
    _pattern = traitlets.Bytes().tag(sync=True)
    _shown = traitlets.Dict().tag(sync=True)
    _columns = traitlets.Bytes().tag(sync=True)
    _columns_of = traitlets.Dict().tag(sync=True)
    _row = traitlets.Bytes().tag(sync=True)
    _row_of = traitlets.Dict().tag(sync=True)
    _names = traitlets.List(traitlets.Unicode()).tag(sync=True)
    _examples = traitlets.Int(1).tag(sync=True)
    _note = traitlets.Unicode().tag(sync=True)

    def __init__(
        self,
        model: HookedTransformer,
        tokens: TextLike,
        *,
        against: HookedTransformer | TextLike | None = None,
        metric: MetricLike | None = None,
        scores: HeadScores | None = None,
        positions: Sequence[int] | None = None,
        layers: Sequence[int] | None = None,
        heads: Sequence[int] | None = None,
        names: Sequence[str] = ("this run", "against"),
        attention_mask: Tensor | None = None,
        state: Mapping[str, Any] | None = None,
        **choices: Any,
    ) -> None:
        """Runs `model` once on `tokens`: text, a list of texts, or an int tensor [pos] or [batch, pos].

        against:   a second run to lay beside it: other tokens, as many, or another model (a view with hooks, another
                   checkpoint) on the same;  names: what the two are called.
        metric:    `wb.logit` or `wb.logit_diff`, for contributions; None: the logit of what the model says at the end.
        scores:    of `wb.head_scores`; None: how these very patterns score.
        positions, layers, heads: what is shown; None: all that a page holds, and a note where that is not all.
        state:     another dashboard's `state`.  choices: any of the traits by name, such as layer=5.

        Raises InputError for what does not exist or does not fit, TooLargeError for more than a page holds.
        """
        chosen = Chosen(positions, layers, heads, _checked_scores(scores))
        self._open(
            OfModel(model, tokens, against, metric, attention_mask, chosen, _checked_names(names)), state, choices
        )

    @classmethod
    def from_weights(
        cls,
        tokens: Iterable[str],
        weights: Any,
        *,
        against: Any = None,
        scores: HeadScores | None = None,
        positions: Sequence[int] | None = None,
        layers: Sequence[int] | None = None,
        heads: Sequence[int] | None = None,
        names: Sequence[str] = ("these", "against"),
        state: Mapping[str, Any] | None = None,
        **choices: Any,
    ) -> AttentionDashboard:
        """From weights at hand: a sequence over layers of [head, query, key] or [batch, head, query, key], or one
        tensor [layer, head, query, key]; `against` likewise. What columns are weighed by wants a model.

        Raises InputError where ranks, shapes or tokens do not fit, KindError for what is no sequence of them.
        """
        self = cls.__new__(cls)
        chosen = Chosen(positions, layers, heads, _checked_scores(scores))
        example = choices.get("example", 0)
        self._open(OfTensors(tokens, weights, against, chosen, _checked_names(names), example), state, choices)
        return self

    def _open(self, subject: Subject, state: Mapping[str, Any] | None, choices: dict[str, Any]) -> None:
        for name in choices:
            if name not in CHOICES:
                raise TypeError(f"AttentionDashboard has no argument {name!r}; {nearest(name, CHOICES)}")
        saved = of_state(state, subject.identity) if state is not None else {}
        if "query" in choices or "queries" in choices:  # which are one choice
            saved = {name: value for name, value in saved.items() if name not in ("query", "queries")}
        wanted = {**saved, **choices}
        example = wanted.get("example", 0)
        self._subject, self._opened = subject, subject.open(example)
        layer, head = self._opened.heads[0]
        layer = wanted.get("layer", layer)
        head = wanted.get("head", next(iter(self._opened.heads_of(layer)), head))
        super().__init__(
            **self._opened.first_message(),
            **self._opened.pattern(layer, head),
            layer=layer,
            head=head,
            example=example,
            _names=list(subject.named),
            _examples=subject.n_examples,
        )
        self.observe(self._answer, names=["layer", "head", "quantity", "queries", "direction"])
        self._apply({name: wanted[name] for name in CHOICES if name in wanted})
        self.state = self._snapshot()

    # What is sent.

    def _answer(self, change: Any) -> None:
        """Sends what the view now needs; one message, so that no view ever has bytes it would misread."""
        if self.head not in (there := self._opened.heads_of(self.layer)):
            self.head = there[0]  # layers may have different heads
            return
        try:
            news = self._news()
        except Exception as error:  # who turns the view sees no traceback: the view tells, and Python's setter too
            why = f"{type(error).__name__}: {error}"
            self._failed = {"layer": self.layer, "head": self.head, "quantity": self.quantity, "why": why}
            raise
        with self.hold_sync():
            for name, value in news.items():
                setattr(self, name, value)
            self._failed = {}

    def _news(self) -> dict[str, Any]:
        place, opened = (self.layer, self.head), self._opened
        news: dict[str, Any] = {}
        if (self._shown.get("layer"), self._shown.get("head")) != place:
            news |= opened.pattern(*place)
        if self.quantity != "attention" and self._columns_of != {**self._columns_of, **self._wanted_columns()}:
            news |= opened.columns(*place, self.quantity)
            if self.quantity == "contribution" and opened.direct is None:
                opened.with_direct()
                news["_scores"] = opened.scores()
        wanted = {"layer": self.layer, "head": self.head, "queries": self.queries, "direction": self.direction}
        if self.queries and self._row_of != wanted:
            news |= opened.rows(*place, self.queries, self.direction)
        return news

    def _wanted_columns(self) -> dict[str, Any]:
        return {"layer": self.layer, "head": self.head, "quantity": self.quantity}

    @observe("example")
    def _other_example(self, change: Any) -> None:
        before, self._opened = self._opened, self._subject.open(change.new)
        there = self._opened.positions
        if before.direct is not None:
            self._opened.with_direct()
        with self.hold_sync():
            for name, value in {**self._opened.first_message(), **self._opened.pattern(self.layer, self.head)}.items():
                setattr(self, name, value)
            self._columns, self._columns_of, self._row, self._row_of = b"", {}, b"", {}
            if not self._opened.can(self.quantity):
                self.quantity = "attention"  # the metric is read outside of what is shown of this text
            for name in ("score", "x", "y"):
                if getattr(self, name) not in self._kinds():
                    setattr(self, name, "")  # this text has no place for it
            self.hidden = [position for position in self.hidden if position in there]
            self.queries = [query for query in self.queries if query in there]
            self._answer(change)

    # What it knows, to read.

    @property
    def tokens(self) -> list[str]:
        """The texts of the positions shown."""
        return list(self._opened.first.tokens)

    @property
    def positions(self) -> list[int]:
        """Where these stand in the text."""
        return list(self._opened.positions)

    @property
    def note(self) -> str:
        """What is not shown of it all, in words; empty where nothing is left out."""
        return self._note

    @property
    def scores(self) -> pd.DataFrame:
        """What heads are marked by: kind, layer, head, score, chance (NaN where there is none)."""
        import pandas as pd

        pairs = self._opened.heads
        if not self._scores:  # of a single token there is nothing to say
            return pd.DataFrame(columns=["kind", "layer", "head", "score", "chance"])
        tables = [
            pd.DataFrame(pairs, columns=["layer", "head"]).assign(score=score["values"], chance=score["chance"])
            for score in self._scores
        ]
        return pd.concat(tables, keys=[score["name"] for score in self._scores], names=["kind"]).reset_index("kind")

    # Without a kernel.

    def view(self, *, layers: Sequence[int] | None = None, heads: Sequence[int] | None = None) -> View:
        """A page with all thumbnails and the patterns of `layers` and `heads`. None: of all, or, where that would be
        over 8 MB, of the head shown, those selected and those that score highest. Raises TooLargeError where those
        named would be."""
        chosen = {name: getattr(self, name) for name in CHOICES}
        sent = {"_names": self._names, "_examples": 1, **chosen}
        return View("Attention", SCRIPTS, STYLES, attention_state(self._opened, sent, layers, heads))

    def figure(self) -> go.Figure:
        """The head shown, as it is shown, of the first run: with columns hidden and weighed."""
        title = " ".join([f"Layer {self.layer}, head {self.head}", *self._hides()])
        quantity = "weight" if self.quantity == "attention" else self.quantity.replace("_", "-")
        return figures.attention(self._present(), self._opened.first.tokens, title, quantity=quantity)

    def to_dataframe(self) -> pd.DataFrame:
        """The head shown, as it is shown: a row for each query and key (of locked tokens, if any are; a contribution is
        made at one query), and a column for each run."""
        import pandas as pd

        opened = self._opened
        runs = [self._present(run) for run in range(len(opened.runs))]
        n, half = len(runs[0]), not any(np.triu(run, 1).any() for run in runs)
        locked = [opened.positions.index(query) for query in self.queries] or range(n)
        if self.direction == "attended_by":
            at = [(q, k) for k in locked for q in range(k if half else 0, n)]
        else:
            queries = [opened.sources[0].query] if self.quantity == "contribution" else locked
            at = [(q, k) for q in queries for k in range(q + 1 if half else n)]
        columns: dict[str, list[Any]] = {
            "query": [opened.positions[q] for q, _ in at],
            "query_token": [opened.first.tokens[q] for q, _ in at],
            "key": [opened.positions[k] for _, k in at],
            "key_token": [opened.first.tokens[k] for _, k in at],
        }
        named = [self.quantity, *([f"{self.quantity} {self._names[1]}"] if opened.second else [])]
        columns |= {name: [float(run[q, k]) for q, k in at] for name, run in zip(named, runs, strict=True)}
        return pd.DataFrame(columns)

    def _present(self, run: int = 0) -> Any:
        hidden = [self._opened.positions.index(position) for position in self.hidden]
        return self._opened.present(self.layer, self.head, self.quantity, hidden, self.renormalise, run)

    def _hides(self) -> list[str]:
        """Which columns are hidden, in words."""
        if not self.hidden:
            return []
        how = "the rest renormalised" if self.renormalise else "the rest as it was"
        columns = "column" if len(self.hidden) == 1 else "columns"
        return [f"({columns} {', '.join(map(str, self.hidden))} hidden, {how})"]

    def __repr__(self) -> str:
        opened = self._opened
        return f"AttentionDashboard of {len(opened.heads)} heads and {len(opened.positions)} positions"


def _checked_names(names: Sequence[str]) -> tuple[str, str]:
    if isinstance(names, str) or len(names) != 2 or not all(isinstance(name, str) for name in names):
        raise KindError(f"names are what the two runs are called, two texts, not {names!r}")
    return names[0], names[1]


def _checked_scores(scores: object) -> HeadScores | None:
    if scores is not None and not isinstance(scores, HeadScores):
        raise KindError(f"scores are those of wb.head_scores, not {type(scores).__name__}")
    return scores
