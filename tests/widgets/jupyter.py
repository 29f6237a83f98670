"""A JupyterLab of one's own: nobody's settings, no network, and a way to ask the notebook's kernel."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import nbformat
import pytest

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
THEME = "(name) => jupyterapp.commands.execute('apputils:change-theme', {theme: name})"
ASK = """async (code) => {
  const kernel = jupyterapp.shell.currentWidget.sessionContext.session.kernel;
  let said = "";
  const future = kernel.requestExecute({code, store_history: false});
  future.onIOPub = ({content}) => {
    said += content.text ?? (content.ename ? `${content.ename}: ${content.evalue}` : "");
  };
  await future.done;
  return said;
}"""
SAVE = "() => jupyterapp.commands.execute('docmanager:save')"
WRONG = ".jp-OutputArea [data-mime-type$='.error'], .jp-OutputArea [data-mime-type$='.stderr']"


@contextmanager
def lab(folder):
    """The address of a JupyterLab over folder/work."""
    environment = os.environ | {name: str(folder / name) for name in OWN.split()}
    config = folder / "JUPYTER_CONFIG_DIR" / "labconfig"
    config.mkdir(parents=True)
    quiet = {"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": True}}
    (config / "page_config.json").write_text(json.dumps(quiet))
    port, log = free_port(), folder / "log"
    root = f"--ServerApp.root_dir={folder / 'work'}"
    command = [sys.executable, "-m", "jupyterlab", *OPTIONS, f"--port={port}", root]
    with log.open("w") as file, subprocess.Popen(command, env=environment, stdout=file, stderr=file) as server:
        try:
            address = f"http://127.0.0.1:{port}"
            answers(f"{address}/api", server, log)
            yield address
        finally:  # a server that is asked to stop stops its kernels first
            server.terminate()
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                server.kill()


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


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


def with_cells(notebook: Path, sources, path: Path):
    """A copy of a notebook with further code cells at its end."""
    copy = nbformat.read(notebook, 4)
    copy.cells += [nbformat.v4.new_code_cell(source) for source in sources]
    nbformat.write(copy, path)


def ask(page, code):
    """What the notebook's kernel prints, as JSON."""
    said = page.evaluate(ASK, f"import json\nprint(json.dumps({code}))")
    try:
        return json.loads(said)
    except ValueError:
        pytest.fail(f"the kernel said {said!r} to {code!r}")
