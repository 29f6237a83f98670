"""A widget as HTML: the module that runs in the notebook, inline, with its data beside it."""

from __future__ import annotations

import html
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

from ..files import atomic_file

_PAGE_CSS = """\
:root { color-scheme: light dark; }
body { margin: 0; background: light-dark(#fdfdfc, #131519); }
#widget { max-width: 1040px; margin: 0 auto; padding: 28px 20px; }
"""
_FRAME_CSS = """\
:root { color-scheme: light dark; }
body { margin: 0; background: transparent; overflow-x: hidden; }
"""
# A frame is as high as what it shows; where the page around it may not be touched it keeps its height.
_FIT = """
try {
  const fit = () => { frameElement.style.height = `${document.documentElement.offsetHeight}px`; };
  new ResizeObserver(fit).observe(document.documentElement);
} catch {}
"""


def document(title: str, state: dict[str, Any], name: str = "attention") -> str:
    """One HTML file that shows the widget `name` (its .js and .css in this folder) with `state`."""
    return _html(title, state, name, _PAGE_CSS, "")


def fragment(title: str, state: dict[str, Any], name: str = "attention") -> str:
    """The same as a frame inside another page."""
    inner = html.escape(_html(title, state, name, _FRAME_CSS, _FIT))
    return (
        f'<iframe title="{html.escape(title)}" srcdoc="{inner}" '
        'style="width:100%;height:640px;border:0;color-scheme:light dark"></iframe>'
    )


def _html(title: str, state: dict[str, Any], name: str, css: str, after: str) -> str:
    # A text that ends a script element would end ours: no token may hold a "<" in here.
    data = json.dumps(state, separators=(",", ":"), ensure_ascii=True).replace("<", "\\u003c")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>\n{css}{_asset(name + '.css')}</style>\n</head>\n<body>\n"
        f'<div id="widget"></div>\n<script id="state" type="application/json">{data}</script>\n'
        f'<script type="module">\n{_asset(name + ".js")}\n'
        'standalone(document.getElementById("widget"), '
        f'JSON.parse(document.getElementById("state").textContent));\n{after}</script>\n</body>\n</html>\n'
    )


def write_text(path: Path, text: str) -> Path:
    """Writes the file whole or not at all, and returns its path."""
    with atomic_file(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")
    return path


def _asset(name: str) -> str:
    return (files("workbench.widgets") / name).read_text(encoding="utf-8")
