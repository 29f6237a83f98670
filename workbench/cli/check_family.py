"""`workbench check-family`: a family, or a model folder, against transformers."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from ..family_check import check_family as findings_of
from .tables import print_table


def check_family(
    name_or_folder: Annotated[
        str, typer.Argument(help="A family such as llama, or the folder of a Hugging Face model.", show_default=False)
    ],
    seed: Annotated[int, typer.Option(help="Of the random model and of the texts.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Compare with transformers: logits, attention, the stream, padding, greedy tokens. Exit code 1 if one is off.

    A family is compared on a small random model in which every parameter matters, a folder on its own weights.
    """
    found = findings_of(name_or_folder, seed)
    if as_json:
        print(json.dumps([asdict(finding) | {"holds": finding.holds} for finding in found], indent=1))
    else:
        rows = [(f.what, f"{f.error:.1e}", f"{f.within:.0e}", "yes" if f.holds else "NO") for f in found]
        print_table(f"{name_or_folder} against transformers", ("", "largest error", "allowed", "holds"), rows)
    if not all(finding.holds for finding in found):
        raise typer.Exit(1)
