"""Every notebook is stored as one wants to read its diff, runs from top to bottom, and shows what it tells of."""

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

# By notebook, what its cells show: the kind of output, and a piece of its text.
SHOWN = {
    "01_first_look": {
        "forward": ("text/plain", "{' Mary': 0.92"),
        "sum": ("text/plain", "True"),
        "pair": ("stream", "clean        6.12\ncorrupted   -5.49\n"),
        "hook": ("stream", "before layer 10: 6.11"),
        "positions": (FIGURE, "resid_pre (stream before a layer), clean into corrupted"),
        "heads": (FIGURE, "z (head output), clean into corrupted"),
        "heads-table": ("text/plain", "23     3  1.2"),
        "ablation": (FIGURE, "z (head output), ablated"),
        "lens": (FIGURE, "␣Mary"),
        "dashboard": (WIDGET, "AttentionDashboard"),
        "writes": ("text/plain", "{'Mary': 0.37, 'John': -2.49}"),
    }
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
    for cell in notebook.cells:
        assert cell.metadata == {}
        if cell.cell_type == "code":
            assert (cell.outputs, cell.execution_count) == ([], None)


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
        assert piece in shown(outputs[cell], kind), cell
    assert list(tmp_path.iterdir()) == []


def shown(outputs, kind):
    """What a cell printed, or its last output in the kind asked for; a widget as Python names it."""
    if kind == "stream":
        return "".join(output.text for output in outputs if output.output_type == "stream")
    data = outputs[-1].get("data", {})
    assert kind in data
    return str(data["text/plain" if kind == WIDGET else kind])
