"""A figure as a picture. plotly draws by kaleido and a browser; where one is missing, what to install is said."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

import plotly.graph_objects as go

from ..errors import PictureError

HOW = (
    "a picture is drawn by kaleido and a Chromium or Chrome browser: pip install 'kaleido>=1', and install chromium "
    "(Debian: apt-get install chromium) or name one in the environment variable BROWSER_PATH"
)


def picture(figure: go.Figure, kind: str) -> bytes:
    """`figure` as "png" (at two pixels for each of the screen's) or "svg". PictureError says what to install."""
    try:
        import_module("kaleido")  # plotly would say what it misses in words of its own
        with _quiet("choreographer"):  # kaleido's; it logs a browser's good-bye as an error where it comes late
            return figure.to_image(format=kind, scale=2 if kind == "png" else 1)
    except Exception as error:  # plotly and kaleido raise many kinds where one of the three is missing
        raise PictureError(f"{HOW} ({type(error).__name__}: {' '.join(str(error).split())[:200]})") from error


@contextmanager
def _quiet(name: str) -> Iterator[None]:
    """What goes wrong is raised, and what is only logged is nobody's concern."""
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)
