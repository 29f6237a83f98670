"""`workbench fetch`: get a model into the user's cache before it is needed."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from ..pretrained import fetch as fetch_model


def fetch(
    name: Annotated[str, typer.Argument(help="A name in `wb.pretrained()`, such as smollm2-135m.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the path as JSON.")] = False,
) -> None:
    """Download a model once, verify it, and say where it lies."""
    path = fetch_model(name)
    print(json.dumps({"name": name, "path": str(path)}) if as_json else f"{name}: {path}")
