"""`workbench info`, called as the command line calls it: one thing in full, several side by side."""

import json
import re
from pathlib import Path

import pytest
import torch
from random_models import powered
from test_cache import plain_spec

import workbench as wb


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "small"
    powered(plain_spec()).save(folder)
    return folder


def test_info(run, folder):
    code, out, err = run("info", folder, "--tokens", 100, "--batch", 3, "--json")
    assert (code, err) == (0, "")
    described = json.loads(out)
    spec = plain_spec()
    assert described["numbers"] == {
        "n_layers": 3,
        "d_model": 12,
        "n_heads": 4,
        "n_kv_heads": 2,
        "d_head": 6,
        "d_mlp": 10,
        "vocab_size": 23,
        "n_ctx": 64,
    }
    model = powered(spec)
    assert described["n_params"] == sum(parameter.numel() for parameter in model.parameters())
    assert described["dtype"] == "float32"
    assert described["spec"] == json.loads(json.dumps(spec.to_dict()))
    sites = {site["short"]: site for site in described["sites"]}
    assert sum(site["count"] for site in sites.values()) == len(model.sites)
    assert sites["attn.k"]["name"] == "blocks.L.attn.hook_k"
    assert sites["attn.k"]["axes"] == "batch pos kv_head=2 d_head=6"
    assert sites["attn.k"]["cache_bytes"] == 3 * 300 * 2 * 6 * 4
    assert described["cache_bytes"]["resid_pre"] == 3 * 300 * 12 * 4
    assert described["cache_bytes"]["streams"] == 9 * 300 * 12 * 4
    assert described["cache_bytes"]["every site"] < sum(site["cache_bytes"] for site in sites.values())

    code, out, err = run("info", folder)
    assert (code, err) == (0, "")
    for word in ("n_kv_heads", "blocks.L.attn.hook_k", "batch pos kv_head=2 d_head=6", "1 x 64 tokens"):  # its context
        assert word in out


def test_one_preset_in_full(run):
    code, out, err = run("info", "--preset", "mixtral-8x7b", "--tokens", 5000, "--batch", 2, "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    spec = wb.ModelSpec.preset("mixtral-8x7b")
    assert found["name"] == "mixtral-8x7b"
    assert found["dtype"] == "bfloat16"
    assert found["spec"] == json.loads(json.dumps(spec.to_dict()))
    assert found["costs"] == json.loads(json.dumps(wb.costs(spec, torch.bfloat16, 5000, 2).to_dict()))
    assert found["costs"]["memory"]["kv_cache"] == 2 * 5000 * 32 * 2 * 8 * 128 * 2
    sites = {site["short"]: site for site in found["sites"]}
    assert sites["mlp.expert_weights"]["axes"] == "batch pos expert=8"
    assert sites["attn.k"]["cache_bytes"] == 2 * 5000 * 32 * 8 * 128 * 2


def test_tables_of_one(run):
    code, out, err = run("info", "--preset", "llama-2-70b", "--tokens", 8192)
    assert (code, err) == (0, "")
    rows = {row[0]: row[1:] for row in (re.split(r"  +", line.strip()) for line in out.splitlines())}
    assert rows["n_params"] == ["68,976,648,192"]
    assert rows["embedding"] == rows["unembedding"] == ["262,144,000"] * 2
    assert rows["2 N and 6 N, N the active parameters"] == ["138.0 GFLOP", "413.9 GFLOP"]
    assert rows["keep keys and values of a token"] == ["320.0 KiB"]
    assert rows["keep keys and values of 1 x 8192 tokens"] == ["2.5 GiB"]
    assert rows["compute-optimal, 20 N"] == ["1.38T"]
    assert "router" not in rows


def test_a_tied_unembedding_is_listed_with_nothing(run):
    out = run("info", "--preset", "gpt2-small")[1]
    assert re.search(r"^ *unembedding +0 +0 *$", out, re.MULTILINE)
    assert re.search(r"^ *positions +786,432 ", out, re.MULTILINE)


def test_several_side_by_side(run, folder):
    code, out, err = run("info", folder, "--preset", "gpt3-175b", "--preset", "deepseek-v3", "--tokens", 100, "--json")
    assert (code, err) == (0, "")
    ours, gpt3, deepseek = json.loads(out)
    assert (ours["name"], ours["dtype"]) == (str(folder), "float32")
    assert ours["kv_bytes_per_token"] == 3 * 2 * 2 * 6 * 4
    assert gpt3["n_params"] == 174_604_259_328
    assert (gpt3["n_layers"], gpt3["d_model"], gpt3["n_heads"], gpt3["n_kv_heads"]) == (96, 12288, 96, 96)
    assert (gpt3["attention"], gpt3["feed_forward"], gpt3["n_ctx"]) == (["MHA"], ["GELU"], 2048)
    assert gpt3["kv_bytes_per_token"] == 2 * 96 * 12288 * 2
    assert gpt3["kv_cache_bytes"] == 100 * gpt3["kv_bytes_per_token"]
    assert deepseek["feed_forward"] == ["SwiGLU", "MoE 8 of 256 + shared"]
    assert deepseek["n_active_params"] == 37_552_297_472
    assert deepseek["compute_optimal_tokens"] == 20 * 37_552_297_472
    spec = wb.ModelSpec.preset("deepseek-v3")
    assert deepseek["flops_per_token"] == wb.costs(spec, tokens=100).flops_per_token.forward

    code, out, err = run("info", folder, "--preset", "gpt3-175b", "--preset", "mistral-7b")
    assert (code, err) == (0, "")
    for words in (("gpt3-175b", "174.60B", "12,288", "MHA", "GELU"), ("mistral-7b", "7.24B", "GQA, window 4096")):
        assert any(all(word in line for word in words) for line in out.splitlines()), words
    assert "1 x 64 tokens" in out  # the least context of them


def test_the_comparison_of_the_readme_is_what_is_printed(run):
    readme = (Path(__file__).parents[1] / "README.md").read_text()
    command = re.search(r"\$ workbench (info --preset .*)", readme)[1].split()
    printed = [line.split() for line in run(*command)[1].splitlines()]
    shown = [line.split() for line in readme.split("workbench info --preset gpt3")[1].split("\n\n")[1].splitlines()]
    assert len(shown) == 5
    assert all(line in printed for line in shown)


def test_layers_that_differ_say_so(run, tmp_path):
    spec = plain_spec()
    data = spec.to_dict()
    data["layers"][0]["repeat"] = 1
    other = json.loads(json.dumps(data["layers"][0])) | {"repeat": 2}
    other["attn"]["n_kv_heads"] = 4
    data["layers"].append(other)
    powered(wb.ModelSpec.from_dict(data)).save(tmp_path / "mixed")
    found = json.loads(run("info", tmp_path / "mixed", "--json")[1])
    assert found["numbers"]["n_kv_heads"] is None
    out = run("info", tmp_path / "mixed", tmp_path / "mixed")[1]
    assert (
        len(re.findall(r"^ *mixed .* no single one +GQA and MHA", out, re.MULTILINE)) == 2
    )  # a folder by its last name


def test_bytes_are_reckoned_in_a_dtype_one_asks_for(run, folder):
    halves = json.loads(run("info", folder, "--dtype", "float16", "--json")[1])
    own = json.loads(run("info", folder, "--json")[1])
    assert halves["dtype"] == "float16"
    assert own["costs"]["memory"]["load"] == 2 * halves["costs"]["memory"]["load"]
    assert own["cache_bytes"]["resid_pre"] == 2 * halves["cache_bytes"]["resid_pre"]
    assert json.loads(run("info", "--preset", "kamui-nano", "--dtype", "float32", "--json")[1])["dtype"] == "float32"


WRONG = {
    "nothing": (["info"], "a model or a preset"),
    "preset": (["info", "--preset", "llama-70b"], "'llama-70b'.*llama-2-70b"),
    "second preset": (["info", "--preset", "kamui-nano", "--preset", "kamui"], "'kamui'"),
    "second model": (["info", "{model}", "nope"], "'nope'"),
    "no name": (["info", "--preset"], "--preset"),
    "dtype": (["info", "--preset", "kamui-nano", "--dtype", "float23"], "'float23'.*float32"),
    "dtype of a model": (["info", "{model}", "--dtype", "int8"], "'int8'"),
}


@pytest.mark.parametrize(("arguments", "says"), WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_is_one_line_and_code_2(run, arguments, says, folder):
    code, out, err = run(*(part.format(model=folder) for part in arguments))
    assert (code, out) == (2, "")
    assert err.startswith("workbench: ")
    assert err.count("\n") == 1
    assert re.search(says, err)
