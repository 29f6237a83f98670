"""PatchingDashboard: a sweep as a heat map, pair by pair, beside the attention of the cell that is looked at."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

import plotly.graph_objects as go
import traitlets
from ipywidgets import Widget, widget_serialization
from traitlets import validate

from .. import figures
from ..errors import InputError, KindError, TooLargeError, count, nearest
from ..figures.patching_map import DONE, SITES, TOKENS
from ..figures.tokens import visible
from ..hooked import HookedTransformer
from ..keywords import checked_keywords
from ..sweep_result import SweepResult
from . import assets, sweep_axes, sweep_bytes
from .attention import AttentionDashboard
from .dashboard import Dashboard
from .export import View

if TYPE_CHECKING:
    import pandas as pd

SCRIPTS, STYLES = ("base", "matrix", "map", "patching_data", "patching"), ("base", "patching")
SHOWS = ("effect", "value")
CHOICES = ("cell", "pair", "show", "slice", "selection")
LIMIT = 8_000_000  # bytes of base64 in one file
TOKEN_BYTES = 16  # of one token's text, about


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
    _interval = traitlets.List().tag(sync=True)  # of the locked cell, where not all were made
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
        """result: of `wb.activation_patching`, `wb.ablate` or a file, over at most three axes. model: what it is of, for
        the attention of a cell and the tokens of each pair. state: another dashboard's, in place of the choices.

        Raises KindError for what is no sweep or model, InputError for a choice that does not exist, TooLargeError for
        more than 150,000 cells.
        """
        self._result, self._model = _checked(result, model)
        self._axes = sweep_axes.axes_of(result)
        sweep_bytes.check_size(result)
        choices = {"cell": list(cell), "pair": pair, "show": show, "slice": slice, "selection": list(selection)}
        if state is not None:
            choices = self._read_state(state)
        self._all_sent = sweep_bytes.all_fit(result, self._bytes_of_texts)
        super().__init__(**choices, _sweep=self._described(), _runs=sweep_bytes.runs(result))
        self._means = sweep_bytes.means(result, self._axes)
        self._remember(None)
        self._look(None)
        self.observe(self._look, names=["cell", "pair"])
        self.observe(self._remember, names=list(CHOICES))
        self.observe(self._recall, names="state")

    @property
    def result(self) -> SweepResult:
        """The sweep that is shown."""
        return self._result

    def _described(self) -> dict[str, Any]:
        """All that is no number."""
        result, axes = self._result, self._axes
        meaning = f" ({SITES[result.site]})" if result.site in SITES else ""
        n_layers_and_units = sweep_axes.unit_of(result)
        return {
            "title": f"{result.site}{meaning}, {DONE[result.direction]}",
            "direction": result.direction,
            "down": axes.down.to_json(),
            "across": axes.across.to_json(),
            "sheets": axes.sheets.to_json(),
            "pairs": len(result.values),
            "means": [*sweep_bytes.MEANS, *(sweep_bytes.CHANCE if sweep_bytes.has_intervals(result) else ())],
            "unit": n_layers_and_units or "",
            "opens": self._model is not None,
        }

    # ---- choices ---------------------------------------------------------------------------------------------------

    @validate(*CHOICES)
    def _existing(self, proposal: Any) -> Any:
        return self._check(proposal.trait.name, proposal.value)

    def _check(self, name: str, given: Any) -> Any:
        """The choice as it is kept. Raises KindError or InputError where it is not there to be made."""
        result = self._result
        if name == "cell":
            return sweep_axes.cell_of(result, given)
        if name == "pair":
            return sweep_axes.example_of(result, given)
        if name == "slice":
            return sweep_axes.sheet_of(result, self._axes, given)
        if name == "selection":
            return sweep_axes.selection_of(result, given)
        if not isinstance(given, str) or given not in SHOWS:
            raise InputError(f"show is {given!r}; {nearest(str(given), SHOWS)}")
        return given

    @property
    def _of(self) -> dict[str, Any]:
        """What a state is of."""
        result = self._result
        shape = {axis: len(result.places[axis]) for axis in result.axes}
        return {"site": result.site, "direction": result.direction, "shape": shape, "pairs": len(result.values)}

    def _read_state(self, state: Any) -> dict[str, Any]:
        """The choices in a state. KindError for what is none, InputError for that of another sweep."""
        wanted = {"of", *CHOICES}
        if not isinstance(state, dict) or set(state) != wanted:
            came = sorted(map(str, state)) if isinstance(state, dict) else type(state).__name__
            raise KindError(f"state is {came}; that of a PatchingDashboard is wanted, with {', '.join(sorted(wanted))}")
        if state["of"] != self._of:
            raise InputError(f"state is of another sweep: {state['of']}, and this one is {self._of}")
        return {name: self._check(name, state[name]) for name in CHOICES}

    @validate("state")
    def _readable(self, proposal: Any) -> Any:
        return {"of": self._of, **self._as_json(self._read_state(proposal.value))}

    @staticmethod
    def _as_json(choices: dict[str, Any]) -> dict[str, Any]:
        return {**choices, "cell": list(choices["cell"]), "selection": [list(pair) for pair in choices["selection"]]}

    def _remember(self, _: Any) -> None:
        self.state = {"of": self._of, **self._as_json({name: getattr(self, name) for name in CHOICES})}

    def _recall(self, _: Any) -> None:
        with self.hold_trait_notifications():
            for name in CHOICES:
                setattr(self, name, self.state[name])

    # ---- what is looked at -----------------------------------------------------------------------------------------

    def _look(self, _: Any) -> None:
        """Sends what the cell and pair looked at need, and was not sent before."""
        with self.hold_sync():
            self._send_pairs()
            many = len(self._result.values) > 1 and not sweep_bytes.has_intervals(self._result)
            index = sweep_axes.index_of(self._result, self.cell) if self.cell else None
            self._interval = sweep_bytes.interval_at(self._result, index) if many and index else []
        self._open()

    def _send_pairs(self) -> None:
        pairs = list(range(len(self._result.values))) if self._all_sent else [self.pair]
        pairs = [pair for pair in pairs if pair >= 0]
        if pairs == self._sent or not pairs:
            return
        self._values = sweep_bytes.values_of(self._result, self._axes, pairs)
        self._texts = [self._text_of(pair) for pair in pairs]
        self._sent = pairs

    @property
    def _bytes_of_texts(self) -> int:
        """Of one pair."""
        runs = [self._result.clean_tokens, self._result.corrupted_tokens]
        named = self._model is not None and any(axis in TOKENS for axis in self._result.axes)
        return sum(TOKEN_BYTES * ids.shape[1] for ids in runs if ids is not None) if named else 0

    def _text_of(self, pair: int) -> dict[str, list[str]]:
        """The tokens of a pair as texts, "" where there is none; nothing where they are not known, or name no place."""
        if self._model is None or not self._bytes_of_texts:
            return {}
        runs = {"clean": self._result.clean_tokens, "corrupted": self._result.corrupted_tokens}
        names = self._model.token_texts
        known = {name: ids[pair].tolist() for name, ids in runs.items() if ids is not None}
        return {
            name: [visible(text) if token >= 0 else "" for token, text in zip(ids, names(ids), strict=True)]
            for name, ids in known.items()
        }

    def _open(self) -> None:
        """The locked cell in an attention view, made when the first is locked."""
        ids, pair = self._result.clean_tokens, max(self.pair, 0)
        if self._model is None or ids is None or not self.cell:
            return
        try:
            at = self._attention_at(pair)
            if self.attention is None or self._opened != pair:
                old, self.attention = self.attention, self._attention_of(pair, at)
                self._opened = pair
                if old is not None:
                    old.close()
            else:
                for name, place in at.items():
                    setattr(self.attention, name, place)
            self._failed = ""
        except Exception as error:  # who clicks a cell sees no traceback: the view tells, and Python's setter too
            self._failed = f"{type(error).__name__}: {error}"
            raise

    def _attention_at(self, pair: int) -> dict[str, int]:
        """What the locked cell says of layer, head and query."""
        assert self._model is not None
        assert self._result.clean_tokens is not None
        place = dict(zip(self._result.axes, self.cell, strict=True))
        at = {name: place[name] for name in ("layer", "head") if name in place}
        if "kv_head" in place:
            at["head"] = place["kv_head"] * (self._model.spec.n_heads // self._model.spec.n_kv_heads)
        column = place.get("pos", place.get("query"))
        if column is not None:
            real = self._result.clean_tokens[pair] >= 0
            at["query"] = int(real[:column].sum()) if real[column] else -1
        return at

    def _attention_of(self, pair: int, at: dict[str, int]) -> AttentionDashboard:
        texts = [self._result.clean_tokens, self._result.corrupted_tokens]
        clean, corrupted = (None if ids is None else ids[pair][ids[pair] >= 0] for ids in texts)
        return AttentionDashboard(self._model, clean, against=corrupted, **at)  # type: ignore[arg-type]

    # ---- what it becomes -------------------------------------------------------------------------------------------

    @checked_keywords
    def view(self, *, pairs: Sequence[int] | None = None) -> View:
        """All that a page needs, the attention view with it if one was opened. pairs: whose own effects are taken along;
        by default all if they are small (8 MB), else the one looked at, and the page says so. Raises TooLargeError for
        more than fit."""
        taken = self._taken(pairs)
        pair = self.pair if self.pair in taken else -1
        n = len(self._result.values)
        note = "" if len(taken) == n else f"This page holds the means, and of {count(n, 'pair')} {len(taken)}."
        traits = {name: getattr(self, name) for name in (*CHOICES, "_interval")}
        traits |= {"pair": pair, "_sent": taken, "_texts": [self._text_of(pair) for pair in taken]}
        traits["_sweep"] = {**self._sweep, "note": note, "opens": False}
        values = sweep_bytes.values_of(self._result, self._axes, taken)
        numbers = {"_means": self._means, "_runs": self._runs, "_values": values}
        state = {
            "traits": traits,
            "numbers": {name: base64.b64encode(data).decode("ascii") for name, data in numbers.items()},
            "attention": self.attention.html_fragment() if isinstance(self.attention, AttentionDashboard) else "",
            "about": self._opened,
        }
        return View("Patching", SCRIPTS, STYLES, state)

    def _taken(self, pairs: Sequence[int] | None) -> list[int]:
        n = len(self._result.values)
        room = LIMIT * 3 // 4 - len(self._means)
        of_one = 4 * self._result.mean.numel() + self._bytes_of_texts
        if pairs is None:
            return list(range(n)) if n * of_one <= room else [self.pair] if self.pair >= 0 else []
        if isinstance(pairs, str) or not isinstance(pairs, Sequence):
            raise KindError(f"pairs is {pairs!r}; a list of whole numbers is wanted")
        taken = sorted({sweep_axes.example_of(self._result, pair) for pair in pairs} - {-1})
        if len(taken) * of_one > room:
            raise TooLargeError(f"{count(len(taken), 'pair')} make a file of more than 8 MB: pass fewer pairs=")
        return taken

    def figure(self) -> go.Figure:
        """What it shows now, as a plotly figure; without a slice, a panel for each."""
        return figures.patching(self._shown(), "mean" if self.show == "value" else "effect")

    def to_dataframe(self) -> pd.DataFrame:
        """The cells shown now: their places, the metric's value and the effect, and the interval where there are pairs."""
        import pandas as pd

        shown = self._shown()
        places = list(product(*(shown.places[axis] for axis in shown.axes)))
        table = pd.DataFrame(places, columns=list(shown.axes), index=range(len(places)))
        table = table.assign(value=shown.mean.flatten().numpy(), effect=shown.effect.flatten().numpy())
        if len(shown.values) < 2 or not sweep_bytes.has_intervals(shown):
            return table
        low, high = shown.interval().flatten(1).numpy()
        return table.assign(low=low, high=high)

    def _shown(self) -> SweepResult:
        """The part of the sweep that is shown: one pair of it, one slice of it."""
        result = self._result
        if self.pair >= 0:
            one = [self.pair]
            corrupted = result.corrupted[one] if result.corrupted.numel() else result.corrupted
            result = replace(result, values=result.values[one], clean=result.clean[one], corrupted=corrupted)
            result = replace(result, labels=self._labels(result))
        if self.slice < 0:
            return result
        axis = self._axes.sheets
        index = axis.places.index(self.slice)
        rest = tuple(name for name in result.axes if name != axis.name)
        return replace(
            result,
            values=result.values.select(axis.at + 1, index),
            unchanged=result.unchanged.select(axis.at, index),
            axes=rest,
            labels={name: result.labels[name] for name in rest},
            places={name: result.places[name] for name in rest},
        )

    def _labels(self, result: SweepResult) -> dict[str, tuple[str, ...]]:
        """Those of one pair, whose tokens are known."""
        ids = self._result.clean_tokens
        if self._model is None or ids is None:
            return result.labels
        texts = self._model.token_texts(ids[self.pair].tolist())
        named = [axis for axis in result.axes if axis in TOKENS]
        return {**result.labels, **{axis: tuple(texts[int(place)] for place in result.places[axis]) for axis in named}}


def _checked(result: object, model: object) -> tuple[SweepResult, HookedTransformer | None]:
    if not isinstance(result, SweepResult):
        kind = type(result).__name__
        raise KindError(f"a PatchingDashboard shows a sweep, such as wb.activation_patching returns, not {kind}")
    if model is not None and not isinstance(model, HookedTransformer):
        raise KindError(f"model is what wb.load or HookedTransformer gives, or None, not {type(model).__name__}")
    return result, model
