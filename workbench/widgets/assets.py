"""The views' code as a browser gets it: files of `view/` put one behind the other. There is no build step."""

from __future__ import annotations

from importlib.resources import files


def module(*names: str) -> str:
    """One ES module of these scripts, in this order; the last exports `render` and `standalone`."""
    return "\n".join(_text(f"{name}.js") for name in names)


def style(*names: str) -> str:
    """One style sheet of these."""
    return "\n".join(_text(f"{name}.css") for name in names)


def _text(name: str) -> str:
    return (files("workbench.widgets") / "view" / name).read_text(encoding="utf-8")
