"""What all dashboards can do beside being shown: become a file, a static output, a picture, a table."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import anywidget
import plotly.graph_objects as go

from ..errors import InputError, PictureError, nearest
from ..files import atomic_file
from .export import View, write_text
from .pictures import picture

if TYPE_CHECKING:
    import pandas as pd


class Dashboard(anywidget.AnyWidget):
    """An ipywidget that can be shown without a kernel too."""

    view: Callable[..., View]  # all that a page needs to show it as it stands now; what it takes, those below take

    @abstractmethod
    def figure(self) -> go.Figure:
        """What it shows now, as a plotly figure."""

    @abstractmethod
    def to_dataframe(self) -> pd.DataFrame:
        """The numbers it shows now."""

    @overload
    def to_html(self, path: None = None, **options: Any) -> str: ...
    @overload
    def to_html(self, path: str | Path, **options: Any) -> Path: ...
    def to_html(self, path: str | Path | None = None, **options: Any) -> str | Path:
        """The dashboard as one HTML file that needs no kernel and no network.

        Returns the text, or writes it to `path` (whole or not at all) and returns that. `options` are those of `view`.
        """
        text = self.view(**options).document()
        return text if path is None else write_text(Path(path), text)

    def html_fragment(self, **options: Any) -> str:
        """The same as a piece of HTML, to be put into a page: a frame that keeps its styles to itself."""
        return self.view(**options).fragment()

    def static(self, **options: Any) -> Static:
        """An output that stays in a saved notebook: the dashboard in a frame, which needs no kernel and survives
        nbconvert, and a picture for where scripts are not run (if there is kaleido and a browser to draw it)."""
        try:
            png = picture(self.figure(), "png")
        except (PictureError, InputError):  # nothing to draw it with, or no more to draw than a number
            png = None
        return Static(self.html_fragment(**options), png, repr(self))

    def save(self, path: str | Path) -> Path:
        """The present view by the path's ending: .png or .svg (PictureError says what to install where nothing can
        draw them), .csv for the numbers shown, .html for the dashboard. Returns the path."""
        path = Path(path)
        kind = path.suffix.lower().removeprefix(".")
        if kind == "html":
            return self.to_html(path)
        if kind == "csv":
            return write_text(path, self.to_dataframe().to_csv(index=False))
        if kind not in ("png", "svg"):
            raise InputError(f"{path.name!r} ends in {path.suffix!r}; {nearest(kind, ['png', 'svg', 'csv', 'html'])}")
        drawn = picture(self.figure(), kind)
        with atomic_file(path) as unfinished:
            unfinished.write_bytes(drawn)
        return path


class Static:
    """What a notebook saves of a dashboard. Front ends take the richest of these that they trust and can show."""

    def __init__(self, html: str, png: bytes | None, text: str) -> None:
        self._bundle: dict[str, Any] = {"text/plain": text, "text/html": html}
        if png is not None:
            self._bundle["image/png"] = png

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return dict(self._bundle)

    def html_fragment(self) -> str:
        return self._bundle["text/html"]
