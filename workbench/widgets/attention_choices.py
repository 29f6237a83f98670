"""What can be chosen in an attention dashboard: traits that refuse what is not there, and all of them as `state`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import traitlets
from traitlets import observe, validate

from ..errors import InputError, KindError, nearest
from .choices import CHOICES, check_one_of, of_state, to_state
from .dashboard import Dashboard
from .opened import DIRECT, Opened
from .patterns import check_index
from .subjects import Subject


class AttentionChoices(Dashboard):
    """`AttentionDashboard` says what each choice is. What there is to choose from is what is opened."""

    layer = traitlets.Int(0).tag(sync=True)
    head = traitlets.Int(0).tag(sync=True)
    query = traitlets.Int(-1).tag(sync=True)
    queries = traitlets.List(traitlets.Int()).tag(sync=True)
    selection = traitlets.List().tag(sync=True)
    example = traitlets.Int(0).tag(sync=True)
    quantity = traitlets.Unicode("attention").tag(sync=True)
    direction = traitlets.Unicode("attends_to").tag(sync=True)
    scale = traitlets.Unicode("sqrt").tag(sync=True)
    hidden = traitlets.List(traitlets.Int()).tag(sync=True)
    renormalise = traitlets.Bool(False).tag(sync=True)
    score = traitlets.Unicode("").tag(sync=True)
    ordered = traitlets.Bool(False).tag(sync=True)
    minimum = traitlets.Float(None, allow_none=True).tag(sync=True)
    arrangement = traitlets.Unicode("grid").tag(sync=True)
    x = traitlets.Unicode("").tag(sync=True)
    y = traitlets.Unicode("").tag(sync=True)
    state = traitlets.Dict()

    _failed = traitlets.Dict().tag(sync=True)  # {layer, head, quantity, why} of a look that failed, or nothing
    _scores = traitlets.List().tag(sync=True)  # of the heads shown, as `Opened.scores` gives them

    _subject: Subject
    _opened: Opened

    # What is chosen.

    @observe("query")
    def _one_query(self, change: Any) -> None:
        if change.new < 0:
            self.queries = []
        elif self.queries[-1:] != [change.new]:
            self.queries = [change.new]

    @observe("queries")
    def _last_query(self, change: Any) -> None:
        self.query = change.new[-1] if change.new else -1

    @observe(*CHOICES)
    def _remember(self, change: Any) -> None:
        self.state = self._snapshot()

    @observe("state")
    def _take_back(self, change: Any) -> None:
        if change.new == self._snapshot():
            return
        before = self._snapshot()
        try:
            self._apply(of_state(change.new, self._subject.identity))
        except Exception:
            self._apply(of_state(before, self._subject.identity))
            self.state = before
            raise
        self.state = self._snapshot()

    def _snapshot(self) -> dict[str, Any]:
        return to_state(self._subject.identity, {name: getattr(self, name) for name in CHOICES})

    def _apply(self, choices: Mapping[str, Any]) -> None:
        """One after the other, each checked: held back together they would be announced before they are."""
        if "query" in choices and "queries" in choices:
            if choices["query"] != (choices["queries"] or [-1])[-1]:
                raise InputError(f"query is {choices['query']} and queries are {choices['queries']}: query is the last")
            choices = {name: value for name, value in choices.items() if name != "query"}
        for name, value in choices.items():
            setattr(self, name, value)

    # What there is to choose from.

    @validate("layer")
    def _shown_layer(self, proposal: Any) -> int:
        check_index("layer", proposal.value, self._opened.first.n_layers)
        if not self._opened.heads_of(proposal.value):
            raise InputError(f"layer {proposal.value} is not among the layers shown; choose layers= with it")
        return proposal.value

    @validate("head")
    def _shown_head(self, proposal: Any) -> int:
        self._opened.check(self.layer, proposal.value)
        return proposal.value

    @validate("example")
    def _there(self, proposal: Any) -> int:
        check_index("example", proposal.value, self._subject.n_examples)
        return proposal.value

    @validate("query")
    def _shown_query(self, proposal: Any) -> int:
        if proposal.value != -1:
            self._check_position("query", proposal.value)
        return proposal.value

    @validate("queries", "hidden")
    def _shown_positions(self, proposal: Any) -> list[int]:
        for position in proposal.value:
            self._check_position("query" if proposal.trait.name == "queries" else "column", position)
        return list(dict.fromkeys(proposal.value))

    def _check_position(self, what: str, position: int) -> None:
        shown = self._opened.positions
        if position not in shown:
            none = ", and -1 locks none" if what == "query" else ""
            gaps = "" if len(shown) == shown[-1] - shown[0] + 1 else ", with gaps"
            raise InputError(f"there is no {what} {position}: positions go from {shown[0]} to {shown[-1]}{gaps}{none}")

    @validate("selection")
    def _pairs(self, proposal: Any) -> list[tuple[int, int]]:
        pairs = []
        for item in proposal.value:
            if not isinstance(item, Sequence) or len(item) != 2 or not all(isinstance(part, int) for part in item):
                raise KindError(f"selection is a list of (layer, head) pairs; {item!r} is none")
            self._opened.check(*item)
            pairs.append(tuple(item))
        return list(dict.fromkeys(pairs))

    @validate("quantity")
    def _known_quantity(self, proposal: Any) -> str:
        check_one_of("quantity", proposal.value)
        try:
            self._opened.check_quantity(proposal.value)
        except InputError as error:  # a view that asked for it goes on with what it has, and says why
            self._failed = {"layer": self.layer, "head": self.head, "quantity": proposal.value, "why": str(error)}
            raise
        return proposal.value

    @validate("direction", "scale", "arrangement")
    def _one_of(self, proposal: Any) -> str:
        return check_one_of(proposal.trait.name, proposal.value)

    @validate("score", "x", "y")
    def _known_score(self, proposal: Any) -> str:
        if proposal.value == DIRECT and self._opened.sources and self._opened.direct is None:
            self._opened.with_direct()  # a state may ask for it before anyone looked at contributions
            self._scores = self._opened.scores()
        if proposal.value and proposal.value not in self._kinds():
            raise InputError(f"there is no score {proposal.value!r}; {nearest(proposal.value, self._kinds())}")
        return proposal.value

    def _kinds(self) -> list[str]:
        return [score["name"] for score in self._scores]

    @validate("state")
    def _own_state(self, proposal: Any) -> dict[str, Any]:
        of_state(proposal.value, self._subject.identity)
        return proposal.value
