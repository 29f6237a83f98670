"""`workbench generate`, with the real model."""

import json
from importlib import import_module

import pytest

generate_module = import_module("workbench.cli.generate")
PROMPT = "When Mary and John went to the store, John gave a drink to"


@pytest.fixture(autouse=True)
def loaded_once(smollm, monkeypatch):
    monkeypatch.setattr(generate_module, "load", {"smollm2-135m": smollm}.__getitem__)


def test_texts_and_a_bar(run):
    code, out, err = run("generate", "smollm2-135m", PROMPT, "One, two,", "--max-new-tokens", 6)
    assert (code, out) == (0, f"{PROMPT} Mary, and Mary gave a\n\nOne, two, or three-digit numbers,\n")
    assert "6/6" in err


def test_json(run, smollm):
    code, out, _ = run("generate", "smollm2-135m", PROMPT, "One, two,", "--max-new-tokens", 6, "--stop", ",", "--json")
    rows = json.loads(out)
    assert code == 0
    assert [row["text"] for row in rows] == [f"{PROMPT} Mary", "One, two, or three-digit numbers"]
    assert smollm.to_string(rows[0]["new_tokens"]) == " Mary,"


@pytest.mark.parametrize("cache", ["--kv-cache", "--no-kv-cache"])
def test_stream(run, cache):
    code, out, err = run("generate", "smollm2-135m", PROMPT, "--max-new-tokens", 6, "--stream", cache)
    assert (code, out, err) == (0, f"{PROMPT} Mary, and Mary gave a\n", "")


def test_draws_follow_the_seed(run):
    options = ("--temperature", 1, "--top-p", 0.9, "--top-k", 50, "--repetition-penalty", 1.1, "--max-new-tokens", 12)
    outs = [run("generate", "smollm2-135m", PROMPT, *options, "--seed", seed)[1] for seed in (1, 1, 2)]
    assert outs[0] == outs[1] != outs[2]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (("--temperature", -1), "temperature is -1.0; a number from 0 is wanted"),
        (("--top-p", 2), "top_p is 2.0; a share above 0 and up to 1 is wanted"),
        (("--stop", ""), "a stop string is empty; a text of at least one letter is wanted"),
        (("--max-new-tokens", 9000), "this model's context is 8192"),
        (("--stream", "--json"), "--stream is for one text, and not for JSON"),
        (("--temprature", 1), "--temprature"),
    ],
)
def test_what_is_wrong_is_one_sentence(run, wrong, said):
    code, out, err = run("generate", "smollm2-135m", PROMPT, *wrong)
    assert (code, out) == (2, "")
    assert said in err
    assert len(err.strip().splitlines()) == 1


def test_help(run):
    code, out, err = run("generate", "--help")
    assert (code, err) == (0, "")
    assert "--temperature" in out
