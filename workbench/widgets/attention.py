"""AttentionDashboard: walk through layers, heads and tokens, and see where each token looks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, overload

import anywidget
import traitlets
from traitlets import validate

from ..errors import InputError
from ..figures.tokens import visible
from . import patterns
from .coding import encode
from .export import document, fragment, write_text
from .patterns import Patterns
from .standalone import attention_state

_HERE = Path(__file__).parent


class AttentionDashboard(anywidget.AnyWidget):
    """One head's pattern, its tokens, and the weights of the token that is looked at.

    >>> w = AttentionDashboard(model, "When Mary and John went to the store")  # doctest: +SKIP
    >>> w.layer, w.head, w.query = 5, 3, 7  # doctest: +SKIP

    `layer`, `head` and `query` (the locked position, -1 for none) go both ways. Only the head that is looked
    at is computed and sent; pointing at tokens sends nothing.
    """

    _esm = _HERE / "attention.js"
    _css = _HERE / "attention.css"

    layer = traitlets.Int(0).tag(sync=True)
    head = traitlets.Int(0).tag(sync=True)
    query = traitlets.Int(-1).tag(sync=True)

    # What the view needs and nobody sets: visible token texts, the choices, one pattern and whose it is.
    _tokens = traitlets.List(traitlets.Unicode()).tag(sync=True)
    _layers = traitlets.List(traitlets.Int()).tag(sync=True)
    _heads = traitlets.List(traitlets.Int()).tag(sync=True)
    _pattern = traitlets.Bytes().tag(sync=True)
    _coding = traitlets.Dict().tag(sync=True)
    _shown = traitlets.List(traitlets.Int()).tag(sync=True)
    _failed = traitlets.List().tag(sync=True)  # [layer, head, why] of a look that failed, or nothing

    _patterns: Patterns

    def __init__(
        self, model: Any, tokens: Any, *, example: int = 0, layer: int = 0, head: int = 0, query: int = -1
    ) -> None:
        """Runs `model` once on `tokens`: text, a list of texts, or an int tensor [pos] or [batch, pos].

        `example` is the row of a batch to show. Raises InputError for an example, layer, head or query
        that does not exist.
        """
        self._open(patterns.of_model(model, tokens, example), layer, head, query)

    @classmethod
    def from_weights(
        cls,
        tokens: Iterable[str],
        weights: Any,
        *,
        example: int = 0,
        layer: int = 0,
        head: int = 0,
        query: int = -1,
    ) -> AttentionDashboard:
        """From weights at hand: a sequence over layers of [head, query, key] or [batch, head, query, key],
        or one tensor [layer, head, query, key].

        Raises InputError where ranks, shapes or tokens do not fit, KindError for what is no sequence of them.
        """
        self = cls.__new__(cls)
        self._open(patterns.of_weights(tokens, weights, example), layer, head, query)
        return self

    def _open(self, shown: Patterns, layer: int, head: int, query: int) -> None:
        self._patterns = shown
        self._check_query(query)
        coding, data = encode(shown.head(layer, head))
        super().__init__(
            layer=layer,
            head=head,
            query=query,
            _tokens=[visible(token) for token in shown.tokens],
            _layers=list(range(shown.n_layers)),
            _heads=list(range(shown.n_heads)),
            _pattern=data,
            _coding=coding.to_json(),
            _shown=[layer, head],
        )
        self.observe(self._send_pattern, names=["layer", "head"])

    def _send_pattern(self, _: Any) -> None:
        if self._shown == [self.layer, self.head]:
            self._failed = []
            return
        try:
            coding, data = encode(self._patterns.head(self.layer, self.head))
        except Exception as error:  # who turns the view sees no traceback: the view tells, and Python's setter too
            self._failed = [self.layer, self.head, f"{type(error).__name__}: {error}"]
            raise
        with self.hold_sync():  # one message, so that no view ever has bytes it would misread
            self._coding, self._pattern, self._shown = coding.to_json(), data, [self.layer, self.head]
            self._failed = []

    @validate("layer")
    def _existing_layer(self, proposal: Any) -> int:
        self._patterns.check("layer", proposal.value, self._patterns.n_layers)
        return proposal.value

    @validate("head")
    def _existing_head(self, proposal: Any) -> int:
        self._patterns.check("head", proposal.value, self._patterns.n_heads)
        return proposal.value

    @validate("query")
    def _existing_query(self, proposal: Any) -> int:
        self._check_query(proposal.value)
        return proposal.value

    def _check_query(self, query: int) -> None:
        n = len(self._patterns.tokens)
        if not -1 <= query < n:
            raise InputError(f"there is no query {query}: positions go from 0 to {n - 1}, and -1 locks none")

    @overload
    def to_html(
        self, path: None = None, *, layers: Sequence[int] | None = None, heads: Sequence[int] | None = None
    ) -> str: ...
    @overload
    def to_html(
        self, path: str | Path, *, layers: Sequence[int] | None = None, heads: Sequence[int] | None = None
    ) -> Path: ...
    def to_html(
        self,
        path: str | Path | None = None,
        *,
        layers: Sequence[int] | None = None,
        heads: Sequence[int] | None = None,
    ) -> str | Path:
        """The dashboard as one HTML file that needs no kernel and no network.

        Returns the text, or writes it to `path` (whole or not at all) and returns that. `layers` and `heads`
        are those to take along, all by default. Raises TooLargeError where that would be over 8 MB.
        """
        text = document("Attention", attention_state(self._patterns, self._view(), layers, heads))
        return text if path is None else write_text(Path(path), text)

    def html_fragment(self, *, layers: Sequence[int] | None = None, heads: Sequence[int] | None = None) -> str:
        """The same as a piece of HTML, to be put into a page: a frame that keeps its styles to itself."""
        return fragment("Attention", attention_state(self._patterns, self._view(), layers, heads))

    def _view(self) -> dict[str, int]:
        return {"layer": self.layer, "head": self.head, "query": self.query}
