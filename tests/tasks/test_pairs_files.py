"""Files of pairs: what is written comes back, what a person or a spreadsheet writes is read, the rest is refused."""

import json

import little_tokenizers as little
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench import tasks
from workbench.errors import InputError, KindError, LoadError, MetricError, MissingError
from workbench.tasks import Pairs

TOKENIZER = little.byte_level(more=[("Ġ", "|"), ("Ġ", '"'), ("Ġ", ","), ("Ċ", "ĠMary"), ("č", "ĠMary")])
HEADER = "clean,corrupted,correct,incorrect"
ROW = "x Mary is,x John is, Mary, John"
OBJECT = {"clean": "x Mary is", "corrupted": "x John is", "correct": " Mary", "incorrect": " John"}
ONE = Pairs(["x Mary is"], ["x John is"], [[" Mary"]], [[" John"]], {"end": [2]}, TOKENIZER)


def read(tmp_path, content, kind="csv"):
    path = tmp_path / f"mine.{kind}"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return tasks.read(path, TOKENIZER)


def jsonl(*objects):
    return "".join(json.dumps(one) + "\n" for one in objects)


# ---- there and back ------------------------------------------------------------------------------------

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.text(
    "\"',;|\t\r\n \\\0\ufeff\u2028=x", max_size=8
)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "CSV"])
@given(texts=st.lists(TEXT, min_size=1, max_size=3), where=st.integers(0, 1), name=TEXT.map(str.strip).filter(bool))
def test_any_text_comes_back(tmp_path, kind, texts, where, name):
    starts = [f"{text} " if where else text for text in texts]
    clean, corrupted = ([f"{start}x {who} is" for start in starts] for who in ("Mary", "John"))
    end = [len(TOKENIZER.encode(text)) - 1 for text in clean]
    answers = [[[" Mary", ' "'], [" Kate"], [" ,", "x", " Mary"]][i] for i in range(len(texts))]
    pairs = Pairs(clean, corrupted, answers, [[" John", " Tom"]] * len(texts), {name: end, "end": end}, TOKENIZER)
    path = tmp_path / f"pairs.{kind}"
    pairs.save(path)
    assert tasks.read(path, TOKENIZER) == pairs
    assert list(tmp_path.iterdir()) == [path]
    path.unlink()


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
@pytest.mark.parametrize("task", [tasks.ioi, tasks.induction, tasks.greater_than, tasks.capitals])
def test_tasks_come_back(tmp_path, kind, task):
    pairs = task(TOKENIZER, n=5)
    path = tmp_path / "new" / f"pairs.{kind}"
    pairs.save(path)
    again = tasks.read(path, TOKENIZER)
    assert again == pairs
    assert list(again.labels) == list(pairs.labels)
    again.save(path.with_stem("again"))
    assert path.with_stem("again").read_bytes() == path.read_bytes()


def test_what_a_csv_cannot_hold(tmp_path):
    """The old file is still there."""
    path = tmp_path / "pairs.csv"
    ONE.save(path)
    before = path.read_bytes()
    barred = Pairs(["x Mary is"], ["x John is"], [[" |"]], [[" John"]], {"end": [2]}, TOKENIZER)
    with pytest.raises(InputError, match=r"^the answer ' \|' holds the '\|' that parts answers in a CSV; save a "):
        barred.save(path)
    assert path.read_bytes() == before
    barred.save(tmp_path / "pairs.jsonl")
    assert tasks.read(tmp_path / "pairs.jsonl", TOKENIZER) == barred


def test_a_person_can_read_it(tmp_path):
    pairs = Pairs(["é Mary"], ["é John"], [[" Mary"]], [[" John"]], {"end": [2]}, TOKENIZER)
    for kind, answer in (("csv", '," Mary",'), ("jsonl", '"correct": " Mary"')):
        pairs.save(path := tmp_path / f"a.{kind}")
        assert '"é Mary"' in path.read_text("utf-8")
        assert answer in path.read_text("utf-8")


def test_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "pairs.jsonl"
    ONE.save(path)
    before = path.read_bytes()

    def full(self, *_, **__):
        self.write_bytes(b"half")
        raise OSError("no space left")

    monkeypatch.setattr(type(path), "write_text", full)
    with pytest.raises(OSError, match="no space"):
        tasks.ioi(TOKENIZER, n=3).save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


# ---- as people write them ------------------------------------------------------------------------------


def test_the_example_of_the_documentation(tmp_path, smollm):
    lines = [line.strip() for line in tasks.read.__doc__.splitlines()]
    table = lines[lines.index("clean,corrupted,correct,incorrect,label:country") :][:3]
    start = next(i for i, line in enumerate(lines) if line.startswith("{"))
    obj = (lines[start] + lines[start + 1]).removesuffix("(as one line)")
    (tmp_path / "a.csv").write_text("\n".join(table))
    (tmp_path / "a.jsonl").write_text(obj)
    pairs = tasks.read(tmp_path / "a.csv", smollm.tokenizer)
    assert pairs.correct == [[" Paris"], [" Lima"]]
    assert pairs.incorrect == [[" Madrid"], [" Havana", " Santiago"]]
    assert pairs.labels == {"country": [3, 3], "end": [4, 4]}
    assert tasks.read(tmp_path / "a.jsonl", smollm.tokenizer) == pairs[1:]
    assert bool((pairs.metric(smollm(pairs.clean)[0]) > 0).all())


@pytest.mark.parametrize(
    "content",
    [
        f"{HEADER}\n{ROW}",
        f"{HEADER}\n{ROW}\n",
        f"{HEADER}\r\n{ROW}\r\n",
        f"\ufeff{HEADER}\r\n{ROW}\r\n",
        f"{HEADER}\n\n{ROW}\n,,,\n\n",
        f"{HEADER}\n{ROW}\n".replace(",", ";"),
        f"{HEADER}\n{ROW}\n".replace(",", "\t"),
        '"clean","corrupted","correct","incorrect"\n"x Mary is","x John is"," Mary"," John"',
        f'"clean";"corrupted";"correct";"incorrect"\n{ROW}'.replace(",", ";"),
        "corrupted,incorrect,correct,clean\nx John is, John, Mary,x Mary is",
        " clean , corrupted, correct,incorrect \n" + ROW,
        f"{HEADER},label:end\n{ROW}, 2 ",
        f"{HEADER},metric\n{ROW},logit_diff",
        f"{HEADER},metric\n{ROW},",
    ],
)
def test_spreadsheets(tmp_path, content):
    assert read(tmp_path, content) == ONE


@pytest.mark.parametrize(
    "content",
    [
        jsonl(OBJECT),
        "\ufeff\n" + jsonl(OBJECT).replace("\n", "\r\n") + "\n  \n",
        jsonl({**OBJECT, "correct": [" Mary"], "labels": {}, "metric": None}),
        jsonl({**OBJECT, "labels": {"end": 2}, "metric": "logit_diff"}).rstrip(),
    ],
)
def test_json_lines(tmp_path, content):
    assert read(tmp_path, content, "jsonl") == ONE


def test_endings_in_capitals(tmp_path):
    assert read(tmp_path, f"{HEADER}\n{ROW}", "CSV") == ONE
    assert read(tmp_path, jsonl(OBJECT), "JSONL") == ONE


def test_bos_and_labels_are_the_tokenizers(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(f"{HEADER},label: who\n{ROW},2\n")
    pairs = tasks.read(str(path), little.byte_level(adds_bos=True))
    assert pairs.labels == {"who": [2], "end": [3]}


# ---- as they should not be -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", r"^the header of mine\.csv has no 'clean'; there are: none$"),
        (HEADER, r"^mine\.csv holds no pairs$"),
        (f"{HEADER}\n,,,\n", r"^mine\.csv holds no pairs$"),
        (f"clena,corrupted,correct,incorrect\n{ROW}",
         r"^the header of mine\.csv has the name 'clena', which is none of a pair's; the nearest are: clean$"),
        (f"{HEADER},lable:who\n{ROW},1", r"the name 'lable:who', .*; there are: clean, .*, metric, label:NAME$"),
        (f"{HEADER},label:\n{ROW},1", "the name 'label:'"),
        (f"{HEADER},\n{ROW},", "the name ''"),
        (f"{HEADER},clean\n{ROW},x", r"^the header of mine\.csv has 'clean' more than once$"),
        ("clean,corrupted,correct\nx,y,z", r"^the header of mine\.csv has no 'incorrect'; the nearest are: correct"),
        (f"{HEADER}\n{ROW}\nx,y\n", r"^line 3 of mine\.csv has 2 cells; 4 are wanted$"),
        (f"{HEADER}\n{ROW},3\n", r"^line 2 of mine\.csv has 5 cells; 4 are wanted$"),
        (f'{HEADER}\n"a\nb",x, Mary, John\nx,y\n', r"^line 4 of mine\.csv has 2 cells"),
        (f'{HEADER}\n{ROW}\n"x Mary', r"^line 3 of mine\.csv is not CSV: unexpected end of data$"),
        (f'{HEADER}\n"x" y,x,x,x', r"^line 2 of mine\.csv is not CSV: "),
        (f"{HEADER},label:who\n{ROW},",
         r"^line 2 of mine\.csv has '' under 'label:who'; a position from 0 on is wanted$"),
        (f"{HEADER},label:who\n{ROW},1.0", "has '1.0' under 'label:who'"),
        (f"{HEADER},label:who\n{ROW},-1", "has '-1' under 'label:who'"),
        (f"{HEADER},label:who\n{ROW},²", "has '²' under 'label:who'"),
        (f"{HEADER},metric\n{ROW},logit_dif",
         r"^line 2 of mine\.csv has the metric 'logit_dif'; the nearest are: logit_diff$"),
        (f"{HEADER},metric\n{ROW},logit_diff\n{ROW},prob_diff",
         r"^line 3 of mine\.csv has the metric 'prob_diff' and line 2 of mine\.csv 'logit_diff'; one is wanted$"),
        (b"\xff\xfec\0l\0", r"^mine\.csv cannot be read as UTF-8 text: "),
    ],
)  # fmt: skip
def test_csv_that_is_not_as_it_should_be(tmp_path, content, says):
    with pytest.raises(LoadError, match=says):
        read(tmp_path, content)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", r"^mine\.jsonl holds no pairs$"),
        ("\n \n", r"^mine\.jsonl holds no pairs$"),
        (jsonl(OBJECT) + '{"clean": "x', r"^line 2 of mine\.jsonl is not JSON: "),
        ("[" * 100_000, r"^line 1 of mine\.jsonl is not JSON: "),
        ("1" * 10_000, r"^line 1 of mine\.jsonl is not JSON: "),
        ("\n" + jsonl([1]), r"^line 2 of mine\.jsonl holds a list; an object is wanted$"),
        (jsonl({**OBJECT, "label": {}}), r"^line 1 of mine\.jsonl has the name 'label', .*; the nearest are: labels$"),
        (jsonl({"clean": "x", "corrupt": "y"}), "has the name 'corrupt', .*; the nearest are: corrupted"),
        (jsonl({k: v for k, v in OBJECT.items() if k != "correct"}),
         r"^line 1 of mine\.jsonl has no 'correct'; the nearest are: incorrect, corrupted$"),
        (jsonl(OBJECT, {**OBJECT, "clean": 5}), r"^line 2 of mine\.jsonl has 5 as 'clean'; a text is wanted$"),
        (jsonl({**OBJECT, "correct": 5}), r"has 5 as 'correct'; a text or a list of texts is wanted$"),
        (jsonl({**OBJECT, "labels": [2]}), r"has \[2\] as 'labels'; an object of positions is wanted$"),
        (jsonl({**OBJECT, "metric": 5}), r"has 5 as 'metric'; a text is wanted$"),
        (jsonl({**OBJECT, "labels": {"who": 1}}, OBJECT),
         r"^line 1 of mine\.jsonl has the label 'who' and line 2 of mine\.jsonl has not; all pairs have the same "),
        (jsonl(OBJECT, {**OBJECT, "labels": {"who": 1}}),
         r"^line 2 of mine\.jsonl has the label 'who' and line 1 of mine\.jsonl has not"),
        (jsonl(OBJECT, {**OBJECT, "metric": "prob_diff"}), r"^line 2 .* metric 'prob_diff' and line 1 of .* None; "),
    ],
)  # fmt: skip
def test_json_lines_that_are_not_as_they_should_be(tmp_path, content, says):
    with pytest.raises(LoadError, match=says):
        read(tmp_path, content, "jsonl")


@pytest.mark.parametrize(
    ("changed", "kind", "says"),
    [
        ({"corrupted": "x Ig is"}, InputError, r"^mine\.jsonl: pair 1 has 3 tokens in clean and 4 in corrupted"),
        ({"correct": "Mary"}, MetricError, r"^mine\.jsonl: pair 1: 'Mary' is not one token"),
        ({"correct": []}, MetricError, r"^mine\.jsonl: pair 1 has no correct answer"),
        ({"labels": {"end": 7}}, InputError, r"^mine\.jsonl: label 'end' of pair 1 is 7; its positions are 0 to 2"),
        ({"labels": {"end": "2"}}, KindError, r"^mine\.jsonl: label 'end' of pair 1 is '2'"),
        ({"clean": "", "corrupted": ""}, InputError, r"^mine\.jsonl: pair 1 has the same tokens"),
        ({"clean": ""}, InputError, r"^mine\.jsonl: pair 1 has 0 tokens in clean and 3 in corrupted"),
    ],
)
def test_pairs_that_do_not_fit_the_tokenizer(tmp_path, changed, kind, says):
    with pytest.raises(kind, match=says):
        read(tmp_path, jsonl({**OBJECT, "labels": {"end": 2}}, {**OBJECT, "labels": {"end": 2}, **changed}), "jsonl")


def test_files_that_are_none(tmp_path):
    with pytest.raises(MissingError, match=r"^there is no file '.*mine\.csv'$"):
        tasks.read(tmp_path / "mine.csv", TOKENIZER)
    for do in (lambda path: tasks.read(path, TOKENIZER), ONE.save):
        with pytest.raises(InputError, match=r"^pairs stand in a \.csv or a \.jsonl file; 'mine\.json' is neither$"):
            do(tmp_path / "mine.json")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(LoadError, match=r"^folder\.csv cannot be read"):
        tasks.read(tmp_path / "folder.csv", TOKENIZER)
    with pytest.raises(InputError, match=r"folder\.csv' is a folder; pairs are saved as a file$"):
        ONE.save(tmp_path / "folder.csv")
    with pytest.raises(InputError, match="no tokenizer"):
        tasks.read(tmp_path / "mine.csv", None)
    with pytest.raises(KindError, match="no argument 'tokeniser'; the nearest are: tokenizer"):
        tasks.read(tmp_path / "mine.csv", tokeniser=TOKENIZER)


def test_an_answer_with_a_bar_is_two_in_a_csv(tmp_path):
    pairs = read(tmp_path, f"{HEADER}\nx Mary is,x John is, Mary| Kate, John| Tom\n")
    assert (pairs.correct, pairs.incorrect) == ([[" Mary", " Kate"]], [[" John", " Tom"]])
    with pytest.raises(MetricError, match="pair 0: '' is not one token: it splits into nothing"):
        read(tmp_path, f"{HEADER}\nx Mary is,x John is, Mary|, John\n")
