"""The command line: `workbench demo`, `workbench info`, `workbench fetch`.

What a person got wrong is one sentence on the error stream and exit code 2, never a traceback.
"""

from __future__ import annotations

import sys

import typer

from ..errors import WorkbenchError
from .demo import demo
from .fetch import fetch
from .info import info

app = typer.Typer(
    help="A mechanistic-interpretability workbench.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (demo, info, fetch):
    app.command()(command)


def main() -> None:
    """The entry point of the `workbench` command."""
    try:
        app()
    except WorkbenchError as error:
        print(f"workbench: {error}", file=sys.stderr)
        sys.exit(2)
