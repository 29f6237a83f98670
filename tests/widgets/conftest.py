"""A real browser with the network taken away, and a stand-in for the kernel's side of a widget."""

import os
import shutil
from pathlib import Path

import pytest
import torch
from offline import ARGUMENTS, HOW, asked_from

import workbench.widgets

FOLDER = Path(workbench.widgets.__file__).parent
IOI = "When| Mary| and| John| went| to| the| store|,| John| gave| a| drink| to".split("|")


@pytest.fixture(scope="package")
def browser():
    """Chromium, started once for this folder and ended with it: playwright keeps an event loop running."""
    path = shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        path = None
    if path is None:
        if os.environ.get("WORKBENCH_REQUIRE_BROWSER"):
            pytest.fail(HOW)
        pytest.skip(HOW)
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield running
        running.close()


@pytest.fixture
def new_page(browser):
    """(**context options) -> a page. The test fails for any request to a network and any error on the page."""
    contexts, asked, errors = [], [], []

    def make(**options):
        context = browser.new_context(viewport={"width": 1100, "height": 800}, **options)
        contexts.append(context)
        context.set_default_timeout(5000)
        asked.append(asked_from(context))
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda m: errors.append(m.text) if m.type in ("error", "warning") else None)
        page.on("dialog", lambda dialog: (errors.append("a token ran as script"), dialog.dismiss()))
        return page

    yield make
    for context in contexts:
        context.close()
    assert not any(asked), asked
    assert errors == []


# The notebook's side of a view: traits with events, and a record of what would be sent to the kernel.
STAND_IN = """
async ({source, css}) => {
  const module = await import(URL.createObjectURL(new Blob([source], {type: "text/javascript"})));
  document.head.append(Object.assign(document.createElement("style"), {textContent: css}));
  window.shown = [];
  window.open_view = ({traits, bytes, attach}) => {
    const values = {...traits}, events = {}, pending = {}, sent = [];
    const view = (b) => new DataView(Uint8Array.from(atob(b), (c) => c.charCodeAt(0)).buffer);
    values._pattern = view(bytes);
    const fire = (names) => names.forEach((n) => [...(events["change:" + n] ?? [])].forEach((f) => f()));
    const model = {
      get: (name) => values[name],
      set: (name, value) => { pending[name] = values[name] = value; fire([name]); },
      save_changes: () => { sent.push({...pending}); for (const n in pending) delete pending[n]; },
      on: (name, f) => (events[name] ??= new Set()).add(f),
      off: (name, f) => events[name]?.delete(f),
      send: (message) => sent.push(message),
    };
    const el = document.createElement("div");
    el.id = "view" + shown.length;
    if (attach) document.body.append(el);
    const close = module.default.render({model, el});
    shown.push({
      el, sent, close,
      listening: () => Object.values(events).reduce((n, s) => n + s.size, 0),
      receive: ({traits, bytes}) => {
        Object.assign(values, traits, bytes ? {_pattern: view(bytes)} : {});
        fire(Object.keys(traits).concat(bytes ? ["_pattern"] : []));
      },
    });
  };
}
"""


@pytest.fixture
def stand_in(new_page):
    """(**context options) -> a page with `open_view({traits, bytes, attach})` and the `shown` views."""

    def make(**options):
        page = new_page(**options)
        page.goto("data:text/html,<!doctype html><title>t</title><body>")
        source, css = ((FOLDER / f"attention.{kind}").read_text() for kind in ("js", "css"))
        page.evaluate(STAND_IN, {"source": source, "css": css})
        return page

    return make


@pytest.fixture
def ioi():
    return list(IOI)


@pytest.fixture
def causal():
    """(layers, heads, n) -> attention [layer, head, query, key], rows summing to 1, nothing above the diagonal."""

    def make(layers, heads, n):
        scores = 2 * torch.randn(layers, heads, n, n, generator=torch.Generator().manual_seed(n))
        future = torch.ones(n, n, dtype=torch.bool).triu(1)
        return scores.masked_fill(future, -torch.inf).softmax(-1)

    return make
