"""What a person waits for in CircuitsVis and in ours: the same heads as one file each, opened in the same browser.

CircuitsVis is measured as its package renders it where there is no network: its script, which it otherwise fetches from
unpkg.com, is within the page. So no way to a server is in its times, and the script is in its bytes.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from in_browser import OURS, Browser

import workbench as wb

WORDS = "When Mary and John went to the store , John gave a drink to".split()
N_HEADS = 12


@dataclass
class Side:
    """A page, and how many bytes it is without scripts and styles.

    canvases: a selector of those that show heads, `n` of them;  heads, tokens: of what is pointed at.
    """

    html: str
    without_script: int
    canvases: str
    n: int
    heads: str
    tokens: str
    on_token: str = "pointerover"


def sides(n_tokens: int) -> dict[str, Side]:
    """Random causal attention, by name; the first is ours."""
    import circuitsvis
    from circuitsvis.attention import attention_heads, attention_patterns

    tokens = [f" {WORDS[i % len(WORDS)]}" for i in range(n_tokens)]
    scores = 2 * torch.randn(N_HEADS, n_tokens, n_tokens, generator=torch.Generator().manual_seed(n_tokens))
    weights = scores.masked_fill(torch.ones(n_tokens, n_tokens).triu(1).bool(), -torch.inf).softmax(-1)
    ours = wb.AttentionDashboard.from_weights(tokens, weights[None])
    html = ours.to_html()
    patterns, heads = attention_patterns(tokens, weights), attention_heads(weights, tokens)
    version = f"CircuitsVis {circuitsvis.__version__}"
    return {
        "ours": Side(html, len(html) - len(ours._esm) - len(ours._css), OURS, 1, ".wb-head", ".wb-token"),
        f"{version}, attention_patterns": Side(
            page_of(patterns), len(patterns.cdn_src), "canvas", N_HEADS + 1, "figure", ".tokens button"
        ),
        # It has no row of tokens: a cell of the large pattern, which is its 13th, tells of two.
        f"{version}, attention_heads": Side(
            page_of(heads), len(heads.cdn_src), "canvas", N_HEADS + 1, "canvas", "canvas >> nth=12", "mousemove"
        ),
    }


def page_of(rendered: Any) -> str:
    return f'<!doctype html><html><meta charset="utf-8"><body>{rendered.local_src}</body></html>'


def measured(browser: Browser, folder: Path, side: Side) -> dict[tuple[str, str], float]:
    """Medians over three pages, on each of which three heads and three tokens are pointed at, by work and unit."""
    path = folder / "side.html"
    path.write_text(side.html, encoding="utf-8")
    found: dict[str, list[float]] = {"drawn": [], "head": [], "token": []}
    for _ in range(3):
        with browser.file(path, side.canvases, side.n) as (page, taken):
            found["drawn"].append(taken)
            page.tab.evaluate("settled()")
            for name, selector, event in (("head", side.heads, "pointerover"), ("token", side.tokens, side.on_token)):
                n = page.tab.locator(selector).count()
                found[name] += [page.pointed(selector, i * n // 4, "settled", event) for i in (1, 2, 3)]
    return {
        ("the page", "bytes"): len(side.html),
        ("without its script", "bytes"): side.without_script,
        ("until heads are drawn", "s"): statistics.median(found["drawn"]),
        ("hovering a head", "s"): statistics.median(found["head"]),
        ("hovering a token", "s"): statistics.median(found["token"]),
    }
