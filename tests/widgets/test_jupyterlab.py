"""The dashboard notebook in a real JupyterLab: run, used by mouse and by keyboard, saved, opened again and shared."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from accessible import violations
from dashboard_reading import check_readout, looked_at, sources
from jupyter import ASK, IDLE, RUN_ALL, SAVE, THEME, WRONG, ask, lab, with_cells
from offline import HOW, asked_from

pytestmark = pytest.mark.browser

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "03_attention_dashboard.ipynb"
PROMPT = "When Mary and John went to the store, John gave a drink to"
OTHER = "When Mary and John went to the store, Mary gave a drink to"
# Cells behind the notebook's own: dashboards whose every number is known here, and what is kept of them.
PROBES = [
    f"""
import workbench as wb
probe_model = wb.load("smollm2-135m")
probe_metric = wb.logit_diff([" Mary", " John"], [" John", " Mary"])
probe = wb.AttentionDashboard(probe_model, [{PROMPT!r}, {OTHER!r}], metric=probe_metric, layer=23, head=3)
probe
""",
    f"""
probe_sweep = wb.activation_patching(
    probe_model, {PROMPT!r}, {OTHER!r}, wb.logit_diff(" Mary", " John"), site="z", layers=[22, 23], progress=False
)
probe_patching = wb.PatchingDashboard(probe_sweep, probe_model)
probe_patching
""",
    f"probe_lens = wb.LensDashboard(wb.logit_lens(probe_model, {PROMPT!r}, top_k=3, progress=False))\nprobe_lens",
    "probe.static()",
    "print('all cells ran')",
]
HAS_INK = "(c) => c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some((byte) => byte)"


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """(address, folder) of a JupyterLab in which the notebook lies as n.ipynb."""
    try:
        import jupyterlab  # noqa: F401
    except ImportError:
        how = f"{HOW}; and JupyterLab (pip install jupyterlab)"
        pytest.fail(how) if os.environ.get("WORKBENCH_REQUIRE_BROWSER") else pytest.skip(how)
    folder = tmp_path_factory.mktemp("lab")
    (folder / "work").mkdir()
    with_cells(NOTEBOOK, PROBES, folder / "work" / "n.ipynb")
    with lab(folder) as address:
        yield address, folder / "work"


@pytest.fixture(scope="module")
def page(browser, running):
    """The notebook, run to its end once for this file. The tests fail for any request that leaves the machine and any
    error in its code."""
    address, _ = running
    errors = []
    context = browser.new_context(viewport={"width": 1280, "height": 1000}, accept_downloads=True)
    context.set_default_timeout(60_000)
    asked = asked_from(context)
    page = context.new_page()
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda m: errors.append(m.text) if m.type == "error" or "anywidget" in m.text else None)
    page.goto(f"{address}/lab/tree/n.ipynb?reset")
    page.wait_for_function(IDLE)
    page.evaluate(RUN_ALL)
    page.get_by_text("all cells ran", exact=True).or_(page.locator(WRONG)).first.wait_for(timeout=300_000)
    assert page.locator(WRONG).all_text_contents() == []  # a cell that raises is the last that runs
    page.locator("[data-testid=lens-map]").last.wait_for()
    yield page
    context.close()
    assert asked == []
    # A live widget is gone with its kernel, and JupyterLab says so; `static` is what stays.
    assert [error for error in errors if "widget model not found" not in error] == []


def keep(page, name):
    """A picture for a person to look at, where WORKBENCH_SCREENSHOTS names a folder."""
    if folder := os.environ.get("WORKBENCH_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"jupyterlab-{name}.png")


def cell(page, holding):
    """The dashboard in the output of the probe cell whose source holds this."""
    cells = page.locator(".jp-CodeCell").filter(has=page.locator(".jp-InputArea-editor", has_text=holding))
    return cells.last.locator(".wb-view").first


@pytest.fixture
def probe(page):
    """The attention dashboard whose numbers are known, as it was made."""
    dashboard = cell(page, "probe = wb.AttentionDashboard")
    dashboard.scroll_into_view_if_needed()
    return dashboard


def test_every_cell_ran_without_a_word(page):
    assert page.evaluate("window.ran") is True
    assert page.locator(WRONG).all_text_contents() == []
    assert page.locator(".wb-attention").count() >= 2
    for canvas in page.locator(".wb-view canvas").all():
        if canvas.is_visible():
            assert canvas.evaluate(HAS_INK)


def test_its_numbers_are_the_models(page, probe, smollm):
    tokens = smollm.to_str_tokens(PROMPT)
    _, attention = smollm(PROMPT)
    check_readout(probe, tokens, attention[23][0, 3], 13)
    for layer, head, query in ((23, 0, 13), (24, 4, 9), (0, 8, 1)):
        probe.get_by_test_id("layer-select").select_option(str(layer))
        probe.get_by_test_id("head-select").select_option(str(head))
        probe.locator(f"canvas[aria-label='Attention pattern of layer {layer}, head {head}']").wait_for()
        probe.get_by_test_id(f"token-{query}").click()
        check_readout(probe, tokens, attention[layer][0, head], query)
        assert ask(page, "[probe.layer, probe.head, probe.query]") == [layer, head, query]
    probe.get_by_test_id("token-1").click()
    assert ask(page, "probe.query") == -1


def test_every_control_by_mouse(page, probe):
    """Each is set on the page and read in the kernel."""
    probe.get_by_test_id("head-21-5").click()
    probe.get_by_test_id("head-22-1").click(modifiers=["Control"])
    assert ask(page, "[probe.layer, probe.head, probe.selection]") == [22, 1, [[21, 5], [22, 1]]]
    ablated = f"wb.ablate(probe_model, {PROMPT!r}, wb.logit(' Mary'), selection=probe.selection, progress=False)"
    assert ask(page, f"{ablated}.effect.shape") == []
    probe.get_by_test_id("head-22-1").click(modifiers=["Control"])
    assert ask(page, "probe.selection") == [[21, 5]]
    probe.get_by_test_id("head-21-5").click()
    assert ask(page, "probe.selection") == []
    probe.get_by_test_id("token-3").click()
    probe.get_by_test_id("token-9").click(modifiers=["Shift"])
    assert ask(page, "[probe.queries, probe.query]") == [[3, 9], 9]
    probe.get_by_test_id("token-strip").press("Escape")
    for trait, testid, values in [
        ("quantity", "view-select", ("value_weighted", "contribution", "attention")),
        ("direction", "direction-select", ("attended_by", "attends_to")),
        ("scale", "scale-select", ("linear", "log", "sqrt")),
        ("score", "score-select", ("induction", "first_token")),
        ("arrangement", "arrangement-select", ("scatter",)),
        ("x", "x-select", ("entropy",)),
        ("y", "y-select", ("direct_logit",)),
        ("arrangement", "arrangement-select", ("grid",)),
        ("example", "example-select", ("1", "0")),
    ]:
        for value in values:
            probe.get_by_test_id(testid).select_option(value)
            page.wait_for_function("(view) => view.getAttribute('aria-busy') === 'false'", arg=probe.element_handle())
            assert str(ask(page, f"probe.{trait}")) == value
            assert probe.get_by_test_id("error").text_content() == ""
    for trait, testid in [("ordered", "ordered"), ("renormalise", "renormalise")]:
        for on in (True, False):
            probe.get_by_test_id(testid).set_checked(on)
            assert ask(page, f"probe.{trait}") is on
    probe.get_by_test_id("hide-first").check()
    assert ask(page, "probe.hidden") == [0]
    assert 0 not in sources(probe)
    probe.get_by_test_id("unhide").click()
    assert ask(page, "probe.hidden") == []
    probe.get_by_test_id("minimum").fill("0.9")
    probe.get_by_test_id("minimum").press("Enter")
    assert ask(page, "probe.minimum") == 0.9
    assert probe.get_by_test_id("head-grid").locator("[role=option]").count() < 270
    probe.get_by_test_id("minimum").fill("")
    probe.get_by_test_id("minimum").press("Enter")
    probe.get_by_test_id("score-select").select_option("")
    for kind in ("png", "svg", "csv"):
        with page.expect_download() as waiting:
            probe.get_by_test_id(f"save-{kind}").click()
        assert waiting.value.suggested_filename.endswith(kind)


def test_every_control_by_keyboard(page, probe):
    """From the first to the last by Tab, each moved by its keys; the notebook's own shortcuts stay out of it."""
    cells = page.locator(".jp-Cell").count()
    probe.get_by_test_id("layer-select").focus()
    reached = []
    for _ in range(40):
        at = page.evaluate("document.activeElement.dataset.testid ?? ''")
        if not at or at in reached:
            break
        reached.append(at)
        if at.endswith("-select"):
            page.keyboard.press("ArrowDown")
            page.keyboard.press("ArrowUp")
        elif at == "head-grid":
            for key in ("ArrowRight", "ArrowDown", "End", "Home", "Enter", "Escape"):
                page.keyboard.press(key)
        elif at == "token-strip":
            for key in ("Home", "ArrowRight", "Enter", "h", "h", "Escape", "a", "b", "x"):
                page.keyboard.press(key)
        elif at in ("hide-first", "renormalise"):
            page.keyboard.press("Space")
            page.keyboard.press("Space")
        page.keyboard.press("Tab")
    selects = {f"{name}-select" for name in ("layer", "head", "view", "direction", "scale", "score", "arrangement")}
    others = {"hide-first", "renormalise", "save-png", "save-svg", "save-csv", "head-grid", "token-strip"}
    assert selects | others <= set(reached)
    assert page.locator(".jp-Cell").count() == cells  # "a", "b" and "x" are the notebook's keys for its cells
    assert ask(page, "[probe.query, probe.selection, probe.hidden]") == [-1, [], []]


def test_python_moves_what_is_seen(page, probe, smollm):
    page.evaluate(ASK, "probe.layer, probe.head, probe.query, probe.selection = 12, 7, 5, [(1, 2)]")
    probe.locator("canvas[aria-label='Attention pattern of layer 12, head 7']").wait_for()
    check_readout(probe, smollm.to_str_tokens(PROMPT), smollm(PROMPT)[1][12][0, 7], 5)
    assert probe.get_by_test_id("head-1-2").get_attribute("aria-selected") == "true"
    assert ask(page, "probe.state['query']") == 5


def test_a_cell_of_a_sweep_opens_its_head(page):
    patching = cell(page, "probe_patching = wb.PatchingDashboard")
    canvas = patching.get_by_test_id("patching-map")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    canvas.click(position={"x": box["width"] * 3.5 / 9, "y": box["height"] * 1.5 / 2})  # the second layer, head 3
    page.locator("canvas[aria-label^='Attention pattern of layer 23, head 3']").last.wait_for()
    opened = "probe_patching.attention"
    assert ask(page, f"[list(probe_patching.cell), {opened}.layer, {opened}.head]") == [[23, 3], 23, 3]


@pytest.mark.parametrize("theme", ["JupyterLab Dark", "JupyterLab Dark High Contrast", "JupyterLab Light"])
def test_themes_and_axe(page, theme):
    page.evaluate(THEME, theme)
    page.wait_for_function("(name) => document.body.dataset.jpThemeName === name", arg=theme)
    dark = "Dark" in theme
    for number, dashboard in enumerate(page.locator(".wb-view").all()):
        if not dashboard.is_visible():
            continue
        assert dashboard.evaluate("(d) => getComputedStyle(d).colorScheme") == ("dark" if dark else "light")
        dashboard.evaluate("(d, n) => { d.id ||= 'axe' + n; }", number)
        dashboard.scroll_into_view_if_needed()
        keep(page, f"{theme.replace(' ', '-').lower()}-{number}")
        assert violations(page, "#" + dashboard.get_attribute("id")) == []


def test_what_is_left_when_kernel_and_network_are_gone(page, running, browser, tmp_path, smollm):
    """Saved and opened again, as a file of its own, and by nbconvert."""
    address, folder = running
    wanted = smollm(PROMPT)[1]
    path = ask(page, "str(probe.to_html('probe.html', layers=[23, 12]))")
    page.evaluate(SAVE)
    page.evaluate("() => jupyterapp.serviceManager.sessions.shutdownAll()")
    html = tmp_path / "n.html"
    subprocess.run(
        [sys.executable, "-m", "nbconvert", "--to", "html", folder / "n.ipynb", "--output", html],
        check=True, capture_output=True,
    )  # fmt: skip
    page.goto(f"{address}/lab/tree/n.ipynb?reset")
    page.wait_for_function("window.jupyterapp?.shell?.currentWidget?.content?.widgets?.length > 0")
    kept = page.locator(".jp-OutputArea iframe").last
    kept.scroll_into_view_if_needed()
    reopened = kept.content_frame.locator(".wb-attention")
    reopened.wait_for()
    assert "at 13 attends to" in looked_at(reopened) or "locked" in looked_at(reopened)

    context = browser.new_context(viewport={"width": 1200, "height": 900}, offline=True)
    asked = asked_from(context)
    tab = context.new_page()
    tab.goto((folder / path).as_uri())
    tokens = smollm.to_str_tokens(PROMPT)
    tab.get_by_test_id("layer-select").select_option("23")
    tab.get_by_test_id("head-select").select_option("3")
    tab.get_by_test_id("token-9").hover()
    check_readout(tab, tokens, wanted[23][0, 3], int(looked_at(tab).split(" at ")[1].split()[0]))
    tab.goto(html.as_uri())
    converted = tab.locator("iframe").last.content_frame
    converted.locator(".wb-attention").wait_for()
    converted.get_by_test_id("layer-select").select_option("23")
    assert converted.get_by_test_id("error").text_content() == ""
    context.close()
    # nbconvert's own page asks for these two whatever it holds; nothing of ours needs them.
    own = ("https://cdnjs.cloudflare.com/ajax/libs/require.js", "https://cdnjs.cloudflare.com/ajax/libs/mathjax")
    assert [address for address in asked if not address.startswith(own)] == []
