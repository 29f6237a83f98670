"""Pairs as files that a person can write: CSV, a row for each pair, or JSON lines, an object for each."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import InputError, LoadError, MissingError, nearest
from ..files import atomic_file
from ._pair import Pair

TEXTS = ("clean", "corrupted")
ANSWERS = ("correct", "incorrect")
BETWEEN = "|"  # the answers of a set, in CSV
LABEL = "label:"  # before a label's name, in CSV


class Line(NamedTuple):
    """A pair and the measure that its line names, if any; `where` says which line of which file that is."""

    where: str
    pair: Pair
    measure: str | None


def write_pairs(path: str | Path, pairs: Sequence[Pair], measure: str) -> None:
    """Whole or not at all. InputError for another kind of file, or for what a CSV cannot hold."""
    path = Path(path)
    text = _to_csv(pairs, measure) if _is_csv(path) else _to_jsonl(pairs, measure)
    if path.is_dir():
        raise InputError(f"{str(path)!r} is a folder; pairs are saved as a file")
    with atomic_file(path) as temporary:
        temporary.write_text(text, "utf-8", newline="")


def read_lines(path: str | Path) -> list[Line]:
    """Raises MissingError, InputError for another kind of file, and LoadError for what is not as it should be."""
    path = Path(path)
    rows = _csv_rows if _is_csv(path) else _jsonl_rows
    if not path.exists():
        raise MissingError(f"there is no file {str(path)!r}")
    try:
        text = path.read_bytes().decode("utf-8-sig")  # spreadsheets put a mark before the text
    except (OSError, UnicodeDecodeError) as error:
        raise LoadError(f"{path.name} cannot be read as UTF-8 text: {error}") from None
    lines = [_line(row, f"line {number} of {path.name}") for number, row in rows(text, path.name)]
    if not lines:
        raise LoadError(f"{path.name} holds no pairs")
    return lines


def _is_csv(path: Path) -> bool:
    if path.suffix.lower() not in (".csv", ".jsonl"):
        raise InputError(f"pairs stand in a .csv or a .jsonl file; {path.name!r} is neither")
    return path.suffix.lower() == ".csv"


# ---- CSV -----------------------------------------------------------------------------------------------


def _to_csv(pairs: Sequence[Pair], measure: str) -> str:
    names = list(pairs[0].labels)
    file = io.StringIO()
    writer = csv.writer(file, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    writer.writerow([*TEXTS, *ANSWERS, "metric", *(LABEL + name for name in names)])
    for pair in pairs:
        if held := [answer for answer in (*pair.correct, *pair.incorrect) if BETWEEN in answer]:
            raise InputError(f"the answer {held[0]!r} holds the {BETWEEN!r} that parts answers in a CSV; save a .jsonl")
        answers = [BETWEEN.join(answers) for answers in (pair.correct, pair.incorrect)]
        writer.writerow([pair.clean, pair.corrupted, *answers, measure, *(pair.labels[name] for name in names)])
    return file.getvalue()


def _csv_rows(text: str, file: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Rows under the names of a JSON line, each with the number of its last line; empty ones are left out."""
    reader = csv.reader(io.StringIO(text), delimiter=_delimiter(text), strict=True)
    try:
        header = [_name(cell.strip()) for cell in next(reader, [])]
        _check_names(header, f"the header of {file}", [*TEXTS, *ANSWERS, "metric"], prefix=LABEL)
        for cells in reader:
            if not any(cells):
                continue
            if len(cells) != len(header):
                raise LoadError(f"line {reader.line_num} of {file} has {len(cells)} cells; {len(header)} are wanted")
            yield reader.line_num, _csv_row(dict(zip(header, cells, strict=True)), reader.line_num, file)
    except csv.Error as error:
        raise LoadError(f"line {reader.line_num} of {file} is not CSV: {error}") from None


def _csv_row(cells: dict[str, str], line: int, file: str) -> dict[str, Any]:
    row: dict[str, Any] = {name: cells[name] for name in TEXTS} | {"metric": cells.get("metric", "").strip() or None}
    row |= {name: cells[name].split(BETWEEN) if cells[name] else [] for name in ANSWERS}
    row["labels"] = {}
    for name, cell in cells.items():
        if name.startswith(LABEL):
            if not cell.strip().isdecimal() or len(cell.strip()) > 9:
                raise LoadError(f"line {line} of {file} has {cell!r} under {name!r}; a position from 0 on is wanted")
            row["labels"][name.removeprefix(LABEL)] = int(cell)
    return row


def _name(column: str) -> str:
    """Of a column: without spaces around a label's name."""
    return LABEL + column.removeprefix(LABEL).strip() if column.startswith(LABEL) else column


def _delimiter(text: str) -> str:
    """The one that parts the names of columns: a spreadsheet may write another than the comma."""
    first = text.partition("\n")[0].replace('"', "")
    return max(",;\t", key=lambda by: len({name.strip() for name in first.split(by)} & {*TEXTS, *ANSWERS}))


# ---- JSON lines ----------------------------------------------------------------------------------------


def _to_jsonl(pairs: Sequence[Pair], measure: str) -> str:
    return "".join(json.dumps(_object(pair, measure), ensure_ascii=False) + "\n" for pair in pairs)


def _object(pair: Pair, measure: str) -> dict[str, Any]:
    plain = {name: one[0] if len(one := getattr(pair, name)) == 1 else one for name in ANSWERS}
    return {"clean": pair.clean, "corrupted": pair.corrupted, **plain, "metric": measure, "labels": pair.labels}


def _jsonl_rows(text: str, file: str) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise LoadError(f"line {number} of {file} is not JSON: {error}") from None
        if not isinstance(row, dict):
            raise LoadError(f"line {number} of {file} holds a {type(row).__name__}; an object is wanted")
        _check_names(row, f"line {number} of {file}", [*TEXTS, *ANSWERS, "metric", "labels"])
        answers = {name: [row[name]] if isinstance(row[name], str) else row[name] for name in ANSWERS}
        yield number, {"metric": None, "labels": {}, **row, **answers}


# ---- both ----------------------------------------------------------------------------------------------


def _check_names(names: Iterable[str], where: str, known: Sequence[str], prefix: str | None = None) -> None:
    """All that are needed are there, once, and no others."""
    names = list(names)
    for name in names:
        if name not in known and (prefix is None or not name.startswith(prefix) or name == prefix):
            existing = known if prefix is None else [*known, prefix + "NAME"]
            raise LoadError(f"{where} has the name {name!r}, which is none of a pair's; {nearest(name, existing)}")
        if names.count(name) > 1:
            raise LoadError(f"{where} has {name!r} more than once")
    for name in (*TEXTS, *ANSWERS):
        if name not in names:
            raise LoadError(f"{where} has no {name!r}; {nearest(name, names)}")


def _line(row: dict[str, Any], where: str) -> Line:
    """A row's values, of the kinds that they should be."""
    kinds = dict.fromkeys(TEXTS, (str, "a text")) | dict.fromkeys(ANSWERS, (list, "a text or a list of texts"))
    kinds |= {"labels": (dict, "an object of positions"), "metric": ((str, type(None)), "a text")}
    for name, (kind, wanted) in kinds.items():
        if not isinstance(row[name], kind):
            raise LoadError(f"{where} has {row[name]!r} as {name!r}; {wanted} is wanted")
    return Line(where, Pair(*(row[name] for name in (*TEXTS, *ANSWERS, "labels"))), row["metric"])
