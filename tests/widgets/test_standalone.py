"""to_html, html_fragment and pages as a reader opens them: from a file, with the network off."""

import json
import re

import pytest
from dashboard_reading import NASTY, check_readout, looked_at, sources

import workbench as wb
from workbench.figures import attention
from workbench.figures.html import Table, page
from workbench.figures.tokens import visible
from workbench.widgets import AttentionDashboard

pytestmark = pytest.mark.browser

HOVERED = ".hoverlayer .hovertext"
DRAWN = "() => [...document.querySelectorAll('.figure')].every((figure) => figure.dataset.drawn)"


@pytest.fixture
def opened(new_page, tmp_path):
    """(html, **context options) -> a page showing that text from a file, with no network."""

    def open_file(text, **options):
        path = tmp_path / "it.html"
        path.write_text(text, encoding="utf-8")
        page = new_page(offline=True, **options)
        page.goto(path.as_uri())
        return page

    return open_file


def test_the_file_shows_every_head_it_took_along(new_page, tmp_path, causal, ioi):
    weights = causal(30, 9, 14)
    path = AttentionDashboard.from_weights(ioi, weights, layer=5, head=1, query=4).to_html(tmp_path / "w.html")
    assert path.stat().st_size < 350_000
    tab = new_page(offline=True)
    tab.goto(path.as_uri())
    check_readout(tab, ioi, weights[5, 1], 4)
    tab.get_by_test_id("token-4").click()  # unlocks
    for layer, head, query in [(0, 0, 13), (29, 8, 9), (12, 3, 1)]:
        tab.get_by_test_id("layer-select").select_option(str(layer))
        tab.get_by_test_id("head-select").select_option(str(head))
        tab.get_by_test_id(f"token-{query}").hover()
        check_readout(tab, ioi, weights[layer, head], query)


def test_the_file_by_keyboard(opened, causal, ioi):
    weights = causal(3, 2, 14)
    tab = opened(AttentionDashboard.from_weights(ioi, weights).to_html())
    reached = []
    for _ in range(30):
        tab.keyboard.press("Tab")
        at = tab.evaluate("document.activeElement.dataset.testid")
        reached.append(at)
        if at in ("layer-select", "head-select"):
            tab.keyboard.press("ArrowDown")  # a closed select takes the next
        if at == "token-strip":
            break
    tab.keyboard.press("Home")
    tab.keyboard.press("ArrowRight")
    tab.keyboard.press("Enter")
    check_readout(tab, ioi, weights[1, 1], 1)
    assert "locked" in looked_at(tab)
    selects = {"direction-select", "scale-select", "score-select"}
    assert selects | {"hide-first", "renormalise", "head-grid"} <= set(reached)


def test_only_what_was_named_can_be_chosen(opened, causal, ioi):
    weights = causal(6, 4, 14)
    tab = opened(AttentionDashboard.from_weights(ioi, weights).to_html(layers=[2, 5], heads=[3]))
    assert tab.get_by_test_id("layer-select").locator("option").all_text_contents() == ["2", "5"]
    tab.get_by_test_id("layer-select").select_option("5")
    check_readout(tab, ioi, weights[5, 3], 13)


def test_a_long_text_takes_along_what_fits(opened, causal):
    """All thumbnails, and in full the head shown, those locked and those that score highest."""
    weights = causal(1, 8, 1024)
    widget = AttentionDashboard.from_weights([f" t{i}" for i in range(1024)], weights, head=2, selection=[(0, 6)])
    text = widget.to_html()
    assert len(text) < 9_000_000
    tab = opened(text)
    note = tab.get_by_test_id("note").text_content()
    assert note == "Of 8 heads 5 are in this file in full; layers= and heads= choose others."
    assert tab.get_by_test_id("head-grid").locator("[role=option]").count() == 8
    tab.get_by_test_id("head-0-6").click()
    tab.get_by_test_id("token-40").hover()
    for position, (_, weight) in sources(tab).items():
        assert float(weight) == pytest.approx(weights[0, 6, 40, position].item(), abs=8e-5)
    inside = json.loads(re.search(r'type="application/json">(.*?)</script>', text).group(1))["sent"]
    missing = next(head for head in range(8) if f"0.{head}" not in inside)
    tab.get_by_test_id("head-select").select_option(f"{missing}")
    error = tab.get_by_test_id("error").text_content()
    assert error.startswith(f"Layer 0, head {missing} could not be shown (it is not in this file)")


def test_weighed_columns_in_the_file(opened, smollm):
    prompt = "When Mary and John went to the store, John gave a drink to"
    widget = AttentionDashboard(smollm, prompt, metric=wb.logit_diff(" Mary", " John"), layer=23, head=3)
    tab = opened(widget.to_html(layers=[22, 23]))
    tab.get_by_test_id("view-select").select_option("contribution")
    widget.quantity = "contribution"
    row = widget.to_dataframe().query("query == 13").set_index("key")["contribution"]
    for position, (_, value) in sources(tab).items():
        assert float(value.replace("−", "-")) == pytest.approx(row[position], abs=6e-5)
    tab.get_by_test_id("view-select").select_option("value_weighted")
    assert "Value-weighted" in tab.get_by_test_id("readout").text_content()
    tab.get_by_test_id("layer-select").select_option("22")
    assert "Value-weighted" in tab.get_by_test_id("readout").text_content()
    assert "logit difference" not in tab.get_by_test_id("readout").text_content()


def test_what_a_notebook_keeps(opened, causal, ioi):
    """The frame, and a picture for where scripts are not run."""
    weights = causal(2, 2, 14)
    kept = AttentionDashboard.from_weights(ioi, weights, layer=1, query=3).static()
    bundle = kept._repr_mimebundle_()
    assert bundle["text/plain"] == "AttentionDashboard of 4 heads and 14 positions"
    assert bundle["image/png"][:8] == b"\x89PNG\r\n\x1a\n"
    tab = opened(f"<!doctype html><title>t</title><body>{bundle['text/html']}")
    check_readout(tab.frame_locator("iframe"), ioi, weights[1, 0], 3)
    tab.evaluate("document.body.dataset.jpThemeLight = 'false'")  # a notebook that is dark on a light system
    frame = tab.frame_locator("iframe")
    frame.locator("body[data-jp-theme-light=false]").wait_for()
    assert frame.locator(".wb-attention").evaluate("(root) => getComputedStyle(root).colorScheme") == "dark"


def test_token_text_stays_text_in_the_file(opened, causal):
    tab = opened(AttentionDashboard.from_weights(NASTY, causal(1, 1, len(NASTY))).to_html())
    for position, token in enumerate(NASTY):
        tab.get_by_test_id(f"token-{position}").hover()
        assert sources(tab)[position][0] == visible(token)
    assert tab.locator("img").count() == 0
    assert tab.locator("script").count() == 2  # the data and the module


def test_a_long_text(opened, causal):
    weights = causal(1, 2, 1024)
    tab = opened(AttentionDashboard.from_weights([f" t{i}" for i in range(1024)], weights).to_html())
    tab.get_by_test_id("head-select").select_option("1")
    tab.get_by_test_id("token-40").hover()
    for position, (_, weight) in sources(tab).items():
        assert float(weight) == pytest.approx(weights[0, 1, 40, position].item(), abs=8e-5)


def test_two_dashboards_in_one_page_fit_their_frames(opened, causal, ioi):
    one, two = causal(2, 2, 14), causal(2, 2, 13)
    widgets = [
        AttentionDashboard.from_weights(ioi, one),
        AttentionDashboard.from_weights(ioi[:13], two, layer=1),
    ]
    tab = opened(page("Two", [("One", ["words", widgets[0]]), ("Two", [widgets[1]])]))
    frames = [tab.frame_locator("iframe").nth(i) for i in range(2)]
    frames[0].get_by_test_id("token-5").click()
    frames[1].get_by_test_id("token-7").hover()
    check_readout(frames[0], ioi, one[0, 0], 5)
    check_readout(frames[1], ioi, two[1, 0], 7)
    tab.wait_for_function("""() => [...document.querySelectorAll('iframe')].every(
        (f) => Math.abs(f.clientHeight - f.contentDocument.documentElement.offsetHeight) < 2)""")


def test_a_page_is_drawn_and_follows_the_readers_theme(opened, causal, ioi):
    figure = attention(causal(1, 2, 14)[0], ioi, title="<b>bold</b>")
    tab = opened(page("T", [("H", ["words", figure, Table(["a"], [[1.5]])])]), color_scheme="light")
    tab.wait_for_function(DRAWN)
    assert tab.locator(".gtitle").text_content() == "<b>bold</b>"
    ticks = tab.locator(".ytick text").all_text_contents()
    assert ticks[:14] == [visible(token) for token in ioi]
    ink = "getComputedStyle(document.querySelector('.ytick text')).fill"
    assert tab.evaluate(ink) == "rgb(36, 38, 43)"
    tab.emulate_media(color_scheme="dark")
    tab.wait_for_function(f"() => {ink} === 'rgb(227, 228, 232)'")


def hover_at(tab, x, y):
    """The hover text at a share of the plot area, from the top left."""
    box = tab.locator(".cartesianlayer .bg, .draglayer .nsewdrag").last.bounding_box()
    tab.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"])
    tab.locator(HOVERED).first.wait_for()
    return tab.locator(HOVERED).first.text_content()


@pytest.mark.parametrize("n", [14, 1024])
def test_the_hover_names_both_tokens_and_the_exact_weight(opened, causal, n):
    weights = causal(1, 1, n)[0, 0]
    tokens = [f" <b>{i}$x$" for i in range(n)]
    tab = opened(page("T", [("H", [attention(weights, tokens)])]))
    tab.wait_for_function(DRAWN)
    text = hover_at(tab, (n // 7 + 0.5) / n, (n // 2 + 0.5) / n)
    query, key = n // 2, n // 7
    if n == 14:
        assert text == f"␣<b>{query}$x$ {query} → ␣<b>{key}$x$ {key}{weights[query, key]:.4f}"
        return
    # A cell is two tokens wide and high, and says which of the four it is.
    on, strongest, at = re.fullmatch(r"(.*)the strongest ([\d.]+), (\d+ → \d+)", text).groups()
    q, k = map(int, at.split(" → "))
    assert (abs(q - query) <= 3, abs(k - key) <= 3) == (True, True)
    first, left = q - q % 2, k - k % 2
    assert on == f"␣<b>{first}$x$ … ␣<b>{first + 1}$x$ → ␣<b>{left}$x$ … ␣<b>{left + 1}$x$"
    assert strongest == f"{weights[q, k]:.4f}" == f"{weights[first : first + 2, left : left + 2].max():.4f}"
