"""Every notebook is stored as one wants to read its diff, runs from top to bottom, and shows what it tells of."""

import json
import re
from pathlib import Path

import nbformat
import pytest
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
FIGURE = "application/vnd.plotly.v1+json"
WIDGET = "application/vnd.jupyter.widget-view+json"
HTML = "text/html"

# By notebook, what its cells show: the kind of output, and a piece of its text.
SHOWN = {
    "01_first_look": {
        "forward": ("text/plain", "{' Mary': 0.92"),
        "pattern": (FIGURE, "Layer 23, head 3"),
        "sum": ("text/plain", "True"),
        "lens": (WIDGET, "LensDashboard"),
        "ranks": ("stream", "24_pre   Mary   147   John   297"),
        "pair": ("stream", "clean        6.12\ncorrupted   -5.49\n"),
        "hook": ("stream", "before layer 10: 6.11"),
        "positions": (FIGURE, "resid_pre (stream before a layer), clean into corrupted"),
        "heads": (FIGURE, "z (head output), clean into corrupted"),
        "heads-table": ("text/plain", "23     3  1.2"),
        "ablation": (FIGURE, "z (head output), ablated"),
        "dashboard": (WIDGET, "AttentionDashboard"),
        "writes": ("text/plain", "{'Mary': 0.37, 'John': -2.49}"),
        "answer-head": ("text/plain", "24     4"),
        "answer-look-code": ("text/plain", "{' Mary': 0.81"),
        "answer-writes": ("text/plain", "{'Mary': -1.31, 'John': -0.24}"),
    },
    "02_from_question_to_circuit": {
        "metric": ("stream", "mean      4.95 and -4.40"),
        "where": (FIGURE, "resid_pre (stream before a layer), clean into corrupted"),
        "where-table": ("text/plain", "20  0.92"),
        "heads": (FIGURE, "z (head output), clean into corrupted"),
        "chance": ("text/plain", "29.1   0.281"),
        "error-bars": (FIGURE, "95 % over pairs"),
        "place": ("text/plain", "17     4    s2"),
        "look": ("text/plain", "17.4 at s2  0.02"),
        "scores": ("text/plain", "0.777"),
        "write": (FIGURE, "direct attribution of the logit difference"),
        "write-two": ("text/plain", "23.3   0.019   -2.45"),
        "through": ("text/plain", "23.0 without 20.0 0.42"),
        "need": ("text/plain", "23.3 -2.67"),
        "early": ("stream", "zero: -1.70\nmean: +0.03"),
        "enough": ("stream", "23.3                    0.74\n23.3 29.1               1.00\n"),
        "board": (WIDGET, "PatchingDashboard"),
        "board-selection": ("stream", "without these 4 heads: -4.47 of 4.95"),
        "answer-code": ("text/plain", "repeated 0.296"),
    },
    "03_attention_dashboard": {
        "prompts": ("stream", "'sat' with probability 0.97"),
        "open": (WIDGET, "AttentionDashboard of 4 heads and 9 positions"),
        "queries": ("stream", "8 ['mat', 'sat']"),
        "quantity": ("stream", "largest weight 0.50, times the length of what is moved 0.00"),
        "contribution": ("stream", "sat adds 6.00, all positions 6.00"),
        "hidden": ("stream", "first token 1.0\nthe largest other 0.125"),
        "refused": ("stream", "there is no query 40: positions go from 0 to 8"),
        "jslink": (WIDGET, "locked: cat"),
        "prompt": (WIDGET, "a cat sat on the mat"),
        "two": (WIDGET, "AttentionDashboard of 4 heads"),
        "selection": ("stream", "[(0, 0), (1, 0)] -6.00\n[(0, 1), (1, 1)] +0.00"),
        "state": ("stream", '"score": "induction"'),
        "files": ("stream", "query,query_token,key,key_token,attention"),
        "static": (HTML, "<iframe"),
        "weights-only": (WIDGET, "AttentionDashboard of 2 heads"),
        "answer-code": (WIDGET, "AttentionDashboard"),
    },
    "04_architectures": {
        "grouped": ("stream", "k        [1, 27, 2, 16]"),
        "grouped-edit": (WIDGET, "AttentionDashboard of 16 heads"),
        "window": (FIGURE, "Layer 0, window 8"),
        "reach": (FIGURE, "windows of 8"),
        "routing": (FIGURE, "weight of each expert"),
        "same-word": ("stream", "' the'  [[0, 4], [0, 4]"),
        "send": (FIGURE, "without expert 0"),
        "kept": ("stream", "latent             20 numbers"),
        "asked": ("stream", "W_DKV and W_UK, and W_KR, stand in place of W_K"),
        "rank": ("stream", "of rank 16"),
        "latent-edit": (WIDGET, "AttentionDashboard"),
        "real": ("stream", "23,040 bytes a token in bfloat16"),
        "alike": ("stream", "more alike within in 27 of 30 layers"),
        "induction": ("stream", "[0.79, 0.78, 0.66]"),
        "knock": (FIGURE, "v (values), ablated"),
        "answer-code": ("stream", "4 layers; the last token has heard of it: [False, False, False, False, True]"),
    },
}


class OwnKernel(AsyncKernelManager):
    """The running interpreter's kernel, whatever kernels are installed elsewhere."""

    def _kernel_spec_manager_default(self):
        return KernelSpecManager(kernel_dirs=[])


def test_each_notebook_is_looked_at():
    assert {path.stem for path in NOTEBOOKS} == set(SHOWN)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_stored_without_outputs(path):
    notebook = nbformat.read(path, 4)
    nbformat.validate(notebook)
    assert set(notebook.metadata) == {"kernelspec", "language_info"}
    assert dict(notebook.metadata.kernelspec) == {"display_name": "Python 3", "language": "python", "name": "python3"}
    assert dict(notebook.metadata.language_info) == {"name": "python"}
    ids = [cell["id"] for cell in json.loads(path.read_text())["cells"]]
    assert len(set(ids)) == len(ids)  # by names that a person gave
    assert all(re.fullmatch("[a-z]+(-[a-z]+)*", name) for name in ids)
    for cell in notebook.cells:
        assert cell.metadata == {}
        if cell.cell_type == "code":
            assert (cell.outputs, cell.execution_count) == ([], None)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_ends_with_an_exercise_and_its_answer(path):
    cells = nbformat.read(path, 4).cells
    headings = [
        (number, line)
        for number, cell in enumerate(cells)
        if cell.cell_type == "markdown"
        for line in cell.source.splitlines()
        if line.startswith("#")
    ]
    assert headings[0][1].startswith("# ")
    assert [line for _, line in headings[-2:]] == ["## Exercise", "## Answer"]
    assert any(cell.cell_type == "code" for cell in cells[headings[-1][0] :])


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs_and_shows_what_it_tells_of(path, tmp_path):
    notebook = nbformat.read(path, 4)
    where = {"metadata": {"path": tmp_path}}
    NotebookClient(
        notebook, timeout=600, kernel_manager_class=OwnKernel, resources=where
    ).execute()  # raises for errors
    outputs = {cell.id: cell.outputs for cell in notebook.cells if cell.cell_type == "code"}
    # Warnings and progress bars without a widget would come this way.
    errors = [output.text for cell in outputs.values() for output in cell if output.get("name") == "stderr"]
    assert errors == []
    for cell, (kind, piece) in SHOWN[path.stem].items():
        assert words(piece) in words(shown(outputs[cell], kind)), cell
    assert list(tmp_path.iterdir()) == []


def shown(outputs, kind):
    """What a cell printed, or its last output in the kind asked for; a widget as Python names it."""
    if kind == "stream":
        return "".join(output.text for output in outputs if output.output_type == "stream")
    data = outputs[-1].get("data", {})
    assert kind in data
    return str(data["text/plain" if kind == WIDGET else kind])


def words(text):
    """Without how many spaces a table puts between its columns."""
    return " ".join(text.split())
