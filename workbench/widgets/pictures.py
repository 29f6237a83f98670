"""A figure as a picture. plotly draws by kaleido and a browser; where one is missing, what to install is said."""

from __future__ import annotations

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
        return figure.to_image(format=kind, scale=2 if kind == "png" else 1)
    except Exception as error:  # plotly and kaleido raise many kinds where one of the three is missing
        raise PictureError(f"{HOW} ({type(error).__name__}: {' '.join(str(error).split())[:200]})") from error
