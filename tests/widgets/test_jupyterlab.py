"""The first notebook in a real JupyterLab: what a person sees who opens it and runs all cells."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest
from dashboard_reading import check_readout
from offline import HOW, asked_from

pytestmark = pytest.mark.browser

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "01_first_look.ipynb"
OPTIONS = """
    --no-browser --allow-root --ip=127.0.0.1 --ServerApp.port_retries=0 --IdentityProvider.token= --ServerApp.password=
    --ServerApp.disable_check_xsrf=True --LabApp.expose_app_in_browser=True --LabApp.news_url=None
    --ServerApp.terminals_enabled=False
""".split()
OWN = """
    JUPYTER_CONFIG_DIR JUPYTER_DATA_DIR JUPYTER_RUNTIME_DIR JUPYTERLAB_SETTINGS_DIR JUPYTERLAB_WORKSPACES_DIR IPYTHONDIR
"""
IDLE = "window.jupyterapp?.shell?.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'"
# Outputs off the screen exist too, and the promise of a run is not waited for: the page has conditions for that.
RUN_ALL = """() => {
  const notebook = jupyterapp.shell.currentWidget.content;
  notebook.notebookConfig = {...notebook.notebookConfig, windowingMode: "none"};
  window.ran = jupyterapp.commands.execute("notebook:run-all-cells");
}"""
THEME = "(name) => jupyterapp.commands.execute('apputils:change-theme', {theme: `JupyterLab ${name}`})"
# Of each figure: the images that its cells are, its paper, labels that are cut off, and whether the notebook is wide
# enough for it.
FIGURES = """() => [...document.querySelectorAll(".js-plotly-plot")].map((plot) => {
  const paper = plot.querySelector(".main-svg");
  const box = (element) => element.getBoundingClientRect();
  const outside = (text) => box(text).left < box(paper).left || box(text).right > box(paper).right
    || box(text).top < box(paper).top || box(text).bottom > box(paper).bottom;
  return {
    images: [...plot.querySelectorAll("image")].filter((image) => box(image).width > 50).length,
    paper: getComputedStyle(paper).backgroundColor,
    cut: [...plot.querySelectorAll("text")].filter((t) => box(t).width && outside(t)).map((t) => t.textContent),
    fits: box(paper).right <= box(plot.closest(".jp-OutputArea")).right,
  };
})"""
WELL_DRAWN = {"images": 1, "paper": "rgba(0, 0, 0, 0)", "cut": [], "fits": True}
WRONG = ".jp-OutputArea [data-mime-type$='.error'], .jp-OutputArea [data-mime-type$='.stderr']"
HAS_INK = "(c) => c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some((byte) => byte)"


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """The address of a JupyterLab with nobody's settings but its own, in which the notebook lies as n.ipynb."""
    try:
        import jupyterlab  # noqa: F401
    except ImportError:
        how = f"{HOW}; and JupyterLab (pip install jupyterlab)"
        pytest.fail(how) if os.environ.get("WORKBENCH_REQUIRE_BROWSER") else pytest.skip(how)
    folder = tmp_path_factory.mktemp("lab")
    (folder / "work").mkdir()
    shutil.copy(NOTEBOOK, folder / "work" / "n.ipynb")
    environment = os.environ | {name: str(folder / name) for name in OWN.split()}
    config = folder / "JUPYTER_CONFIG_DIR" / "labconfig"
    config.mkdir(parents=True)
    quiet = {"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": True}}
    (config / "page_config.json").write_text(json.dumps(quiet))
    port = free_port()
    command = [
        sys.executable,
        "-m",
        "jupyterlab",
        *OPTIONS,
        f"--port={port}",
        f"--ServerApp.root_dir={folder / 'work'}",
    ]
    with running(command, environment, folder / "log") as server:
        address = f"http://127.0.0.1:{port}"
        answers(f"{address}/api", server, folder / "log")
        yield address


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@contextmanager
def running(command, environment, log):
    """The process, and at the end its end: a server that is asked to stop stops its kernels first."""
    with log.open("w") as file, subprocess.Popen(command, env=environment, stdout=file, stderr=file) as process:
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def answers(address, process, log):
    for _ in range(300):
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except OSError:
            time.sleep(0.2)
    pytest.fail(f"JupyterLab does not answer:\n{log.read_text()[-2000:]}")


@pytest.fixture
def page(browser):
    """A page whose test fails for any request that leaves the machine and any error in its code."""
    errors = []
    context = browser.new_context(viewport={"width": 1280, "height": 1000})
    context.set_default_timeout(60_000)
    asked = asked_from(context)
    page = context.new_page()
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda m: errors.append(m.text) if m.type == "error" or "anywidget" in m.text else None)
    yield page
    context.close()
    assert asked == []
    assert errors == []


def keep(page, name):
    """A picture for a person to look at, where WORKBENCH_SCREENSHOTS names a folder."""
    if folder := os.environ.get("WORKBENCH_SCREENSHOTS"):
        page.set_viewport_size({"width": 1280, "height": 7600})
        page.evaluate("document.querySelector('.jp-NotebookPanel .jp-WindowedPanel-outer').scrollTop = 0")
        page.wait_for_timeout(1500)
        page.screenshot(path=Path(folder) / f"{name}.png")
        page.set_viewport_size({"width": 1280, "height": 1000})


def clean_prompt():
    return re.search(r'clean = \\"(.*?)\\"', NOTEBOOK.read_text()).group(1)


def test_the_first_notebook(page, lab, smollm):
    tokens = smollm.to_str_tokens(clean_prompt())
    _, attention = smollm(clean_prompt())
    page.goto(f"{lab}/lab/tree/n.ipynb?reset")
    page.wait_for_function(IDLE)
    page.evaluate(RUN_ALL)
    dashboard = page.locator(".wb-attention")
    dashboard.wait_for(timeout=500_000)  # 30 s of sweeps, on a machine that does nothing else
    assert page.evaluate("window.ran") is True
    assert page.locator(WRONG).all_text_contents() == []

    check_readout(dashboard, tokens, attention[23][0, 3], 13)
    assert "locked" in dashboard.get_by_test_id("readout").text_content()
    canvas = dashboard.get_by_test_id("attention-canvas")
    pictures = []
    for theme, light in (("Light", "true"), ("Dark", "false")):
        page.evaluate(THEME, theme)
        page.wait_for_function("(light) => document.body.dataset.jpThemeLight === light", arg=light)
        assert page.evaluate(FIGURES) == [WELL_DRAWN] * 4
        assert dashboard.evaluate("(d) => getComputedStyle(d).colorScheme") == theme.lower()
        assert canvas.evaluate(HAS_INK)
        pictures.append(canvas.evaluate("(c) => c.toDataURL()"))
        keep(page, theme.lower())
    assert pictures[0] != pictures[1]

    # The kernel is asked for other heads, of this layer and of another.
    for layer, head in ((23, 0), (24, 4)):
        dashboard.get_by_test_id("layer-select").select_option(str(layer))
        dashboard.get_by_test_id("head-select").select_option(str(head))
        page.locator(f"canvas[aria-label='Attention pattern of layer {layer}, head {head}']").wait_for()
        check_readout(dashboard, tokens, attention[layer][0, head], 13)
    dashboard.get_by_test_id("token-9").click()
    check_readout(dashboard, tokens, attention[24][0, 4], 9)
