"""attention.js alone, in a browser, with a stand-in for the notebook."""

import base64

import pytest
import torch
from dashboard_reading import NASTY, check_readout, looked_at, sources

from workbench.figures.tokens import visible
from workbench.widgets.coding import encode

pytestmark = pytest.mark.browser

# The colours at points of the canvas, read at once.
PIXELS = """(points) => {
  const canvas = document.querySelector("canvas");
  const all = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  const at = ([x, y]) => 4 * (Math.floor(y) * canvas.width + Math.floor(x));
  return points.map((point) => [...all.slice(at(point), at(point) + 4)]);
}"""
# How long pointing at a token takes, in ms.
HOVER_TIME = """(position) => {
  const token = document.querySelector(`[data-testid=token-${position}]`);
  const start = performance.now();
  token.dispatchEvent(new PointerEvent("pointerover", {bubbles: true}));
  return performance.now() - start;
}"""


def message(pattern, layer=0, head=0):
    """The traits and bytes that the kernel sends for one head."""
    coding, data = encode(pattern.numpy())
    return {
        "traits": {"_coding": coding.to_json(), "_shown": [layer, head]},
        "bytes": base64.b64encode(data).decode(),
    }


def open_view(page, tokens, pattern, attach=True, **traits):
    sent = message(pattern)
    sent["traits"] |= {
        "layer": 0,
        "head": 0,
        "query": -1,
        "_tokens": [visible(token) for token in tokens],
        "_layers": [0, 1, 2],
        "_heads": [0, 1],
        **traits,
    }
    page.evaluate("(options) => open_view(options)", {**sent, "attach": attach})


def test_hovering_shows_where_a_token_looks_and_sends_nothing(stand_in, causal, ioi):
    page, pattern = stand_in(), causal(1, 1, 14)[0, 0]
    open_view(page, ioi, pattern)
    check_readout(page, ioi, pattern, 13)  # before anything is pointed at, the last token
    for query in (0, 9, 13, 3):
        page.get_by_test_id(f"token-{query}").hover()
        check_readout(page, ioi, pattern, query)
    assert page.evaluate("shown[0].sent") == []


def test_the_rest_is_accounted_for(stand_in, causal, ioi):
    page, pattern = stand_in(), causal(1, 1, 14)[0, 0]
    open_view(page, ioi, pattern)
    rest = pattern[13].sort(descending=True).values[8:].sum().item()
    assert f"6 more share {rest:.4f}" in page.get_by_test_id("readout").text_content()


@pytest.mark.parametrize("n", [300, 1024])
def test_long_texts_are_read_from_16_bits(stand_in, causal, n):
    page, pattern = stand_in(), causal(1, 1, n)[0, 0]
    open_view(page, [f" t{i}" for i in range(n)], pattern)
    page.get_by_test_id("token-40").hover()
    for position, (token, weight) in sources(page).items():
        assert token == f"␣t{position}"
        assert float(weight) == pytest.approx(pattern[40, position].item(), abs=8e-5)
    assert page.evaluate(HOVER_TIME, 60) < 150  # the budget is 50 ms; a busy machine gets three times that


def test_a_pattern_without_a_mask(stand_in, causal, ioi):
    page, pattern = stand_in(), causal(1, 1, 14)[0, 0].T.contiguous()
    open_view(page, ioi, pattern)
    page.get_by_test_id("token-2").hover()
    shown = sources(page)
    assert len(shown) == 8
    assert shown == {p: (visible(ioi[p]), f"{pattern[2, p].item():.4f}") for p in shown}


def test_clicking_locks_and_unlocks(stand_in, causal, ioi):
    page, pattern = stand_in(), causal(1, 1, 14)[0, 0]
    open_view(page, ioi, pattern)
    page.get_by_test_id("token-9").click()
    assert page.evaluate("shown[0].sent") == [{"query": 9}]
    assert "locked" in looked_at(page)
    assert page.get_by_test_id("token-9").get_attribute("aria-selected") == "true"
    page.get_by_test_id("token-2").hover()  # the lock stays, and the token pointed at is listed with its weight
    check_readout(page, ioi, pattern, 9)
    assert 2 in sources(page)
    page.get_by_test_id("token-9").click()
    assert page.evaluate("shown[0].sent") == [{"query": 9}, {"query": -1}]
    assert "locked" not in looked_at(page)


def test_keys_alone_are_enough(stand_in, causal, ioi):
    page, pattern = stand_in(), causal(1, 1, 14)[0, 0]
    open_view(page, ioi, pattern)
    for _ in range(3):  # past the two selects
        page.keyboard.press("Tab")
    for key, query in {"ArrowLeft": 12, "ArrowUp": 11, "Home": 0, "ArrowDown": 1, "ArrowRight": 2}.items():
        page.keyboard.press(key)
        check_readout(page, ioi, pattern, query)
    strip = page.get_by_test_id("token-strip")
    assert strip.get_attribute("aria-activedescendant") == page.get_by_test_id("token-2").get_attribute("id")
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Escape")
    assert page.evaluate("shown[0].sent") == [{"query": 2}, {"query": 3}, {"query": -1}]
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    assert page.evaluate("shown[0].sent.slice(3)") == [{"query": 3}, {"query": -1}]
    page.keyboard.press("End")
    best = int(pattern[13].argmax())
    said = page.locator("[aria-live]").text_content()
    assert said == f"␣to, position 13, attends most to {visible(ioi[best])}, position {best}, {pattern[13, best]:.4f}"


def test_choosing_a_head_asks_for_it_and_waits(stand_in, causal, ioi):
    page, patterns = stand_in(), causal(1, 2, 14)[0]
    open_view(page, ioi, patterns[0])
    page.get_by_test_id("head-select").select_option("1")
    assert page.evaluate("shown[0].sent") == [{"head": 1}]
    root = page.locator(".wb-attention")
    assert root.get_attribute("aria-busy") == "true"
    check_readout(page, ioi, patterns[0], 13)
    page.evaluate("(m) => shown[0].receive(m)", message(patterns[1], 0, 1))
    assert root.get_attribute("aria-busy") == "false"
    check_readout(page, ioi, patterns[1], 13)
    assert page.get_by_test_id("attention-canvas").get_attribute("aria-label").endswith("layer 0, head 1")


def test_a_pattern_that_could_not_be_had(stand_in, causal, ioi):
    page, pattern = stand_in(), causal(1, 1, 14)[0, 0]
    open_view(page, ioi, pattern)
    error, root = page.get_by_test_id("error"), page.locator(".wb-attention")
    page.get_by_test_id("layer-select").select_option("2")
    page.evaluate("shown[0].receive({traits: {_failed: [2, 0, 'InputError: <b>no</b>']}})")
    assert error.text_content() == (
        "Layer 2, head 0 could not be computed (InputError: <b>no</b>). Still shown: layer 0, head 0."
    )
    assert root.get_attribute("aria-busy") == "false"
    check_readout(page, ioi, pattern, 13)
    page.get_by_test_id("layer-select").select_option("1")
    assert error.text_content() == ""
    assert root.get_attribute("aria-busy") == "true"
    page.evaluate("(m) => shown[0].receive(m)", message(pattern, 1, 0))
    assert root.get_attribute("aria-busy") == "false"


def test_the_kernel_can_choose_too(stand_in, causal, ioi):
    page, pattern = stand_in(), causal(1, 1, 14)[0, 0]
    open_view(page, ioi, pattern)
    page.evaluate("shown[0].receive({traits: {layer: 2, query: 4}})")
    assert page.get_by_test_id("layer-select").input_value() == "2"
    check_readout(page, ioi, pattern, 4)
    assert page.evaluate("shown[0].sent") == []


def test_token_text_stays_text(stand_in, causal):
    page = stand_in()
    open_view(page, NASTY, causal(1, 1, len(NASTY))[0, 0])
    for position, token in enumerate(NASTY):
        place = page.get_by_test_id(f"token-{position}")
        place.hover()
        assert place.text_content() == visible(token)
        assert place.locator("*").count() == 0
        assert sources(page)[position][0] == visible(token)
    assert page.locator("script, img").count() == 0


def test_the_pattern_is_drawn_and_can_be_pointed_at(stand_in, ioi):
    pattern = torch.eye(14)
    pattern[9] = torch.eye(14)[3]
    pattern[9, 0] = 0.04
    page = stand_in()
    open_view(page, ioi, pattern)
    canvas = page.get_by_test_id("attention-canvas")
    box = canvas.bounding_box()
    cell = box["height"] / 14
    middle = lambda q, k: ((k + 0.5) * cell, (q + 0.5) * cell)  # noqa: E731
    x, y = middle(9, 3)
    canvas.hover(position={"x": x, "y": y})
    check_readout(page, ioi, pattern, 9)
    x, y = middle(5, 1)
    canvas.click(position={"x": x, "y": y})
    assert page.evaluate("shown[0].sent") == [{"query": 5}]
    points = [middle(9, 3), middle(9, 0), middle(9, 2), middle(0, 9)]
    darkest, little, nothing, future = page.evaluate(PIXELS, points)
    assert darkest == [13, 53, 99, 255]
    assert little == [207, 223, 235, 255]  # the root of 0.04 is 0.2: the second of six colours
    assert nothing == [244, 243, 239, 255]
    assert future == [0, 0, 0, 0]


def test_two_dashboards_do_not_disturb_each_other(stand_in, causal, ioi):
    page, patterns = stand_in(), causal(1, 2, 14)[0]
    open_view(page, ioi, patterns[0])
    open_view(page, ioi, patterns[1])
    one, two = page.locator("#view0"), page.locator("#view1")
    one.get_by_test_id("token-5").click()
    two.get_by_test_id("token-7").hover()
    check_readout(one, ioi, patterns[0], 5)
    check_readout(two, ioi, patterns[1], 7)
    assert page.evaluate("shown[1].sent") == []
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((e) => e.id)")
    assert len(ids) == len(set(ids))


def test_closing_a_view_leaves_nothing(stand_in, causal, ioi):
    page = stand_in()
    open_view(page, ioi, causal(1, 1, 14)[0, 0])
    assert page.evaluate("shown[0].listening()") > 0
    page.evaluate("shown[0].close()")
    assert page.evaluate("shown[0].listening()") == 0
    assert page.locator("#view0 *").count() == 0


def test_a_view_drawn_before_it_is_attached(stand_in, causal, ioi):
    page, pattern = stand_in(), causal(1, 1, 14)[0, 0]
    open_view(page, ioi, pattern, attach=False)
    page.evaluate("document.body.append(shown[0].el)")
    page.get_by_test_id("source-13").wait_for()
    check_readout(page, ioi, pattern, 13)


@pytest.mark.parametrize(
    ("system", "notebook", "dark"),
    [("light", None, False), ("dark", None, True), ("light", "false", True), ("dark", "true", False)],
)
def test_the_notebooks_theme_outranks_the_systems(stand_in, causal, ioi, system, notebook, dark):
    page = stand_in(color_scheme=system)
    open_view(page, ioi, causal(1, 1, 14)[0, 0])
    if notebook:
        page.evaluate("(light) => { document.body.dataset.jpThemeLight = light; }", notebook)
    first = "rgb(211, 235, 251)" if dark else "rgb(13, 53, 99)"  # a weight of 1
    page.get_by_test_id("token-0").hover()
    page.wait_for_function(
        "(want) => getComputedStyle(document.querySelector('[data-testid=token-0]')).backgroundColor === want",
        arg=first,
    )
