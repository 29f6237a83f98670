"""`workbench lens`, with the real model and with small ones whose tokens are nasty."""

import html
import json
from importlib import import_module

import pytest
import torch
from random_models import VOCAB, powered
from test_cache import plain_spec
from words import word_tokenizer

import workbench as wb
from workbench.tokenizer import Tokenizer

lens_module = import_module("workbench.cli.lens")
PROMPT = "When Mary and John went to the store, John gave a drink to"


@pytest.fixture(scope="module")
def words():
    """A small model of whole words."""
    model = powered(plain_spec())
    model.tokenizer = word_tokenizer()
    return model


@pytest.fixture(autouse=True)
def loaded(monkeypatch, smollm, words):
    models = {"smollm2-135m": smollm, "words": words}
    monkeypatch.setattr(lens_module, "load", models.__getitem__)
    return models


def lines_of(out):
    """The heading, the columns, the rows by label, what stands below."""
    title, _, columns, _, *rest = [line.strip() for line in out.splitlines()]
    end = rest.index("")
    return title, columns, {row.split()[0]: row.split()[1:] for row in rest[:end]}, rest[end + 1 :]


def test_what_the_real_model_says_on_the_way(run, smollm):
    """The answer is far down until the last layers, and then on top."""
    code, out, _ = run("lens", "smollm2-135m", PROMPT)
    title, columns, rows, _ = lines_of(out)
    assert code == 0
    assert title == "after ␣to (position 13 of 14)"
    assert columns.split("  ")[-1].strip() == "KL"
    assert "rank of ␣Mary" in columns
    assert list(rows) == [*(f"{layer}_pre" for layer in range(30)), "final"]
    assert rows["final"][:3] == ["␣Mary", "0.923", "0"]
    assert rows["final"][-1] == "0.000"
    assert int(rows["12_pre"][2]) > 100
    lens = wb.logit_lens(smollm, PROMPT, targets=[" Mary"])
    for row, label in enumerate(lens.labels):
        assert int(rows[label][2].replace(",", "")) == lens.target_ranks[0, row, -1, 0]
        assert float(rows[label][3]) == pytest.approx(lens.entropy[0, row, -1].item(), abs=6e-4)
        assert float(rows[label][4]) == pytest.approx(lens.kl[0, row, -1].item(), abs=6e-4)


def test_targets_each_have_a_column(run, words):
    code, out, err = run("lens", "words", "c a f", "--target", "b", "--target", "d")
    _, columns, rows, below = lines_of(out)
    lens = wb.logit_lens(words, "c a f", targets=["b", "d"])
    assert (code, err) == (0, "")
    assert columns.split() == "layer top token probability rank of b rank of d entropy KL".split()
    for row, label in enumerate(lens.labels):
        assert rows[label][2:4] == [str(int(rank)) for rank in lens.target_ranks[0, row, -1]]
    assert below == ["entropy and KL(final || layer) in nats; rank 0 is the top token; ★ the text goes on so"]


@pytest.mark.parametrize(("position", "at"), [(0, 0), (1, 1), (-2, 1), (2, 2), (-3, 0)])
def test_another_position(run, words, position, at):
    """Without a target it is what the model says there in the end whose rank is shown."""
    code, out, _ = run("lens", "words", "f c k", "--position", position)
    title, columns, rows, _ = lines_of(out)
    lens = wb.logit_lens(words, "f c k", top_k=VOCAB)
    assert len(lens.tokens[0, -1, :, 0].unique()) == 3
    said = int(lens.tokens[0, -1, at, 0])
    assert code == 0
    assert title == f"after {'fck'[at]} (position {at} of 3)" + (f", before {'fck'[at + 1]}" if at < 2 else "")
    assert f"rank of {lens.texts[0][-1][at][0]}" in columns
    ranks = [(lens.tokens[0, row, at] == said).nonzero().item() for row in range(4)]
    star = [int("★" in row) for row in rows.values()]
    assert [int(row[2 + starred]) for row, starred in zip(rows.values(), star, strict=True)] == ranks
    assert star == lens.right[0, :, at].int().tolist()


def test_a_star_where_the_text_goes_on_so(run, words):
    """A text that the model itself has made: its last layers foresee it, its first do not."""
    text = " ".join(words.generate("c a f", max_new_tokens=3).replace(" ", ""))
    right = wb.logit_lens(words, text).right[0, :, 3].tolist()
    assert right == [False, False, True, True]
    _, out, _ = run("lens", "words", text, "--position", 3)
    assert ["★" in row for row in lines_of(out)[2].values()] == right


def test_json_has_every_number(run, words):
    code, out, err = run("lens", "words", "c a f", "--json", "--top-k", 4, "--target", "b", "--position", 1)
    data = json.loads(out, parse_constant=pytest.fail)  # NaN is no JSON
    lens = wb.logit_lens(words, "c a f", 4, ["b"])
    assert (code, err) == (0, "")
    assert (data["command"], data["model"]) == ("lens", "words")
    assert (data["prompt"], data["position"], data["files"]) == ("c a f", 1, [])
    assert (data["str_tokens"], data["next_tokens"]) == (["c", "a", "f"], [0, 5, -1])
    assert (data["target_tokens"], data["target_texts"]) == ([1], ["b"])
    assert data["texts"] == lens.texts[0]
    for name in ("tokens", "next_ranks", "target_ranks", "right"):
        assert data[name] == getattr(lens, name)[0].tolist()
    for name in ("logprobs", "entropy", "kl", "target_logprobs"):
        assert torch.allclose(torch.tensor(data[name]), getattr(lens, name)[0], atol=1e-5), name
    assert [row[2] for row in data["next_logprobs"]] == [None] * 4
    assert data["next_logprobs"][3][0] == pytest.approx(lens.next_logprobs[0, 3, 0].item(), abs=1e-5)


@pytest.mark.parametrize("as_json", [True, False])
def test_a_bar_unless_it_is_json(run, monkeypatch, as_json):
    given = []

    def spied(*arguments, progress):
        given.append(progress)
        return wb.logit_lens(*arguments, progress=False)

    monkeypatch.setattr(lens_module, "logit_lens", spied)
    run("lens", "words", "c a f", *(["--json"] if as_json else []))
    assert given == [not as_json]


def test_a_page_that_is_complete_in_itself(run, tmp_path):
    path = tmp_path / "new" / "lens.html"
    code, out, _ = run("lens", "words", "c a f", "--target", "b", "--html", path)
    text = path.read_text("utf-8")
    assert (code, out.splitlines()[-1]) == (0, f"written: {path}")
    assert text.count("<iframe") == 1
    assert "<h2>Layer by layer, after f (position 2 of 3)</h2>" in text
    assert "src=" not in text.split("<body>")[1].split("<script>")[0]
    _, out, _ = run("lens", "words", "c a f", "--html", path, "--json")
    assert json.loads(out)["files"] == [str(path)]


def test_token_text_is_literal_everywhere(run, loaded, tmp_path):
    """Tokens as nasty as can be, in the table and on the page."""
    import tokenizers

    named = ["<script>x(1)</script>", "[red]x[/red]", "$x$", "%{x}", "\u200b", "\x1b[31m", "</script>", "&lt;", '"']
    vocabulary = [*named, *"abcdefghijklmnopqrstuvw"][:VOCAB]
    backend = tokenizers.Tokenizer(tokenizers.models.WordLevel({word: i for i, word in enumerate(vocabulary)}))
    backend.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    model = powered(plain_spec())
    model.tokenizer = Tokenizer(backend, None, None, adds_bos=False)
    loaded["nasty"] = model
    path, prompt = tmp_path / "lens.html", " ".join(named)
    said, pages = "", ""
    for some in (named[:3], named[3:6], named[6:]):
        targets = [part for name in some for part in ("--target", name)]
        code, out, err = run("lens", "nasty", prompt, *targets, "--top-k", VOCAB, "--html", path, "--position", 0)
        assert (code, err) == (0, "")
        said, pages = said + out, pages + path.read_text("utf-8").split("<body>")[1].split("const THEMES")[0]
    for shown in ("<script>x(1)</script>", "[red]x[/red]", "$x$", "%{x}", "\\u200b", "\\x1b[31m", "</script>", "&lt;"):
        assert f"rank of {shown} " in said
        assert html.escape(f"rank of {shown}") in pages
    for text in (said, pages):
        assert not {"\x1b", "\u200b"} & set(text)
    assert "x(1)</script>" not in pages


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (("--position", 3), "--position is 3; the text has 3 tokens, 0 to 2"),
        (("--position", -4), "--position is -4; the text has 3 tokens"),
        (("--position", "end"), "--position"),
        (("--top-k", 0), "top_k is 0; a number from 1 to 23 is wanted"),
        (("--top-k", 24), "top_k is 24"),
        (("--target", "b c"), "'b c' is not one token: it splits into 'b', 'c'"),
        (("--target", "b", "--target", "b"), "targets name 'b' twice"),
        (("--html", "{here}"), "is a folder; a file is wanted"),
        (("--html", "{here}/junk/lens.html"), "is no folder to write to"),
        (("--targt", "b"), "--targt"),
        (("more",), "more"),
    ],
)
def test_what_is_wrong_is_one_sentence(run, tmp_path, wrong, said):
    (tmp_path / "junk").write_text("")
    code, out, err = run("lens", "words", "c a f", *(str(part).format(here=tmp_path) for part in wrong))
    assert (code, out) == (2, "")
    assert said in err
    assert len(err.strip().splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["junk"]


def test_what_cannot_be_written_is_said_before_the_model_is_loaded(run, monkeypatch, tmp_path):
    monkeypatch.setattr(lens_module, "load", lambda name: pytest.fail("loaded"))
    assert run("lens", "words", "c a f", "--html", tmp_path)[0] == 2


@pytest.mark.parametrize("prompt", ["", " "])
def test_a_prompt_without_tokens(run, prompt):
    code, out, err = run("lens", "words", prompt)
    assert (code, out) == (2, "")
    assert "has no tokens" in err


def test_a_model_without_a_tokenizer(run, loaded):
    loaded["mute"] = powered(plain_spec())
    code, out, err = run("lens", "mute", "c a f")
    assert (code, out) == (2, "")
    assert "this model has no tokenizer" in err


def test_help(run):
    code, out, err = run("lens", "--help")
    assert (code, err) == (0, "")
    for option in ("--top-k", "--target", "--position", "--html", "--json"):
        assert option in out
    assert "lens" in run("--help")[1]
