"""The command line: `workbench demo`, `info`, `lens`, `generate`, `patch`, `ablate`, `fetch`, `check-family`.

What a person got wrong is one sentence on the error stream and exit code 2, never a traceback.
"""

from __future__ import annotations

import sys
from typing import NoReturn

import typer

from ..errors import WorkbenchError
from .ablate import ablate
from .attention import attention
from .check_family import check_family
from .demo import demo
from .fetch import fetch
from .generate import generate
from .info import info
from .lens import lens
from .patch import patch

app = typer.Typer(
    help="A mechanistic-interpretability workbench.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (demo, info, attention, lens, generate, patch, ablate, fetch, check_family):
    app.command(command.__name__.replace("_", "-"))(command)


def main() -> None:
    """The entry point of the `workbench` command."""
    try:
        sys.exit(app(sys.argv[1:] or ["--help"], standalone_mode=False))
    except (WorkbenchError, OSError) as error:
        _refuse(str(error))
    except Exception as error:
        said = getattr(error, "format_message", None)  # what typer raises for a wrong command line has one
        if said is None:
            raise
        _refuse(f"{str(said()).rstrip('.')}; see workbench --help")


def _refuse(reason: str) -> NoReturn:
    print("workbench:", " ".join(reason.split()), file=sys.stderr)
    sys.exit(2)
