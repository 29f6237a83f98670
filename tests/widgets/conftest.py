"""A real browser with the network taken away, and a stand-in for the kernel's side of a widget."""

import os
import re
import shutil
from pathlib import Path

import pytest
import torch
from bridge import View
from offline import ARGUMENTS, HOW, asked_from

PAGE = (
    "data:text/html,<!doctype html><html lang=en><meta name=color-scheme content='light dark'><title>t</title>"
    "<body><main></main>"
)
IOI = "When| Mary| and| John| went| to| the| store|,| John| gave| a| drink| to".split("|")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Pictures of the pages that a failing test leaves, in reports/screenshots or where WORKBENCH_SCREENSHOTS says."""
    report = yield
    if report.when == "call" and report.failed and "browser" in item.funcargs:
        folder = Path(os.environ.get("WORKBENCH_SCREENSHOTS", "reports/screenshots"))
        folder.mkdir(parents=True, exist_ok=True)
        pages = [page for context in item.funcargs["browser"].contexts for page in context.pages]
        for number, page in enumerate(pages):
            name = re.sub(r"[^\w.-]+", "-", item.name)
            page.screenshot(path=folder / f"{name}-{number}.png")
    return report


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
        context.set_default_timeout(15_000)
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


@pytest.fixture
def view(new_page):
    """(widget, **context options) -> its view on a page of its own."""

    def make(widget, attach=True, page=None, **options):
        if page is None:
            page = new_page(**options)
            page.goto(PAGE)
        return View(page, widget, attach)

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
