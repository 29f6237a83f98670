"""The command line, called as its entry point is: what it prints, what it returns, what it leaves behind."""

import io
import json
import re
import sys
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from pathlib import Path

import pytest
import torch
from random_models import powered
from test_cache import plain_spec

from workbench import cli

# In the package their names are the commands.
demo_module, fetch_module = import_module("workbench.cli.demo"), import_module("workbench.cli.fetch")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "small"
    powered(plain_spec()).save(folder)
    return folder


@pytest.fixture(scope="module")
def report(smollm, tmp_path_factory):
    """The demo, once, with the real model: its JSON and its report."""
    path = tmp_path_factory.mktemp("demo") / "new" / "report.html"
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patched, redirect_stdout(out), redirect_stderr(err):
        patched.setattr(demo_module, "load", {"smollm2-135m": smollm}.__getitem__)
        patched.setattr(sys, "argv", ["workbench", "demo", "--json", "--out", str(path)])
        with pytest.raises(SystemExit) as end:
            cli.main()
    assert (end.value.code or 0, err.getvalue()) == (0, "")
    return json.loads(out.getvalue()), path


@pytest.mark.parametrize("command", [[], ["demo"], ["info"], ["fetch"]])
def test_help(run, command):
    code, out, err = run(*command, "--help")
    assert (code, err) == (0, "")
    assert "Usage" in out
    wanted = {"demo": "--out", "info": "--tokens", "fetch": "--json"}.get((command or [""])[0], "demo")
    assert wanted in out


def test_no_arguments_is_help(run):
    assert run()[:2] == run("--help")[:2]


WRONG = {
    "command": (["nope"], "nope"),
    "no model": (["info"], "model"),
    "model": (["info", "nope"], "'nope'.*smollm2-135m"),
    "file of another kind": (["info", "{here}/junk"], "unknown kind"),
    "broken file": (["info", "{here}/junk.gguf"], "GGUF"),
    "empty folder": (["info", "{here}/empty"], "config.json"),
    "option": (["info", "{model}", "--nope"], "--nope"),
    "no tokens": (["info", "{model}", "--tokens", "0"], "--tokens"),
    "tokens that are no number": (["info", "{model}", "--tokens", "many"], "--tokens"),
    "no texts": (["info", "{model}", "--batch", "-1"], "--batch"),
    "one argument more": (["info", "{model}", "more"], "more"),
    "name to fetch": (["fetch", "smollm"], "smollm2-135m"),
    "nothing to fetch": (["fetch"], "name"),
    "option of demo": (["demo", "--output", "x"], "--output"),
    "out is a folder": (["demo", "--out", "{here}/empty"], "is a folder"),
    "out is under a file": (["demo", "--out", "{here}/junk/report.html"], "no folder to write to"),
    "no out": (["demo", "--out"], "--out"),
}


@pytest.mark.parametrize(("arguments", "says"), WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_is_one_line_and_code_2(run, arguments, says, folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "junk").write_text("junk")
    (tmp_path / "junk.gguf").write_text("junk")
    (tmp_path / "empty").mkdir()
    monkeypatch.setattr(demo_module, "load", lambda name: pytest.fail("the work began"))
    before = sorted(tmp_path.rglob("*"))
    code, out, err = run(*(part.format(here=tmp_path, model=folder) for part in arguments))
    assert (code, out) == (2, "")
    assert err.startswith("workbench: ")
    assert err.count("\n") == 1
    assert err.endswith("\n")
    assert re.search(says, err)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_fault_of_ours_keeps_its_traceback(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["workbench", "fetch", "x"])

    def broken(name):
        raise ZeroDivisionError

    monkeypatch.setattr(fetch_module, "fetch_model", broken)
    with pytest.raises(ZeroDivisionError):
        cli.main()


def test_a_full_disk_is_one_line_and_leaves_nothing(run, monkeypatch, tmp_path):
    def full(name):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(fetch_module, "fetch_model", full)
    code, out, err = run("fetch", "smollm2-135m")
    assert (code, out) == (2, "")
    assert err.startswith("workbench: ")
    assert err.count("\n") == 1


def test_fetch_says_where_the_model_lies(run, smollm):
    code, out, err = run("fetch", "smollm2-135m", "--json")
    found = json.loads(out)
    assert (code, err, found["name"]) == (0, "", "smollm2-135m")
    assert Path(found["path"]).read_bytes()[:4] == b"GGUF"
    assert run("fetch", "smollm2-135m")[1] == f"smollm2-135m: {found['path']}\n"


def test_the_demo_finds_what_is_known(report):
    found, path = report
    assert found["clean"] == pytest.approx(6.12, abs=0.01)
    assert found["corrupted"] == pytest.approx(-5.49, abs=0.01)
    assert found["next_token"] == " Mary"
    assert found["report"] == str(path.resolve())
    for cells in (found["layer_position"], found["layer_head"]):
        assert len(cells) == 10
        sizes = [abs(cell["effect"]) for cell in cells]
        assert sizes == sorted(sizes, reverse=True)
        for cell in cells:
            wanted = (cell["value"] - found["corrupted"]) / (found["clean"] - found["corrupted"])
            assert cell["effect"] == pytest.approx(wanted, abs=1e-4)
    # before the first layer all there is to find is the name that differs; after the last, the last position
    best = found["layer_position"][0]
    assert best["effect"] == pytest.approx(1, abs=0.05)
    assert {cell["token"] for cell in found["layer_position"]} <= {" John", " to", " gave", " a", " drink"}


def test_the_report_is_complete_in_itself(report):
    _, path = report
    html = path.read_text("utf-8")
    assert html.startswith("<!doctype html>")
    assert html.rstrip().endswith("</html>")
    assert not re.findall(
        r"""<[^>]*\b(?:src|href)\s*=\s*["']?\s*(?:https?:)?//""", re.sub(r"<script.*?</script>", "", html, flags=re.S)
    )
    assert not re.findall(r"<script[^>]*\bsrc\b", html)
    assert not re.findall(r"<link\b|@import", html.split("<script>")[0])
    assert "6.12" in html
    assert html.count("<iframe") == 4  # two sweeps, attention, the lens
    assert [left.name for left in path.parent.iterdir()] == ["report.html"]


def test_the_demo_prints_what_it_found(report, capsys):
    found, _ = report
    demo_module._print(found)
    out, err = capsys.readouterr()
    assert err == ""
    for word in ("= 6.12", "= -5.49", "' Mary'", "layer x position", "layer x head"):
        assert word in out


def test_a_report_that_fails_leaves_the_old_one(tmp_path, monkeypatch, report):
    path = tmp_path / "report.html"
    path.write_text("old")

    def broken(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(demo_module, "page", broken)
    for dashboard in ("AttentionDashboard", "PatchingDashboard", "LensDashboard"):
        monkeypatch.setattr(demo_module, dashboard, lambda *_, **__: None)
    figure = type("Drawn", (), {"tokens": torch.zeros(1, 2, 1, 1), "str_tokens": [["a"]]})()
    with pytest.raises(ZeroDivisionError):
        demo_module.write_report(path, None, report[0], figure, figure, figure)
    assert [left.name for left in tmp_path.iterdir()] == ["report.html"]
    assert path.read_text() == "old"
