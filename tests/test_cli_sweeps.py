"""`workbench patch` and `workbench ablate`: what they print and write is what the library finds, cell by cell."""

import json
import math
import re
import warnings
from importlib import import_module
from itertools import product

import pandas as pd
import pytest
import tokenizers
import torch
from random_models import VOCAB, powered
from test_cache import plain_spec
from words import WORDS

import workbench as wb
from workbench.cli.sweep_options import extent
from workbench.cli.sweep_prompts import texts_of
from workbench.cli.sweep_report import _decimals, strongest
from workbench.model.embedding import TokenEmbeddingSpec, UnembeddingSpec
from workbench.sweep_result import SweepResult, Work
from workbench.tokenizer import Tokenizer

MODULES = {name: import_module(f"workbench.cli.{name}") for name in ("patch", "ablate")}
EVIL = "<script>alert('x')</script>"  # stands where the last letter of the word tokenizer does

CLEAN = ["a b c d e f", f"{EVIL} i j k l"]
CORRUPTED = ["a b g d e f", f"{EVIL} i h k l"]
TWO = ["--clean", CLEAN[0], "--corrupted", CORRUPTED[0], "--clean", CLEAN[1], "--corrupted", CORRUPTED[1]]
ONE = TWO[:4]
BOTH = ["--correct", " o", "--incorrect", " p"]
EVERY = ["--top", 100_000, "--json"]


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A folder, and its model: words are letters, " a" is one token."""
    backend = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: index for index, word in enumerate([*WORDS[:-1], EVIL])}, unk_token="v")
    )
    backend.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    folder = tmp_path_factory.mktemp("models") / "small"
    model = powered(plain_spec())
    assert len(WORDS) == VOCAB
    model.tokenizer = Tokenizer(backend, None, None, adds_bos=False)
    model.save(folder)
    return folder, wb.load(folder)


@pytest.fixture(scope="module")
def speller(smollm, tmp_path_factory):
    """The same with SmolLM2's words, for tasks."""
    folder = tmp_path_factory.mktemp("models") / "speller"
    n_vocab = smollm.spec.vocab_size
    model = powered(plain_spec(embed=TokenEmbeddingSpec(n_vocab), unembed=UnembeddingSpec(n_vocab)))
    model.tokenizer = smollm.tokenizer
    model.save(folder)
    return folder, wb.load(folder)


def strictly(text):
    """JSON as the standard has it: without NaN."""
    return json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def number(given, rel=1e-5):
    return pytest.approx(math.nan if given is None else given, rel=rel, abs=1e-6, nan_ok=True)


def agrees(found, result: SweepResult):
    """JSON that shows every cell, against a result of the library."""
    several = len(result.values) > 1
    intervals = result.interval()
    cells = {tuple(cell[axis] for axis in result.axes): cell for cell in found["strongest"]}
    grid = list(product(*(range(len(result.places[axis])) for axis in result.axes)))
    assert len(cells) == len(found["strongest"]) == found["n_cells"] == len(grid)
    for at in grid:
        cell = cells[tuple(result.places[axis][index] for axis, index in zip(result.axes, at, strict=True))]
        assert result.mean[at].item() == number(cell["value"])
        assert result.effect[at].item() == number(cell["effect"])
        assert (cell["interval"] is None) != several
        if several:
            assert intervals[:, *at].tolist() == [number(end, 1e-3) for end in cell["interval"]]  # ratios
    sizes = [abs(cell["effect"]) for cell in found["strongest"] if cell["effect"] is not None]
    assert sizes == sorted(sizes, reverse=True)
    assert found["clean"] == number(result.clean.mean().item())
    assert ("corrupted" in found) == bool(result.corrupted.numel())
    assert "corrupted" not in found or found["corrupted"] == number(result.corrupted.mean().item())
    assert found["work"] == result.work._asdict()
    assert (found["axes"], found["site"]) == (list(result.axes), result.site)
    assert (found["n_unchanged"], found["n_examples"]) == (int(result.unchanged.sum()), len(result.values))


DIFF = wb.logit_diff(" o", " p")
PATCHES = {
    "as it comes": (BOTH, DIFF, {}),
    "noise": ([*BOTH, "--direction", "noise"], DIFF, {"direction": "noise"}),
    "heads": ([*BOTH, "--site", "z"], DIFF, {"site": "z"}),
    "three axes": (
        [*BOTH, "--site", "z", "--over", "head, layer,pos"],
        DIFF,
        {"site": "z", "over": ("head", "layer", "pos")},
    ),
    "a pattern": (
        [*BOTH, "--site", "pattern", "--over", "layer,query,key", "--layers", 1],
        DIFF,
        {"site": "pattern", "over": ("layer", "query", "key"), "layers": 1},
    ),
    "layers and positions": (
        [*BOTH, "--layers", "-1,0-1", "--positions", "2-3, -1"],
        DIFF,
        {"layers": [-1, 0, 1], "positions": [2, 3, -1]},
    ),
    "some heads": ([*BOTH, "--site", "z", "--heads", "3,1-2"], DIFF, {"site": "z", "heads": [3, 1, 2]}),
    "neurons": ([*BOTH, "--site", "post", "--neurons", "0-4"], DIFF, {"site": "post", "neurons": range(5)}),
    "a window": ([*BOTH, "--window", 2], DIFF, {"window": 2}),
    "a selection by position": (
        [*BOTH, "--site", "z", "--selection", "1.2, 2.0", "--over", "pos"],
        DIFF,
        {"site": "z", "selection": [(1, 2), (2, 0)], "over": ["pos"]},
    ),
    "probabilities": ([*BOTH, "--metric", "prob_diff"], wb.metrics.prob_diff(" o", " p"), {}),
    "logit": (["--correct", " o", "--metric", "logit"], wb.logit(" o"), {}),
    "logprob": (["--correct", " o", "--metric", "logprob"], wb.logprob(" o"), {}),
    "prob": (["--correct", " o", "--metric", "prob"], wb.prob(" o"), {}),
    "rank": (["--correct", " o", "--metric", "rank"], wb.rank(" o"), {}),
}


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize(("options", "metric", "given"), PATCHES.values(), ids=PATCHES.keys())
def test_every_cell_of_a_patch_is_the_librarys(run, small, options, metric, given, n):
    folder, model = small
    code, out, err = run("patch", folder, *TWO[: 4 * n], *options, *EVERY)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        result = wb.activation_patching(model, CLEAN[:n], CORRUPTED[:n], metric, progress=False, **given)
    assert code == 0
    found = strictly(out)
    agrees(found, result)
    assert found["warnings"] == [str(warning.message) for warning in said]
    assert err == "".join(f"workbench: {sentence}\n" for sentence in found["warnings"])
    assert (found["command"], found["model"], found["files"]) == ("patch", str(folder), [])
    assert found["direction"] == given.get("direction", "denoise")


def test_an_answer_for_each_pair(run, small):
    folder, model = small
    answers = ["--correct", " o", "--correct", " q", "--incorrect", " p"]
    found = strictly(run("patch", folder, *TWO, *answers, *EVERY)[1])
    metric = wb.logit_diff([" o", " q"], " p")
    agrees(found, wb.activation_patching(model, CLEAN, CORRUPTED, metric, progress=False))


def test_divergence_is_from_the_clean_prediction(run, small):
    folder, model = small
    found = strictly(run("patch", folder, *TWO, "--metric", "kl_from", *EVERY)[1])
    metric = wb.kl_from(model(CLEAN)[0])
    agrees(found, wb.activation_patching(model, CLEAN, CORRUPTED, metric, progress=False))
    assert found["clean"] == pytest.approx(0, abs=1e-5)
    assert found["corrupted"] > 0.01


REFERENCE = [" a b c d e f g", "q r s t u v", "h i j k l m n"]
ABLATIONS = {
    "zero": (BOTH, DIFF, {}),
    "mean": ([*BOTH, "--kind", "mean", "--reference", "{here}/texts"], DIFF, {"kind": "mean", "reference": REFERENCE}),
    "resample": (
        [*BOTH, "--kind", "resample", "--seed", 7, "--reference", "{here}/texts"],
        DIFF,
        {"kind": "resample", "reference": REFERENCE, "seed": 7},
    ),
    "of layers": ([*BOTH, "--site", "mlp_out", "--over", "layer"], DIFF, {"site": "mlp_out", "over": ["layer"]}),
    "some": ([*BOTH, "--layers", "1-2", "--heads", 3], DIFF, {"layers": [1, 2], "heads": 3}),
}


@pytest.mark.parametrize(("options", "metric", "given"), ABLATIONS.values(), ids=ABLATIONS.keys())
def test_every_cell_of_an_ablation_is_the_librarys(run, small, options, metric, given, tmp_path):
    folder, model = small
    (tmp_path / "texts").write_text(f"{REFERENCE[0]}\r\n\n{REFERENCE[1]}\n  \n{REFERENCE[2]}", "utf-8")
    options = [str(option).format(here=tmp_path) for option in options]
    code, out, err = run("ablate", folder, *CLEAN, *options, *EVERY)
    assert (code, err) == (0, "")
    found = strictly(out)
    wanted = wb.ablate(model, CLEAN, metric, progress=False, **given)
    agrees(found, wanted)
    other = wb.ablate(model, CLEAN, metric, progress=False, **given | {"seed": 0})
    assert torch.equal(wanted.values, other.values) == ("seed" not in given)
    assert (found["command"], found["direction"], found["site"]) == ("ablate", "ablate", given.get("site", "z"))


def test_the_loss_of_texts_wants_no_answers(run, small):
    folder, model = small
    found = strictly(run("ablate", folder, *CLEAN, "--metric", "loss", *EVERY)[1])
    metric = wb.loss(*model.to_tokens_and_mask(CLEAN))
    agrees(found, wb.ablate(model, CLEAN, metric, progress=False))
    each = [model.loss(text).item() for text in CLEAN]
    assert found["clean"] == pytest.approx(sum(each) / 2, rel=1e-5)


@pytest.mark.parametrize("pair", [[], ["--clean", CLEAN[0], "--corrupted", CORRUPTED[0]]], ids=["ablate", "patch"])
def test_heads_that_are_changed_at_once_are_one_place(run, small, tmp_path, pair):
    folder, model = small
    path = tmp_path / "r.safetensors"
    command = ["patch", folder, *pair, "--site", "z"] if pair else ["ablate", folder, CLEAN[0]]
    code, out, _ = run(*command, *BOTH, "--selection", "1.2,2.0", "--json", "--out", path)
    assert code == 0
    (cell,) = strictly(out)["strongest"]
    heads = [wb.zero("z", layers=1, heads=2), wb.zero("z", layers=2, heads=0)]
    if pair:
        cache = model.run_with_cache(CLEAN[0])[1]
        heads = [wb.patch(cache, "z", layers=1, heads=2), wb.patch(cache, "z", layers=2, heads=0)]
    o, p = model.to_single_token(" o"), model.to_single_token(" p")
    base = CORRUPTED[0] if pair else CLEAN[0]
    edited, clean, plain = model(base, hooks=heads)[0], model(CLEAN[0])[0], model(base)[0]
    edited, clean, plain = ((logits[0, -1, o] - logits[0, -1, p]).item() for logits in (edited, clean, plain))
    assert cell["selection"] == "1.2,2.0"
    assert cell["value"] == pytest.approx(edited, abs=1e-4)
    wanted = (edited - plain) / (clean - plain) if pair else edited - plain
    assert cell["effect"] == pytest.approx(wanted, abs=1e-4)
    assert SweepResult.load(path).effect.tolist() == [number(cell["effect"])]


# ---- files and tasks -----------------------------------------------------------------------------------


TASKS = {"ioi": wb.tasks.ioi, "greater-than": wb.tasks.greater_than}
TASKS |= {"induction": wb.tasks.induction, "capitals": wb.tasks.capitals}


@pytest.mark.parametrize("task", TASKS)
def test_a_task_brings_texts_labels_and_metric(run, speller, task):
    folder, model = speller
    pairs = TASKS[task](model.tokenizer, n=5, seed=3)
    options = ["--task", task, "--n", 5, "--seed", 3, "--labels"]
    found = strictly(run("patch", folder, *options, *EVERY)[1])
    result = wb.activation_patching(
        model, pairs.clean, pairs.corrupted, pairs.metric, positions=pairs.labels, progress=False
    )
    agrees(found, result)
    assert {cell["label"] for cell in found["strongest"]} == set(pairs.labels)
    assert found["metric"] == pairs.measure

    found = strictly(run("ablate", folder, *options, "--kind", "mean", "--reference", "corrupted", *EVERY)[1])
    ablated = wb.ablate(
        model,
        pairs.clean,
        pairs.metric,
        kind="mean",
        reference=pairs.corrupted,
        positions=pairs.labels,
        progress=False,
    )
    agrees(found, ablated)


def test_a_task_measured_otherwise(run, speller):
    folder, model = speller
    pairs = wb.tasks.greater_than(model.tokenizer, n=3)
    found = strictly(run("ablate", folder, "--task", "greater-than", "--n", 3, "--metric", "logprob", *EVERY)[1])
    agrees(found, wb.ablate(model, pairs.clean, wb.logprob(pairs.correct), progress=False))
    assert found["metric"] == "logprob"


def test_thirty_two_pairs_from_seed_nought(run, speller):
    folder, model = speller
    pairs = wb.tasks.induction(model.tokenizer, n=32, seed=0)
    found = strictly(run("patch", folder, "--task", "induction", "--layers", 1, *EVERY)[1])
    agrees(found, wb.activation_patching(model, pairs.clean, pairs.corrupted, pairs.metric, layers=1, progress=False))


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_a_file_brings_texts_labels_and_metric(run, speller, suffix, tmp_path):
    folder, model = speller
    pairs = wb.tasks.greater_than(model.tokenizer, n=3, seed=1)
    pairs.save(tmp_path / f"pairs{suffix}")
    found = strictly(run("patch", folder, "--file", tmp_path / f"pairs{suffix}", "--labels", *EVERY)[1])
    wanted = wb.activation_patching(
        model, pairs.clean, pairs.corrupted, pairs.metric, positions=pairs.labels, progress=False
    )
    agrees(found, wanted)
    assert found["metric"] == "prob_diff"
    found = strictly(run("ablate", folder, "--file", tmp_path / f"pairs{suffix}", *EVERY)[1])
    agrees(found, wb.ablate(model, pairs.clean, pairs.metric, progress=False))


# ---- what is printed -----------------------------------------------------------------------------------


def test_the_table_of_one_pair(run, small):
    folder, model = small
    code, out, err = run("patch", folder, *ONE, *BOTH, "--layers", "1-2", "--top", 5)
    result = wb.activation_patching(model, CLEAN[0], CORRUPTED[0], DIFF, layers=[1, 2], progress=False)
    assert code == 0
    assert "/12 [" in err  # a bar, which is cleared
    lines = out.splitlines()
    assert lines[0] == "resid_pre of the clean run into the corrupted one at each layer x position: 12 cells, 1 pair"
    assert f"clean      {CLEAN[0]!r}" in lines
    assert f"           logit(' o') - logit(' p') = {result.clean.item():.3f}" in lines
    assert f"           logit(' o') - logit(' p') = {result.corrupted.item():.3f}" in lines
    assert "strongest 5 of 12" in lines
    head = next(index for index, line in enumerate(lines) if line.split()[:1] == ["layer"])
    assert lines[head].split() == ["layer", "position", "token", "logit_diff", "effect"]
    rows = lines[head + 2 : head + 7]
    cells = strongest(result, 5)
    for line, cell in zip(rows, cells, strict=True):
        assert line.split() == [
            str(cell["layer"]),
            str(cell["pos"]),
            cell["token"],
            f"{cell['value']:.3f}",
            f"{cell['effect']:.3f}",
        ]
    for name in ("logit_diff", "effect"):  # numbers end where their heading does
        ends = {match.end() for line in rows for match in re.finditer(r"-?\d+\.\d{3}", line)}
        assert lines[head].index(name) + len(name) in ends
        assert len(ends) == 2
    assert lines[-2:] == [
        "effect: 0 is the corrupted run, 1 the clean one",
        f"work: {result.work.computed:,} of {result.work.naive:,} tokens through a layer",
    ]


def test_the_table_of_several_pairs_has_intervals(run, small):
    folder, model = small
    code, out, _ = run("patch", folder, *TWO, *BOTH, "--direction", "noise", "--site", "z", "--top", 3)
    assert code == 0
    result = wb.activation_patching(model, CLEAN, CORRUPTED, DIFF, site="z", direction="noise", progress=False)
    assert f"clean      {CLEAN[0]!r} and 1 more" in out
    assert f"mean logit(' o') - logit(' p') = {result.clean.mean().item():.3f}" in out
    lines = out.splitlines()
    head = next(index for index, line in enumerate(lines) if line.split()[:1] == ["layer"])
    assert lines[head].split() == ["layer", "head", "logit_diff", "effect", "from", "to"]
    for line, cell in zip(lines[head + 2 : head + 5], strongest(result, 3), strict=True):
        assert line.split()[4:] == [f"{end:.3f}" for end in cell["interval"]]
    assert "effect: 0 is the clean run, 1 the corrupted one" in lines
    assert "interval: where 95% of the effects of resampled pairs lie" in lines


def test_the_table_of_an_ablation(run, small):
    folder, model = small
    code, out, _ = run("ablate", folder, CLEAN[0], *BOTH, "--window", 2)
    assert code == 0
    assert out.startswith("z set to zero, 2 layers at a time at each layer x head: 12 cells, 1 text\n")
    assert "corrupted" not in out
    assert "effect: the change from the clean run" in out
    out = run("ablate", folder, CLEAN[0], *BOTH, "--selection", "1.2, 2.0")[1]
    assert out.startswith("z set to zero, heads 1.2, 2.0 at once: 1 cell, 1 text\n")
    work = wb.ablate(model, CLEAN[0], DIFF, selection=[(1, 2), (2, 0)], progress=False).work
    assert work.computed > work.naive  # the run that is recorded is more than one cell
    assert out.endswith(f"work: {work.computed} tokens through a layer\n")


def test_answers_keep_their_leading_space(run, speller):
    folder, model = speller
    ids = [model.tokenizer.single(text) for text in (" Mary", "Mary")]
    assert ids[0] != ids[1]
    means = [
        strictly(run("ablate", folder, "Two and two", "--metric", "logit", "--correct", text, "--json")[1])["clean"]
        for text in (" Mary", "Mary")
    ]
    logits = model("Two and two")[0][0, -1]
    assert means == [pytest.approx(logits[token].item(), abs=1e-4) for token in ids]


def test_tokens_are_made_visible_and_answers_that_differ_are_not_named(run, speller):
    out = run("patch", speller[0], "--task", "ioi", "--n", 1, "--layers", 1, "--top", 99)[1]
    pairs = wb.tasks.ioi(speller[1].tokenizer, n=2)
    (correct,), (incorrect,) = pairs.correct[0], pairs.incorrect[0]
    assert f" logit({correct!r}) - logit({incorrect!r}) = " in out
    tokens = speller[1].to_str_tokens(pairs.clean[0])
    assert all(f" {token.replace(' ', '␣')} " in out for token in tokens)
    out = run("patch", speller[0], "--task", "ioi", "--n", 2, "--layers", 1)[1]
    assert out.count(" mean logit(correct) - logit(incorrect) = ") == 2


def test_lines_of_a_reference_keep_their_spaces(tmp_path):
    (tmp_path / "texts").write_bytes("\ufeff a b \r\n\n\u2028c\n \n\td".encode())
    assert texts_of(tmp_path / "texts") == [" a b ", "\u2028c", "\td"]


def test_what_has_no_effect_is_said_in_a_sentence_and_null(run, small):
    same = ["--clean", CLEAN[0], "--corrupted", CLEAN[0]]
    code, out, err = run("patch", small[0], *same, *BOTH, "--json")
    assert code == 0
    found = strictly(out)
    sentence = "clean and corrupted are the same text in pairs [0]; their effect is NaN"
    assert (found["warnings"], err) == ([sentence], f"workbench: {sentence}\n")
    assert {cell["effect"] for cell in found["strongest"]} == {None}
    assert found["n_unchanged"] == found["n_cells"] == 18
    code, out, err = run("patch", small[0], *same, *BOTH)
    assert (code, out.count(" nan ")) == (0, 10)
    assert err.endswith(f"workbench: {sentence}\n")


def test_work_that_is_interrupted_shows_what_is_done(run, small, tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(import_module("workbench.sweep.ways"), "recompute", interrupted)
    code, out, err = run("patch", small[0], *TWO, *BOTH, "--json", "--out", tmp_path / "r.html")
    assert code == 0
    assert strictly(out)["strongest"][-1]["value"] is None
    assert re.fullmatch(r"workbench: interrupted: \d+ of 18 cells were not computed, NaN\n", err)
    assert "interrupted: " in (tmp_path / "r.html").read_text("utf-8")


@pytest.mark.parametrize("command", ["patch", "ablate"])
def test_help(run, command):
    code, out, err = run(command, "--help")
    assert (code, err) == (0, "")
    for option in ("--correct", "--task", "--layers", "--selection", "--out", "--json"):
        assert option in out


# ---- files that are written ----------------------------------------------------------------------------


def test_files_say_what_the_library_says(run, small, tmp_path):
    folder, model = small
    paths = [tmp_path / "new" / name for name in ("r.csv", "r.SAFETENSORS", "r.html")]
    outs = [part for path in paths for part in ("--out", path)]
    code, out, err = run("patch", folder, *ONE, *BOTH, *outs, "--json")
    assert (code, err) == (0, "")
    assert strictly(out)["files"] == [str(path.resolve()) for path in paths]
    assert sorted(paths[0].parent.iterdir()) == sorted(paths)
    result = wb.activation_patching(model, CLEAN[0], CORRUPTED[0], DIFF, progress=False)
    pd.testing.assert_frame_equal(pd.read_csv(paths[0]), result.to_dataframe(), check_dtype=False, rtol=1e-5)
    loaded = SweepResult.load(paths[1])
    assert torch.equal(loaded.values, result.values)
    assert (loaded.labels, loaded.places, loaded.work) == (result.labels, result.places, result.work)

    printed = run("patch", folder, *ONE, *BOTH, "--out", paths[0])[1]
    assert printed.endswith(f"written: {paths[0].resolve()}\n")


def test_a_csv_has_a_row_for_each_pair_and_cell(run, small, tmp_path):
    folder, model = small
    run("patch", folder, *TWO, *BOTH, "--out", tmp_path / "r.csv")
    result = wb.activation_patching(model, CLEAN, CORRUPTED, DIFF, progress=False)
    frame = pd.read_csv(tmp_path / "r.csv")
    assert len(frame) == 2 * 18
    pd.testing.assert_frame_equal(frame, result.to_dataframe(), check_dtype=False, rtol=1e-5)


def test_the_page_is_complete_in_itself_and_escapes_texts(run, small, tmp_path):
    folder, model = small
    path = tmp_path / "r.html"
    answers = ["--correct", f" {EVIL}", "--incorrect", " p"]
    pair = ["--clean", CLEAN[1], "--corrupted", CORRUPTED[1]]
    assert run("patch", folder, *pair, *answers, "--out", path)[0] == 0
    html = path.read_text("utf-8")
    assert html.startswith("<!doctype html>")
    assert html.rstrip().endswith("</html>")
    assert html.count('class="figure"') == 1
    body = re.sub(r"<script.*?</script>", "", html, flags=re.S)
    assert not re.findall(r"""<[^>]*\b(?:src|href)\s*=\s*["']?\s*(?:https?:)?//""", body)
    assert not re.findall(r"<script[^>]*\bsrc\b", html)
    assert not re.findall(r"<link\b|@import", html.split("<script>")[0])
    assert EVIL not in html
    assert "alert(" not in body.replace("&lt;script&gt;alert(", "")
    result = wb.activation_patching(model, CLEAN[1], CORRUPTED[1], wb.logit_diff(f" {EVIL}", " p"), progress=False)
    figure = re.search(r'<script type="application/json">(.*?)</script>', html, re.S)[1]
    assert "clean into corrupted" in figure
    top = max(abs(cell["effect"]) for cell in strongest(result, 1))
    assert f"{top:.3f}"[:4] in body
    assert len(re.findall(r"<tr>", body)) == 3 + 11 + 3  # baselines, the strongest, the texts


def test_the_page_of_many_pairs_shows_the_first(run, speller, tmp_path):
    path = tmp_path / "r.html"
    code, _, _ = run("ablate", speller[0], "--task", "induction", "--n", 25, "--layers", 1, "--out", path)
    html = re.sub(r"<script.*?</script>", "", path.read_text("utf-8"), flags=re.S)
    assert code == 0
    assert "The first 20 of 25." in html
    texts = wb.tasks.induction(speller[1].tokenizer, n=25).clean
    assert [text in html for text in texts] == [True] * 20 + [False] * 5
    assert "<th class=number>from</th><th class=number>to</th>" in html


def test_a_grid_that_cannot_be_drawn_is_said_on_the_page(run, small, tmp_path):
    options = [*BOTH, "--site", "pattern", "--over", "layer,head,query,key", "--out", tmp_path / "r.html"]
    assert run("patch", small[0], *ONE, *options)[0] == 0
    html = (tmp_path / "r.html").read_text("utf-8")
    assert "There is no figure: a sweep is drawn over 1 to 3 axes" in html
    assert 'class="figure"' not in html


def test_parquet_where_pyarrow_is(run, small, tmp_path, monkeypatch):
    module, written = import_module("workbench.cli.sweep_report"), []
    monkeypatch.setattr(module, "find_spec", lambda name: name == "pyarrow" or pytest.fail(name))

    def to_parquet(frame, path, engine, index):
        written.append((frame, engine, index))
        path.write_text("parquet")

    monkeypatch.setattr(pd.DataFrame, "to_parquet", to_parquet)
    assert run("patch", small[0], *ONE, *BOTH, "--out", tmp_path / "r.parquet")[0] == 0
    result = wb.activation_patching(small[1], CLEAN[0], CORRUPTED[0], DIFF, progress=False)
    (frame, engine, index) = written[0]
    pd.testing.assert_frame_equal(frame, result.to_dataframe())
    assert (engine, index) == ("pyarrow", False)
    assert (tmp_path / "r.parquet").read_text() == "parquet"


def test_a_file_that_fails_leaves_the_old_one(run, small, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    (tmp_path / "r.csv").write_text("old")
    monkeypatch.setattr(pd.DataFrame, "to_csv", full)
    code, out, err = run("patch", small[0], *ONE, *BOTH, "--out", tmp_path / "r.csv")
    assert code == 2
    assert "strongest 10 of 18" in out  # what was found is not lost
    assert "No space left" in err
    assert [left.name for left in tmp_path.iterdir()] == ["r.csv"]
    assert (tmp_path / "r.csv").read_text() == "old"


# ---- what is wrong -------------------------------------------------------------------------------------

PAIR = ["--clean", "a b", "--corrupted", "a c"]
PATCH, ABLATE, GOOD = ["patch", "{model}"], ["ablate", "{model}"], [*PAIR, *BOTH]
CSV = "{here}/pairs.csv"
WRONG = {
    "no model": (["patch"], "model"),
    "no pairs": (PATCH, "no pairs to patch between; --clean with --corrupted, --file or --task"),
    "answers without texts": ([*PATCH, *BOTH], "--correct came without --clean"),
    "clean alone": ([*PATCH, *PAIR[:2], *BOTH], "--clean came 1 time and --corrupted 0 times"),
    "corrupted alone": ([*PATCH, *PAIR[2:], *BOTH], "--clean came 0 times and --corrupted 1 time;"),
    "too many answers": (
        [*PATCH, *GOOD, "--clean", "a", "--corrupted", "b", "--clean", "c", "--corrupted", "d", "--correct", " e"],
        "--correct came 2 times for 3 pairs",
    ),
    "file and task": ([*PATCH, "--file", CSV, "--task", "ioi"], "--file and --task"),
    "texts and file": ([*PATCH, *PAIR, "--file", CSV], "--clean came, and --file gives it"),
    "answers and task": ([*PATCH, *BOTH, "--task", "ioi"], "--correct came, and --task gives it"),
    "no incorrect": (
        [*PATCH, *PAIR, *BOTH[:2]],
        "there is no --incorrect; of what came, --metric can be logit, logprob, prob, rank",
    ),
    "no answers": ([*PATCH, *PAIR], "there is no --correct; of what came, --metric can be kl_from"),
    "only incorrect": ([*PATCH, *PAIR, *BOTH[2:]], "no --correct; of what came, --metric can be nothing"),
    "incorrect left over": ([*PATCH, *GOOD, "--metric", "prob"], "--metric prob reads no --incorrect"),
    "answers left over": ([*PATCH, *GOOD, "--metric", "kl_from"], "--metric kl_from reads no --correct"),
    "metric": ([*PATCH, *GOOD, "--metric", "logit_dif"], "'logit_dif'; the nearest are: logit_diff"),
    "metric of a task": ([*PATCH, "--task", "ioi", "--metric", "logits"], "'logits'; the nearest are: logit"),
    "loss of a pair": ([*PATCH, *PAIR, "--metric", "loss"], "--metric is 'loss'"),
    "direction": ([*PATCH, *GOOD, "--direction", "denoice"], "'denoice'; the nearest are: denoise"),
    "backwards": ([*PATCH, *GOOD, "--layers", "1,8-3"], "--layers has the range 8-3, which ends before it starts"),
    "backwards from the end": ([*PATCH, *GOOD, "--layers", "-1--3"], "-1--3, which ends before"),
    "both ends": ([*PATCH, *GOOD, "--positions", "2--1"], "--positions has the range 2--1, one end"),
    "endless": ([*PATCH, *GOOD, "--heads", "0-99999999999"], "longer than 100,000"),
    "hole": ([*PATCH, *GOOD, "--layers", "3,,5"], "--layers is '3,,5'"),
    "no number": ([*PATCH, *GOOD, "--neurons", "all"], "--neurons is 'all'"),
    "nothing": ([*PATCH, *GOOD, "--layers", ""], "--layers is ''"),
    "half a head": ([*PATCH, *GOOD, "--selection", "9.6,9"], "layer.head, such as 9.6,9.9"),
    "selection and layers": ([*PATCH, *GOOD, "--selection", "1.1", "--layers", "1"], "--selection says which layers"),
    "selection and window": ([*PATCH, *GOOD, "--selection", "1.1", "--window", "2"], "--window out"),
    "axis": ([*PATCH, *GOOD, "--over", "layer,heads"], "'heads'; the nearest are: head"),
    "axis twice": ([*PATCH, *GOOD, "--over", "layer,layer"], "'layer' more than once"),
    "labels of nothing": ([*PATCH, *GOOD, "--labels"], "--labels are those of a --task or --file"),
    "labels and positions": ([*PATCH, "--task", "ioi", "--labels", "--positions", "1"], "--labels and --positions"),
    "window": ([*PATCH, *GOOD, "--window", "0"], "--window"),
    "top": ([*PATCH, *GOOD, "--top", "0"], "--top"),
    "kind of output": ([*PATCH, *GOOD, "--out", "r.cvs"], "'r.cvs', a file of unknown kind; the nearest are: .csv"),
    "no kind of output": ([*PATCH, *GOOD, "--out", "{here}"], "unknown kind; there are: .csv, .parquet"),
    "output is a folder": ([*PATCH, *GOOD, "--out", "{here}/folder.csv"], "is a folder"),
    "output under a file": ([*PATCH, *GOOD, "--out", "{here}/junk/r.csv"], "no folder to write to"),
    "second output": ([*PATCH, *GOOD, "--out", "r.csv", "--out", "{here}/junk/r.csv"], "no folder to write to"),
    "parquet": ([*PATCH, *GOOD, "--out", "r.parquet"], "needs pyarrow .pip install pyarrow.; .csv"),
    "over its own pairs": ([*PATCH, "--file", CSV, "--out", "pairs.csv"], "the file that is read"),
    "no file": ([*PATCH, "--file", "{here}/nope.csv"], "there is no file"),
    "kind of file": ([*PATCH, "--file", "{here}/junk"], "'junk' is neither"),
    "file": ([*PATCH, "--file", "{here}/junk.csv"], "header of junk.csv"),
    "task": ([*PATCH, "--task", "greater_than"], "'greater_than'; the nearest are: greater-than"),
    "no n": ([*PATCH, "--task", "ioi", "--n", "0"], "--n"),
    "n of nothing": ([*PATCH, *GOOD, "--n", "3"], "--n is of a --task"),
    "n of a file": ([*PATCH, "--file", CSV, "--n", "3"], "--n is of a --task"),
    "seed of nothing": ([*PATCH, *GOOD, "--seed", "0"], "--seed is of a --task"),
    "seed": ([*PATCH, "--task", "ioi", "--seed", "-1"], "--seed"),
    "an argument more": ([*PATCH, "a b", *GOOD], "a b"),
    "no text": ([*ABLATE, *BOTH], "there is no text to ablate on"),
    "text and file": ([*ABLATE, "a b", "--file", CSV], "a text came, and --file gives it"),
    "answers of three": ([*ABLATE, "a", "b", "c", "--correct", " a", *BOTH], "--correct came 2 times for 3 texts"),
    "nothing to measure": ([*ABLATE, "a b"], "there is no --correct; of what came, --metric can be kl_from, loss"),
    "kind": ([*ABLATE, "a b", *BOTH, "--kind", "man"], "'man'; the nearest are: mean"),
    "mean of what": ([*ABLATE, "a b", *BOTH, "--kind", "mean"], "--kind mean wants --reference"),
    "zeros of what": ([*ABLATE, "a b", *BOTH, "--reference", "{here}/junk"], "zeros need none"),
    "reference": ([*ABLATE, "a", *BOTH, "--kind", "mean", "--reference", "{here}/nope"], "there is no file"),
    "empty reference": ([*ABLATE, "a", *BOTH, "--kind", "mean", "--reference", "{here}/empty"], "holds no text"),
    "no utf-8": ([*ABLATE, "a", *BOTH, "--kind", "mean", "--reference", "{here}/bytes"], "UTF-8"),
    "corrupted of nothing": (
        [*ABLATE, "a", *BOTH, "--kind", "mean", "--reference", "corrupted"],
        "--reference corrupted is of a --task or --file",
    ),
    "over its own reference": (
        [*ABLATE, "a", *BOTH, "--kind", "mean", "--reference", "{here}/texts.csv", "--out", "{here}/texts.csv"],
        "the file that is read",
    ),
    "seed of zeros": ([*ABLATE, "a", *BOTH, "--seed", "1"], "--seed is of a --task"),
    "labels of texts": ([*ABLATE, "a", *BOTH, "--labels"], "--labels are those of a --task or --file"),
    "ranges of an ablation": ([*ABLATE, "a", *BOTH, "--layers", "2-1"], "2-1, which ends before it starts"),
    "output of an ablation": ([*ABLATE, "a", *BOTH, "--out", "r.txt"], "unknown kind"),
}


@pytest.mark.parametrize(("arguments", "says"), WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_is_one_line_before_a_model_is_loaded(run, arguments, says, small, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "junk").write_text("junk")
    (tmp_path / "junk.csv").write_text("junk\n1\n")
    (tmp_path / "pairs.csv").write_text("clean,corrupted,correct,incorrect\na b,a c, d, e\n")
    (tmp_path / "texts.csv").write_text("a b c\n")
    (tmp_path / "empty").write_text("\n \n")
    (tmp_path / "bytes").write_bytes(b"a\xff")
    (tmp_path / "folder.csv").mkdir()
    for module in MODULES.values():
        monkeypatch.setattr(module, "load", lambda name: pytest.fail("the work began"))
    report = import_module("workbench.cli.sweep_report")
    monkeypatch.setattr(report, "find_spec", lambda name: None)
    before = sorted(tmp_path.rglob("*"))
    code, out, err = run(*(part.format(here=tmp_path, model=small[0]) for part in arguments))
    assert (code, out) == (2, "")
    assert err.startswith("workbench: ")
    assert err.count("\n") == 1
    assert re.search(says, err), err
    assert sorted(tmp_path.rglob("*")) == before


LATER = {
    "site": ([*ONE, *BOTH, "--site", "resid_pref"], "resid_pre"),
    "axis": ([*ONE, *BOTH, "--over", "layer,head"], "swept over some of layer, pos"),
    "layer": ([*ONE, *BOTH, "--layers", "1-7"], "layer 3 was chosen"),
    "answer": ([*ONE, "--correct", " o p", "--incorrect", " p"], "' o p' is not one token"),
    "lengths": (["--clean", "a b", "--corrupted", "a", *BOTH], "pair 0 has 2 tokens in clean and 1 in corrupted"),
    "task": (["--task", "ioi"], "name"),
}


@pytest.mark.parametrize(("options", "says"), LATER.values(), ids=LATER.keys())
def test_what_only_the_model_knows_is_one_line_too(run, small, options, says, tmp_path):
    code, out, err = run("patch", small[0], *options, "--out", tmp_path / "r.csv", "--json")
    assert (code, out) == (2, "")
    assert err.startswith("workbench: ")
    assert err.count("\n") == 1
    assert says in err
    assert not list(tmp_path.iterdir())


# ---- by hand -------------------------------------------------------------------------------------------


def result_of(values, clean, corrupted, direction="denoise"):
    """A sweep over layers of these values [example, layer]."""
    values = torch.tensor(values)
    names = tuple(map(str, range(values.shape[1])))
    return SweepResult(
        values=values,
        axes=("layer",),
        labels={"layer": names},
        places={"layer": tuple(range(len(names)))},
        clean=torch.tensor(clean),
        corrupted=torch.tensor(corrupted),
        site="resid_pre",
        direction=direction,
        unchanged=torch.zeros(len(names), dtype=torch.bool),
        work=Work(1, 2),
    )


def test_the_strongest_are_those_of_either_sign():
    """Base 1 and other 3: values 0, 2, nan and 1.5 are effects -0.5, 0.5, nan and 0.25; equal ones keep their order."""
    found = strongest(result_of([[0.0, 2.0, math.nan, 1.5]], [3.0], [1.0]), 3)
    assert [(cell["layer"], cell["effect"]) for cell in found] == [(0, -0.5), (1, 0.5), (3, 0.25)]
    assert str(strongest(result_of([[3.0]], [1.0], [3.0]), 1)[0]["effect"]) == "0.0"  # and not -0.0
    assert strongest(result_of([[math.nan, 2.0]], [3.0], [1.0]), 5)[1]["layer"] == 0


def test_where_no_effect_is_what_moved_most_comes_first():
    """Clean and corrupted both measure 5, so that there is no ratio: 5.5, 1 and 8 are 0.5, 4 and 3 away."""
    found = strongest(result_of([[5.5, 1.0, 8.0]], [5.0], [5.0]), 3)
    assert [cell["layer"] for cell in found] == [1, 2, 0]
    assert all(math.isnan(cell["effect"]) for cell in found)


def test_decimals():
    assert _decimals([6.1234, -0.5]) == ["6.123", "-0.500"]
    assert _decimals([0.03234, 0.001]) == ["0.0323", "0.0010"]
    assert _decimals([7.7e-8]) == ["7.70e-08"]
    assert _decimals([0.0, math.nan]) == ["0.000", "nan"]


def test_what_is_changed_at_a_time():
    assert [extent(1, None), extent(3, None), extent(1, "9.6, 9.9")] == [
        "",
        ", 3 layers at a time",
        ", heads 9.6, 9.9 at once",
    ]


# ---- the real model ------------------------------------------------------------------------------------


def test_the_head_of_the_readme(run, smollm, tmp_path, monkeypatch):
    """Layer 23, head 3 brings 58% of the answer back."""
    monkeypatch.setattr(MODULES["patch"], "load", {"smollm2-135m": smollm}.__getitem__)
    clean = "When Mary and John went to the store, John gave a drink to"
    options = ["--clean", clean, "--corrupted", clean.replace(", John", ", Mary")]
    options += ["--correct", " Mary", "--incorrect", " John", "--site", "z", "--layers", "22-23"]
    code, out, _ = run("patch", "smollm2-135m", *options, "--out", tmp_path / "ioi.html")
    assert code == 0
    assert "logit(' Mary') - logit(' John') = 6.12" in out
    assert re.search(r"^ *23 +3 +1\.29\d +0\.584 *$", out, re.MULTILINE)
    assert "of the clean run into the corrupted one at each layer x head: 18 cells, 1 pair" in out
    row = "<td class=number>23</td><td class=number>3</td><td class=number>1.29\\d+</td><td class=number>0.58[34]"
    assert re.search(row, (tmp_path / "ioi.html").read_text("utf-8"))
