"""PatchingDashboard: a sweep as a heat map, pair by pair, beside the attention of the cell that is looked at."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any, cast

import plotly.graph_objects as go
import traitlets
from ipywidgets import Widget, widget_serialization
from traitlets import validate

from .. import figures
from ..errors import KindError, TooLargeError, count
from ..figures.patching_map import DONE, SITES
from ..hooked import HookedTransformer
from ..keywords import checked_keywords
from ..sweep_result import SweepResult
from . import assets, sweep_axes, sweep_bytes
from .attention import AttentionDashboard
from .dashboard import Dashboard
from .export import View
from .sweep_choices import CHOICES, SweepChoices, example_of
from .sweep_texts import Texts

if TYPE_CHECKING:
    import pandas as pd

SCRIPTS = (
    *("base", "matrix", "map"),
    *("patching_data", "patching_cells", "patching_page", "patching_attention", "patching"),
)
STYLES = ("base", "patching")
LIMIT = 8_000_000  # bytes of base64 in one file


class PatchingDashboard(Dashboard):
    """The effects of a sweep around zero, layers down, and all that the result knows of the cell looked at.

    >>> w = wb.PatchingDashboard(wb.ablate(model, clean, metric), model)  # doctest: +SKIP
    >>> w.cell, w.selection = [23, 3], [(23, 3), (29, 1)]  # doctest: +SKIP
    >>> wb.ablate(model, clean, metric, selection=w.selection)  # doctest: +SKIP

    These go both ways:
    cell:      the locked cell, a number for each of `result.axes` (or the name of its place), [] for none. With a model
               it opens in an attention view, `attention`: of the pair looked at, or of pair 0 where all are.
    pair:      whose own effects are shown; -1: those of the means over all pairs.
    show:      "effect", or "value", the metric itself.
    slice:     the place on the third axis, where there is one; -1: the place of the largest effect along it.
    selection: (layer, head) pairs, as `wb.ablate` and `wb.activation_patching` take them.
    state:     all of these as JSON, which a new dashboard of the same sweep takes back.

    Pointing at cells sends nothing. Intervals are of the effect over pairs, 95 % (see `SweepResult.interval`); those of
    more than 2,000 cells are made when a cell is locked.
    """

    _esm = assets.module(*SCRIPTS)
    _css = assets.style(*STYLES)

    cell = traitlets.List().tag(sync=True)
    pair = traitlets.Int(-1).tag(sync=True)
    show = traitlets.Unicode("effect").tag(sync=True)
    slice = traitlets.Int(-1).tag(sync=True)
    selection = traitlets.List().tag(sync=True)
    state = traitlets.Dict()
    attention = traitlets.Instance(Widget, allow_none=True).tag(sync=True, **widget_serialization)

    # What the view needs and nobody sets; see `sweep_bytes` for the numbers.
    _sweep = traitlets.Dict().tag(sync=True)
    _means = traitlets.Bytes().tag(sync=True)
    _runs = traitlets.Bytes().tag(sync=True)
    _values = traitlets.Bytes().tag(sync=True)
    _sent = traitlets.List().tag(sync=True)  # whose values these are
    _texts = traitlets.List().tag(sync=True)  # theirs: {"clean": [text], "corrupted": [text]}, by column
    _interval = traitlets.Dict().tag(sync=True)  # {"cell", "between"}: of the locked cell, where not all were made
    _opened = traitlets.Int(-1).tag(sync=True)  # whose attention is open
    _failed = traitlets.Unicode("").tag(sync=True)  # why the attention could not be had

    @checked_keywords
    def __init__(
        self,
        result: SweepResult,
        model: HookedTransformer | None = None,
        *,
        cell: Sequence[int | str] = (),
        pair: int = -1,
        show: str = "effect",
        slice: int = -1,
        selection: Sequence[tuple[int, int]] = (),
        state: dict[str, Any] | None = None,
    ) -> None:
        """result: of `wb.activation_patching`, `wb.ablate` or a file, over at most three axes.
        model:  what it is of, for the attention of a cell and the tokens of each pair.
        state:  another dashboard's, in place of the choices.

        Raises KindError for what is no sweep or model, InputError for a choice that does not exist, TooLargeError for
        more than 150,000 cells.
        """
        self._result = _checked(result)
        self._texts_of = Texts(result, _checked_model(model))
        self._axes = sweep_axes.axes_of(result)
        sweep_bytes.check_size(result)
        self._choices = SweepChoices(result, self._axes)
        given = {"cell": cell, "pair": pair, "show": show, "slice": slice, "selection": selection}
        choices = {name: self._choices.check(name, choice) for name, choice in given.items()}
        if state is not None:
            choices = self._choices.of_state(state)
        super().__init__(
            **choices,
            state=self._choices.to_state(choices),
            _sweep=self._described(),
            _means=sweep_bytes.means(result, self._axes),
            _runs=sweep_bytes.runs(result),
            **self._looked_at(choices["cell"], choices["pair"]),
        )
        self._open()
        self.observe(self._remember, names=list(CHOICES))
        self.observe(self._look, names=["cell", "pair"])
        self.observe(self._recall, names="state")

    @property
    def result(self) -> SweepResult:
        """The sweep that is shown."""
        return self._result

    def _described(self) -> dict[str, Any]:
        """All that is no number."""
        result, axes = self._result, self._axes
        meaning = f" ({SITES[result.site]})" if result.site in SITES else ""
        return {
            "title": f"{result.site}{meaning}, {DONE[result.direction]}",
            "direction": result.direction,
            "down": axes.down.to_json(),
            "across": axes.across.to_json(),
            "sheets": axes.sheets.to_json(),
            "pairs": len(result.values),
            "means": [*sweep_bytes.MEANS, *(sweep_bytes.CHANCE if sweep_bytes.has_intervals(result) else ())],
            "unit": sweep_axes.unit_of(result) or "",
            "offers": list(range(len(result.values))),  # pairs that can be chosen
            "kernel": True,
        }

    # ---- choices ---------------------------------------------------------------------------------------------------

    @validate(*CHOICES)
    def _existing(self, proposal: Any) -> Any:
        return self._choices.check(proposal.trait.name, proposal.value)

    @validate("state")
    def _readable(self, proposal: Any) -> Any:
        return self._choices.to_state(self._choices.of_state(proposal.value))

    def _remember(self, _: Any) -> None:
        self.state = self._choices.to_state({name: getattr(self, name) for name in CHOICES})

    def _recall(self, _: Any) -> None:
        with self.hold_trait_notifications():
            for name in CHOICES:
                setattr(self, name, self.state[name])

    # ---- what is looked at -----------------------------------------------------------------------------------------

    def _look(self, _: Any) -> None:
        with self.hold_sync():  # one message, so that no view has numbers that it would misread
            for name, value in self._looked_at(self.cell, self.pair).items():
                setattr(self, name, value)
        self._open()

    def _looked_at(self, cell: list[int], pair: int) -> dict[str, Any]:
        """What a view is sent for a cell and a pair, and has not got yet."""
        result = self._result
        many = len(result.values) > 1 and not sweep_bytes.has_intervals(result)
        made = sweep_bytes.interval_at(result, sweep_axes.index_of(result, cell)) if many and cell else None
        interval = {} if made is None else {"cell": cell, "between": made}
        all_fit = sweep_bytes.all_fit(result, self._texts_of.bytes_of_one)
        pairs = list(range(len(result.values))) if all_fit else [pair]
        if pairs == [-1] or pairs == self._sent:
            return {"_interval": interval}
        return {"_interval": interval, **self._numbers_of(pairs)}

    def _numbers_of(self, pairs: list[int]) -> dict[str, Any]:
        values = sweep_bytes.values_of(self._result, self._axes, pairs)
        return {"_values": values, "_sent": pairs, "_texts": [self._texts_of.of(pair) for pair in pairs]}

    def _open(self) -> None:
        """The locked cell in an attention view, which is made when the first is locked."""
        texts, pair = self._texts_of, max(self.pair, 0)
        self._failed = ""
        if texts.model is None or not self.cell:
            return
        if "clean" not in texts.runs:
            self._failed = "this sweep does not hold its texts (files of earlier versions do not)"
            return
        try:
            place = texts.place(pair, self.cell)
            if self._opened != pair or not texts.shows(cast(Any, self.attention), place):
                old, self.attention, self._opened = self.attention, texts.attention(pair, place), pair
                if isinstance(old, Widget):
                    old.close()
            else:
                for name, at in place.items():
                    setattr(self.attention, name, at)
        except Exception as error:  # who clicks a cell sees no traceback: the view tells, and Python's setter too
            self._failed = f"{type(error).__name__}: {error}"
            raise

    # ---- what it becomes -------------------------------------------------------------------------------------------

    @checked_keywords
    def view(self, *, pairs: Sequence[int] | None = None) -> View:
        """All that a page needs, the attention view with it if one was opened. pairs: whose own effects are taken
        along; by default all if they are small (8 MB), else the one looked at, and the page says so. Raises
        TooLargeError for more than fit."""
        taken, n = self._taken(pairs), len(self._result.values)
        note = "" if len(taken) == n else f"This page holds the means, and {len(taken)} of {count(n, 'pair')}."
        chosen = {name: getattr(self, name) for name in (*CHOICES, "_interval", "_opened")}
        traits = {
            **chosen,
            "pair": self.pair if self.pair in taken else -1,
            "_sweep": {**self._sweep, "note": note, "offers": taken, "kernel": False},
        }
        numbers = {"_means": self._means, "_runs": self._runs, **self._numbers_of(taken)}
        packed = {
            name: base64.b64encode(data).decode("ascii") for name, data in numbers.items() if isinstance(data, bytes)
        }
        others = {name: data for name, data in numbers.items() if not isinstance(data, bytes)}
        frame = self.attention.html_fragment() if isinstance(self.attention, AttentionDashboard) else ""
        return View("Patching", SCRIPTS, STYLES, {"traits": {**traits, **others}, "bytes": packed, "attention": frame})

    def _taken(self, pairs: Sequence[int] | None) -> list[int]:
        n = len(self._result.values)
        room = LIMIT * 3 // 4 - len(self._means)
        of_one = 4 * self._result.mean.numel() + self._texts_of.bytes_of_one
        if pairs is None:
            return list(range(n)) if n * of_one <= room else [self.pair] if self.pair >= 0 else []
        if isinstance(pairs, str) or not isinstance(pairs, Sequence):
            raise KindError(f"pairs is {pairs!r}; a list of whole numbers is wanted")
        taken = sorted({example_of(self._result, pair) for pair in pairs} - {-1})
        if len(taken) * of_one > room:
            raise TooLargeError(f"{count(len(taken), 'pair')} make a file of more than 8 MB: pass fewer pairs=")
        return taken

    def figure(self) -> go.Figure:
        """What it shows now, as a plotly figure; without a slice, a panel for each."""
        return figures.patching(self._shown(), "mean" if self.show == "value" else "effect")

    def to_dataframe(self) -> pd.DataFrame:
        """The cells shown now: their places, the metric's value and the effect, and its interval over pairs."""
        import pandas as pd

        shown = self._shown()
        places = list(product(*(shown.places[axis] for axis in shown.axes)))
        table = pd.DataFrame(places, columns=list(shown.axes), index=range(len(places)))
        table = table.assign(value=shown.mean.flatten().numpy(), effect=shown.effect.flatten().numpy())
        if len(shown.values) < 2 or not sweep_bytes.has_intervals(shown):
            return table
        low, high = shown.interval().reshape(2, -1).numpy()
        return table.assign(low=low, high=high)

    def _shown(self) -> SweepResult:
        """The part of the sweep that is shown: one pair of it, one slice of it."""
        result = self._result
        if self.pair >= 0:
            result = replace(sweep_axes.one_pair(result, self.pair), labels=self._texts_of.labels(self.pair))
        return result if self.slice < 0 else sweep_axes.one_sheet(result, self._axes.sheets, self.slice)

    def __repr__(self) -> str:
        return f"PatchingDashboard of {self._result!r}"


def _checked(result: object) -> SweepResult:
    if not isinstance(result, SweepResult):
        kind = type(result).__name__
        raise KindError(f"a PatchingDashboard shows a sweep, such as wb.activation_patching returns, not {kind}")
    return result


def _checked_model(model: object) -> HookedTransformer | None:
    if model is not None and not isinstance(model, HookedTransformer):
        raise KindError(f"model is what wb.load or HookedTransformer gives, or None, not {type(model).__name__}")
    return model
