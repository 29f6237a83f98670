"""`workbench attention`: where every head of a model looks, in a text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer

from ..errors import InputError
from ..figures.tokens import visible
from ..files import check_writable
from ..loading import load
from ..metrics import logit, logit_diff
from ..widgets import AttentionDashboard
from ..widgets.subjects import MAX_TOKENS
from .tables import print_table

SHOWN = 5  # heads listed for each score


def attention(
    model: Annotated[str, typer.Argument(help="A model folder, a .gguf file, or a name such as smollm2-135m.")],
    prompt: Annotated[str, typer.Argument(help="A text.")],
    against: Annotated[str | None, typer.Option(help="A second text of as many tokens, to lay beside it.")] = None,
    layer: Annotated[int | None, typer.Option(help="The layer shown first.")] = None,
    head: Annotated[int | None, typer.Option(help="The head shown first.")] = None,
    query: Annotated[int, typer.Option(help="The position that is locked; -1 for none.")] = -1,
    correct: Annotated[str | None, typer.Option(help="A token, for contributions to its logit.")] = None,
    incorrect: Annotated[str | None, typer.Option(help="A token whose logit is taken away from that.")] = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the dashboard as a page.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the scores of every head as JSON.")] = False,
) -> None:
    """Attention patterns: heads that stand out in this text, and a page with all of them."""
    if html is not None:
        check_writable(html)
    if incorrect is not None and correct is None:
        raise InputError("--incorrect came without --correct; a difference of two logits wants both")
    metric = None if correct is None else logit(correct) if incorrect is None else logit_diff(correct, incorrect)
    chosen = {
        name: value for name, value in {"layer": layer, "head": head, "query": query}.items() if value is not None
    }
    loaded, names = load(model), ("text", "against")
    positions = None if metric is None else last_of(loaded.to_tokens(prompt).shape[1])
    dashboard = AttentionDashboard(
        loaded, prompt, against=against, metric=metric, names=names, positions=positions, **chosen
    )
    if metric is not None:
        dashboard.quantity = "contribution"  # so that what each head adds is among the scores
        dashboard.quantity = "attention"
    if html is not None:
        dashboard.to_html(html)
    table = dashboard.scores
    if as_json:
        print(json.dumps(as_data(table, dashboard.tokens, model, prompt, html)))
        return
    print(" ".join(f"{position}:{token}" for position, token in enumerate(map(visible, dashboard.tokens))), "\n")
    for kind, scores in table.groupby("kind", sort=False):
        strongest = scores.sort_values("score", key=abs, ascending=False, kind="stable").head(SHOWN)
        rows = list(strongest[["layer", "head", "score"]].itertuples(index=False, name=None))
        chance = scores["chance"].iloc[0]
        beside = "" if pd.isna(chance) else f" (chance {chance:.3f})"
        print_table(f"{str(kind).replace('_', ' ')}{beside}", ("layer", "head", "score"), rows)
    if dashboard.note:
        print(dashboard.note)
    if html is not None:
        print(f"written: {html.resolve()}")


def last_of(n_tokens: int) -> range | None:
    """Of a text too long to show the part that ends with the token at which a metric is read."""
    return range(n_tokens - MAX_TOKENS, n_tokens) if n_tokens > MAX_TOKENS else None


def as_data(table: pd.DataFrame, tokens: list[str], model: str, prompt: str, html: Path | None) -> dict[str, Any]:
    """Plain data: the tokens, and every head's score of each kind; None where there is no number."""
    plain = table.astype(object).where(table.notna(), None)
    files = [] if html is None else [str(html.resolve())]
    records = plain.to_dict("records")
    return {
        "command": "attention",
        "model": model,
        "prompt": prompt,
        "str_tokens": tokens,
        "scores": records,
        "files": files,
    }
