"""Writing so that a reader sees the old file or the new one and never half of one."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import InputError


@contextmanager
def atomic_file(path: str | Path) -> Iterator[Path]:
    """A temporary path beside `path` that takes its place when the block ends well, and vanishes otherwise."""
    path = Path(path)
    if path.is_dir():
        raise InputError(f"{str(path)!r} is a folder; a file is wanted")
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: str | Path) -> Iterator[Path]:
    """A temporary folder beside `path` that takes its place when the block ends well, and vanishes otherwise."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    old = temporary.with_name(temporary.name + ".old")
    try:
        yield temporary
        temporary.chmod(0o777 & ~_umask())
        if path.exists():
            path.rename(old)
        try:
            temporary.rename(path)
        except OSError:
            if old.exists():
                old.rename(path)
            raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def check_writable(path: Path) -> None:
    """InputError, before any work is done, for a file that could not be written after it."""
    if path.is_dir():
        raise InputError(f"{str(path)!r} is a folder; a file is wanted")
    existing = next(parent for parent in path.absolute().parents if parent.exists())
    try:
        with tempfile.NamedTemporaryFile(prefix=f".{path.name}.", dir=existing):
            pass
    except OSError as error:
        why = error.strerror if existing.is_dir() else f"{str(existing)!r} is no folder to write to"
        raise InputError(f"{str(path)!r} cannot be written: {why}") from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
