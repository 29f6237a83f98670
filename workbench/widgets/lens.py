"""LensDashboard: what each layer would say next, and where the model becomes sure of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import plotly.graph_objects as go
import traitlets
from traitlets import validate

from .. import figures
from ..errors import InputError, KindError, TooLargeError, count, nearest
from ..figures.tokens import visible
from ..keywords import checked_keywords
from ..lenses import Lens
from . import assets
from .dashboard import Dashboard
from .export import View
from .lens_packing import LIMIT, as_json, pages

if TYPE_CHECKING:
    import pandas as pd

SCRIPTS = ("base", "matrix", "map", "lens_page", "lens_map", "lens_readout", "lens_chart", "lens")
STYLES = ("base", "lens")
SHOWS = ("prob", "rank", "entropy", "kl", "target_prob", "target_rank")
CHOICES = ("example", "show", "target", "layer", "pos")


class LensDashboard(Dashboard):
    """Layers by positions of a lens: the top token of each place, and all that the lens knows of the place looked at.

    >>> w = wb.LensDashboard(wb.logit_lens(model, "When Mary and John went", targets=" to"))  # doctest: +SKIP
    >>> w.show, w.layer, w.pos = "rank", 3, 4  # doctest: +SKIP

    These go both ways:
    example: the text.
    show:    what the colours say. "prob": probability of the top token; "rank": rank of the text's next token (0: the
             top one); "entropy", "kl": of the whole distribution and from the model's own output, in nats;
             "target_prob", "target_rank": probability and rank of the token that is followed.
    target:  which of the lens' targets is followed.
    layer, pos: the row and the position of the locked cell, as in `lens.tokens`; -1 for none. `pos` alone, when it is
             made, is of the last row.
    state:   all of these as JSON, which a new dashboard of the same lens takes back.

    Pointing at cells sends nothing.
    """

    _esm = assets.module(*SCRIPTS)
    _css = assets.style(*STYLES)

    example = traitlets.Int(0).tag(sync=True)
    show = traitlets.Unicode("prob").tag(sync=True)
    target = traitlets.Int(0).tag(sync=True)
    layer = traitlets.Int(-1).tag(sync=True)
    pos = traitlets.Int(-1).tag(sync=True)
    state = traitlets.Dict()

    # What the view needs and nobody sets: names of rows, targets and examples, and the page of one example.
    _labels = traitlets.List(traitlets.Unicode()).tag(sync=True)
    _targets = traitlets.List(traitlets.Unicode()).tag(sync=True)
    _examples = traitlets.List().tag(sync=True)  # [number, name]
    _note = traitlets.Unicode("").tag(sync=True)
    _page = traitlets.Dict().tag(sync=True)

    @checked_keywords
    def __init__(
        self,
        lens: Any,
        *,
        positions: Sequence[int] | None = None,
        example: int = 0,
        show: str = "prob",
        target: int = 0,
        layer: int = -1,
        pos: int = -1,
        state: dict[str, Any] | None = None,
    ) -> None:
        """lens: what wb.logit_lens gives. positions: those to show, all by default; a text too long to show says so.
        state: another dashboard's, in place of the choices.

        Raises KindError for what is no lens, InputError for a choice that does not exist, TooLargeError beyond 8 MB.
        """
        self._pages = pages(lens, positions)
        layer = len(lens.labels) - 1 if pos != -1 and layer == -1 else layer  # a position alone: what is said there
        choices = {"example": example, "show": show, "target": target, "layer": layer, "pos": pos}
        if state is not None:
            choices = self._read_state(state)
        self._check(choices)
        super().__init__(
            **choices,
            state=self._state_of(choices),
            _labels=list(lens.labels),
            _targets=[visible(text) for text in lens.target_texts],
            _examples=self._names(range(self._pages.n_examples)),
            _page=self._pages.page(choices["example"]),
        )
        self.observe(self._turn, names="example")
        self.observe(self._remember, names=list(CHOICES))
        self.observe(self._recall, names="state")

    @property
    def lens(self) -> Any:
        """The lens that is shown."""
        return self._pages.lens

    def _names(self, examples: Sequence[int]) -> list[list[Any]]:
        return [[example, self._pages.name(example)] for example in examples]

    # ---- choices ---------------------------------------------------------------------------------------------------

    @validate(*CHOICES)
    def _existing(self, proposal: Any) -> Any:
        name = proposal.trait.name
        self._check({**{name: getattr(self, name) for name in CHOICES}, name: proposal.value}, [name])
        return proposal.value

    def _check(self, choices: dict[str, Any], names: Sequence[str] = CHOICES) -> None:
        """Raises KindError or InputError for the first of these names whose choice is not there to be made."""
        for name in names:
            if name == "show":
                self._check_show(choices["show"])
            else:
                self._check_number(name, choices[name], choices["example"])

    def _check_show(self, show: Any) -> None:
        if not isinstance(show, str) or show not in SHOWS:
            raise InputError(f"show is {show!r}; {nearest(str(show), SHOWS)}")
        if show.startswith("target") and not self.lens.target_tokens:
            raise InputError(f"show is {show!r}, and the lens follows no target; wb.logit_lens(..., targets=) does")

    def _check_number(self, name: str, value: Any, example: int) -> None:
        if not isinstance(value, int) or isinstance(value, bool):
            raise KindError(f"{name} is {value!r}; a whole number is wanted")
        if name == "pos":
            self._check_pos(value, example)
            return
        least = -1 if name == "layer" else 0
        # Without targets the choice of one stays at 0, which stands for nothing.
        n = {"example": self._pages.n_examples, "layer": len(self.lens.labels), "target": self._n_targets or 1}[name]
        if not least <= value < n:
            last = f"{least} to {n - 1}" if n > 1 or least < 0 else "0 alone"
            raise InputError(f"{name} is {value}; {last} can be chosen{', -1 for none' if least < 0 else ''}")

    def _check_pos(self, pos: int, example: int) -> None:
        shown = self._pages.positions(example)
        if pos != -1 and pos not in shown:
            raise InputError(f"pos is {pos}; example {example} is shown at positions {_spans(shown)}, and -1 is none")

    @property
    def _n_targets(self) -> int:
        return len(self.lens.target_tokens)

    def _turn(self, _: Any) -> None:
        page = self._pages.page(self.example)
        with self.hold_sync(), self.hold_trait_notifications():  # one message, and no state of half a choice
            if self.pos not in page["positions"]:
                self.layer = self.pos = -1
            self._page = page

    # ---- state -----------------------------------------------------------------------------------------------------

    def _state_of(self, choices: dict[str, Any]) -> dict[str, Any]:
        return {"lens": self._pages.fingerprint, **choices}

    def _read_state(self, state: Any) -> dict[str, Any]:
        """The choices in a state. KindError for what is none, InputError for that of another lens."""
        wanted = ("lens", *CHOICES)
        if not isinstance(state, dict) or set(state) != set(wanted):
            came = ", ".join(map(str, state)) or "nothing" if isinstance(state, dict) else type(state).__name__
            raise KindError(f"state is of {came}; a LensDashboard's is of {', '.join(wanted)}")
        if state["lens"] != self._pages.fingerprint:
            raise InputError("state is of a lens over other texts, layers or targets")
        return {name: state[name] for name in CHOICES}

    @validate("state")
    def _readable(self, proposal: Any) -> Any:
        self._check(self._read_state(proposal.value))
        return proposal.value

    def _remember(self, _: Any) -> None:
        self.state = self._state_of({name: getattr(self, name) for name in CHOICES})

    def _recall(self, _: Any) -> None:
        with self.hold_trait_notifications():
            for name in CHOICES:
                setattr(self, name, self.state[name])

    # ---- what it becomes -------------------------------------------------------------------------------------------

    @checked_keywords
    def view(self, *, examples: Sequence[int] | None = None) -> View:
        """All that a page needs. examples: those to take along; by default all if they are small (8 MB), else the one
        that is looked at, and the page says so. Raises TooLargeError for more than fit."""
        taken = self._taken(examples)
        example = self.example if self.example in taken else taken[0]
        locked = {"layer": self.layer, "pos": self.pos} if example == self.example else {"layer": -1, "pos": -1}
        n = self._pages.n_examples
        traits = {
            "example": example,
            "show": self.show,
            "target": self.target,
            **locked,
            "_labels": self._labels,
            "_targets": self._targets,
            "_examples": self._names(taken),
            "_note": "" if len(taken) == n else f"This page holds {count(len(taken), 'text')} of {n}.",
        }
        chosen = {str(example): as_json(self._pages.page(example)) for example in taken}
        return View("Logit lens", SCRIPTS, STYLES, {"traits": traits, "pages": chosen})

    def _taken(self, examples: Sequence[int] | None) -> list[int]:
        everything = range(self._pages.n_examples)
        if examples is None:
            return list(everything) if self._fits(everything) else [self.example]
        if isinstance(examples, str) or not isinstance(examples, Sequence):
            raise KindError(f"examples is {examples!r}; a list of whole numbers is wanted")
        for example in examples:
            self._check_number("example", example, 0)
        if not examples:
            raise InputError("examples is empty; name at least one")
        taken = sorted(set(examples))
        if not self._fits(taken):
            raise TooLargeError(f"{count(len(taken), 'example')} make a file of more than 8 MB: pass fewer examples=")
        return taken

    def _fits(self, examples: Sequence[int]) -> bool:
        return len(examples) == 1 or sum(self._pages.size(example) * 4 / 3 for example in examples) <= LIMIT

    def figure(self) -> go.Figure:
        """What it shows now, as a plotly figure; of a target its rank."""
        lens, example = (self.lens, self.example) if self._pages.wanted is None else (self._pages.cut(self.example), 0)
        show = "target" if self.show.startswith("target") else self.show
        return figures.lens(lens, example, show=show, target=self.target)

    def to_dataframe(self) -> pd.DataFrame:
        """Every place that is shown, as `Lens.to_dataframe` has it."""
        table = Lens.to_dataframe(cast(Lens, self.lens))
        shown = table["pos"].isin(self._pages.positions(self.example))
        return table.loc[(table["example"] == self.example) & shown, :].reset_index(drop=True)

    def __repr__(self) -> str:
        _, rows, pos, _ = self.lens.tokens.shape
        return f"LensDashboard of {rows} layers x {pos} positions"


def _spans(positions: Sequence[int]) -> str:
    """'0 to 3 and 7': sorted positions in words."""
    ends = [i for i in range(1, len(positions)) if positions[i] != positions[i - 1] + 1]
    runs = [positions[start:stop] for start, stop in zip([0, *ends], [*ends, len(positions)], strict=True)]
    return " and ".join(f"{run[0]} to {run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs)
