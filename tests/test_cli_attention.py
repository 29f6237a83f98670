"""`workbench attention`."""

import json
import sys

import pytest

import workbench as wb

PROMPT = "When Mary and John went to the store, John gave a drink to"


def test_heads_that_stand_out(run, smollm):
    code, out, err = run("attention", "smollm2-135m", PROMPT, "--correct", " Mary", "--incorrect", " John")
    assert (code, err) == (0, "")
    assert out.startswith("0:When 1:␣Mary 2:␣and")
    scores = wb.head_scores(smollm, ("previous_token",), PROMPT)
    layer, head = divmod(int(scores["previous_token"].argmax()), 9)
    table = out[out.index("previous token (chance") : out.index("duplicate token")]
    first = next(line.split() for line in table.splitlines() if line.split()[:1] == [str(layer)])
    assert first[:2] == [str(layer), str(head)]
    assert float(first[2]) == pytest.approx(scores["previous_token"].max().item(), abs=6e-4)
    assert "direct logit" in out


def test_as_json_and_a_page(run, smollm, tmp_path):
    page = tmp_path / "a.html"
    code, out, err = run("attention", "smollm2-135m", PROMPT, "--json", "--html", page, "--layer", 23, "--head", 3)
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["str_tokens"] == smollm.to_str_tokens(PROMPT)
    assert found["files"] == [str(page)]
    kinds = {score["kind"] for score in found["scores"]}
    assert kinds == {"previous_token", "duplicate_token", "induction", "first_token", "entropy"}
    assert len(found["scores"]) == 5 * 270
    wanted = wb.head_scores(smollm, ("first_token",), PROMPT)["first_token"]
    for score in found["scores"]:
        if score["kind"] == "first_token":
            assert score["score"] == pytest.approx(wanted[score["layer"], score["head"]].item(), rel=1e-3, abs=1e-6)
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_single_token(run):
    code, out, err = run("attention", "smollm2-135m", "Hello")
    assert (code, out.strip(), err) == (0, "0:Hello", "")


def test_what_a_page_has_no_room_for_is_said(run, monkeypatch):
    for module in ("workbench.widgets.subjects", "workbench.cli.attention"):
        monkeypatch.setattr(sys.modules[module], "MAX_TOKENS", 6)
    code, out, err = run("attention", "smollm2-135m", PROMPT)
    assert (code, err) == (0, "")
    assert "Positions 0 to 5 of 14 are shown; positions= chooses others." in out
    code, out, err = run("attention", "smollm2-135m", PROMPT, "--correct", " Mary")
    assert (code, err) == (0, "")
    assert "6 of 14 positions are shown" in out
    assert "direct logit" in out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--layer", "30"], "there is no layer 30: there are 30 layers"),
        (["--query", "14"], "there is no query 14: positions go from 0 to 13, and -1 locks none"),
        (["--against", "Mary"], "text 0 has 14 tokens and the one in against= 1"),
        (["--incorrect", " Mary"], "--incorrect came without --correct"),
        (["--correct", " Maryland and"], "is not one token: it splits into"),
        (["--html", "."], "is a folder; a file is wanted"),
    ],
)
def test_what_is_wrong_is_one_sentence(run, arguments, says):
    code, out, err = run("attention", "smollm2-135m", PROMPT, *arguments)
    assert code == 2
    assert out == ""
    assert says in err
    assert err.count("\n") == 1
