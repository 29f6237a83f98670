"""A widget as HTML: the module that runs in the notebook, inline, with its data beside it."""

from __future__ import annotations

import html
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..files import atomic_file
from . import assets

_PAGE_CSS = """\
:root { color-scheme: light dark; }
body { margin: 0; background: light-dark(#fdfdfc, #131519); }
#widget { max-width: 1240px; margin: 0 auto; padding: 28px 20px; }
"""
_FRAME_CSS = """\
:root { color-scheme: light dark; }
body { margin: 0; background: transparent; overflow-x: hidden; }
"""
# A frame takes on the theme of the notebook around it, and is as high as what it shows; where the page around it may
# not be touched, it follows the reader's system and keeps its height.
_FIT = """
try {
  const around = frameElement.ownerDocument.body;
  const themed = () => ["jpThemeLight", "jpThemeName"].forEach((name) => {
    if (around.dataset[name]) document.body.dataset[name] = around.dataset[name];
  });
  new MutationObserver(themed).observe(around, { attributes: true });
  themed();
  const fit = () => { frameElement.style.height = `${document.documentElement.offsetHeight}px`; };
  new ResizeObserver(fit).observe(document.documentElement);
} catch {}
"""


@dataclass(frozen=True)
class View:
    """What a widget is to a page: a title, its scripts and style sheets (`assets`), and its state as JSON."""

    title: str
    scripts: tuple[str, ...]
    styles: tuple[str, ...]
    state: dict[str, Any]

    def document(self) -> str:
        """One HTML file that shows it."""
        return self._html(_PAGE_CSS, "")

    def fragment(self) -> str:
        """The same as a frame inside another page."""
        inner = html.escape(self._html(_FRAME_CSS, _FIT))
        return (
            f'<iframe title="{html.escape(self.title)}" srcdoc="{inner}" '
            'style="width:100%;height:640px;border:0;color-scheme:light dark"></iframe>'
        )

    def _html(self, css: str, after: str) -> str:
        # A text that ends a script element would end ours: no token may hold a "<" in here.
        data = json.dumps(self.state, separators=(",", ":"), ensure_ascii=True, allow_nan=False).replace("<", "\\u003c")
        return (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{html.escape(self.title)}</title>\n<style>\n{css}{assets.style(*self.styles)}</style>\n</head>\n"
            f'<body>\n<main id="widget"></main>\n<script id="state" type="application/json">{data}</script>\n'
            f'<script type="module">\n{assets.module(*self.scripts)}\n'
            'standalone(document.getElementById("widget"), '
            f'JSON.parse(document.getElementById("state").textContent));\n{after}</script>\n</body>\n</html>\n'
        )


def write_text(path: Path, text: str) -> Path:
    """Writes the file whole or not at all, and returns its path."""
    with atomic_file(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")
    return path
