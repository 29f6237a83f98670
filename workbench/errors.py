"""What can go wrong, as types.

Every error the workbench raises on purpose is a `WorkbenchError` and also the built-in that fits, so
both `except wb.errors.WorkbenchError` and an ordinary `except ValueError` catch it. Each message is one
sentence: what came, what was wanted, and the nearest thing that exists.

    WorkbenchError
    ├── SiteError          KeyError     a site, or a filter over sites, that the model has not got
    ├── HookError          ValueError   a hook that edits in place, or returns another shape, dtype or type
    ├── InterventionError  ValueError   an intervention that selects nothing or does not fit its site
    ├── InputError         ValueError   tokens, text, masks and positions that cannot be run
    ├── KindError          TypeError    an argument of the wrong kind
    ├── MetricError        ValueError   a metric that cannot be read off these logits
    ├── SpecError          ValueError   a specification that contradicts itself
    ├── FamilyError        ValueError   a published model whose mathematics is not accounted for
    ├── LoadError          ValueError   a file that is not what it claims to be
    ├── MissingError       FileNotFoundError   a file, folder or name that does not exist
    ├── FetchError         OSError      a model that could not be downloaded or did not verify
    └── TooLargeError      MemoryError  something that would not fit into memory, said before trying
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class WorkbenchError(Exception):
    """Base of every error raised on purpose."""

    def __str__(self) -> str:  # KeyError would show the repr of its argument, OSError its errno.
        return str(self.args[0]) if self.args else ""


class SiteError(WorkbenchError, KeyError):
    pass


class HookError(WorkbenchError, ValueError):
    pass


class InterventionError(WorkbenchError, ValueError):
    pass


class InputError(WorkbenchError, ValueError):
    pass


class KindError(WorkbenchError, TypeError):
    pass


class MetricError(WorkbenchError, ValueError):
    pass


class SpecError(WorkbenchError, ValueError):
    pass


class FamilyError(WorkbenchError, ValueError):
    pass


class LoadError(WorkbenchError, ValueError):
    pass


class MissingError(WorkbenchError, FileNotFoundError):
    pass


class FetchError(WorkbenchError, OSError):
    pass


class PictureError(WorkbenchError, RuntimeError):
    """Nothing that could draw a picture is installed."""


class TooLargeError(WorkbenchError, MemoryError):
    pass


def nearest(name: str, existing: Iterable[str], n: int = 3) -> str:
    """The end of an error sentence: the closest names that exist, or all of them when they are few.

    >>> nearest("blocks.0.hook_resid_prr", ["blocks.0.hook_resid_pre", "hook_embed"])
    'the nearest are: blocks.0.hook_resid_pre'
    """
    existing = list(existing)
    close = get_close_matches(name, existing, n=n, cutoff=0.6)
    if close:
        return "the nearest are: " + ", ".join(close)
    shown = ", ".join(existing[:12]) + (", ..." if len(existing) > 12 else "")
    return "there are: " + (shown or "none")


def count(n: int, noun: str) -> str:
    """'1 token', '3 tokens'."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
