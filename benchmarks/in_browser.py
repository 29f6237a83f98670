"""A dashboard in headless chromium with the network off, and how long it takes until something is on the screen.

Painted means: the first frame with it has been handed to the compositor, as `requestAnimationFrame` and a task behind
it tell. Settled means: what an event set off has run to its end, also what it put off, and that is painted.
"""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HOW = "needs a browser: install chromium (Debian: apt-get install chromium) and playwright (pip install playwright)"
# Without its imitation of a GPU, in which what uses one (TensorFlow.js does) takes thirty times as long as without.
ARGUMENTS = (
    "--no-sandbox --disable-gpu --disable-software-rasterizer --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync --disable-dev-shm-usage "
    "--force-color-profile=srgb"
).split()
LOCAL = ("file:", "data:", "blob:", "about:")
EMPTY = "data:text/html,<!doctype html><html lang=en><title>t</title><body></body>"
OURS = "[data-testid=attention-canvas]"  # the canvas that an attention dashboard draws last
MINUTES = 5

# In every page. `inked` looks at a few pixels to the left of the middle and below it, where causal patterns have cells.
COMMON = """
window.painted = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
window.settled = async () => {
  for (let i = 0; i < 2; i++) {
    await scheduler.postTask(() => {}, {priority: "background"});
    await painted();
  }
};
window.inked = (canvas) => {
  const {width, height} = canvas;
  return canvas.getContext("2d").getImageData(width * 0.25, height * 0.6, 8, 8).data.some((byte) => byte);
};
window.drawn = (selector, n) => {
  const canvases = [...document.querySelectorAll(selector)].filter((canvas) => canvas.checkVisibility());
  return canvases.length >= n && canvases.every(inked);
};
// Thumbnails may be pictures that a style names, which come later than the style; other ones are drawn at once.
window.pictures = async () => {
  const named = [...document.querySelectorAll(".wb-head > :first-child")].map((each) => getComputedStyle(each));
  const urls = new Set(named.map((style) => style.backgroundImage.match(/^url\\("(.*)"\\)$/)?.[1]).filter(Boolean));
  await Promise.all([...urls].map((src) => Object.assign(new Image(), {src}).decode()));
  if (urls.size) await painted();
};
// Milliseconds from an input, as the browser took it in, until `end`.
window.after = (element, event, end) => {
  window.answered = new Promise((done) => element.addEventListener(event, async (input) => {
    await window[end]();
    done(performance.now() - input.timeStamp);
  }, {once: true, capture: true}));
};
"""
# Milliseconds from the start of the navigation until `n` canvases have ink.
WATCH = """
window.opened = new Promise((done) => {
  const look = () => drawn(%s, %d) ? setTimeout(() => pictures().then(() => done(performance.now()))) : again();
  const again = () => requestAnimationFrame(look);
  again();
});
"""
# The notebook's side of a view: traits with events, and what would be sent to the kernel.
STAND_IN = """
(traits) => {
  const decoded = (value) => value?.base64 === undefined ? value
    : new DataView(Uint8Array.from(atob(value.base64), (char) => char.charCodeAt(0)).buffer);
  const read = (traits) => Object.fromEntries(Object.entries(traits).map(([name, value]) => [name, decoded(value)]));
  const same = (a, b) => !(a instanceof DataView) && JSON.stringify(a) === JSON.stringify(b);
  const values = read(traits), listeners = {}, pending = {};
  let sent = [];
  const fire = (names) => names.forEach((name) => [...(listeners["change:" + name] ?? [])].forEach((told) => told()));
  const model = {
    get: (name) => values[name],
    set(name, value) {
      if (same(values[name], value)) return;
      pending[name] = values[name] = value;
      fire([name]);
    },
    save_changes() {
      if (Object.keys(pending).length) sent.push({...pending});
      for (const name in pending) delete pending[name];
    },
    on: (event, told) => (listeners[event] ??= new Set()).add(told),
    off: (event, told) => listeners[event]?.delete(told),
  };
  const timed = async (act) => {
    const start = performance.now();
    await act();
    return performance.now() - start;
  };
  const el = document.createElement("div");
  document.body.append(el);
  window.host = {
    open: (source, css) => timed(async () => {
      const module = await import(URL.createObjectURL(new Blob([source], {type: "text/javascript"})));
      document.head.append(Object.assign(document.createElement("style"), {textContent: css}));
      module.default.render({model, el});
      await painted();
      await pictures();
    }),
    choose: (testid) => timed(() => document.querySelector(`[data-testid="${testid}"]`).click()),
    receive: (traits) => {
      const news = read(traits);
      return timed(async () => {
        const changed = Object.keys(news).filter((name) => !same(values[name], news[name]));
        for (const name of changed) values[name] = news[name];
        fire(changed);
        await painted();
      });
    },
    sent: () => sent.splice(0),
  };
}
"""


class Browser:
    def __init__(self, chromium: Any) -> None:
        self.chromium = chromium

    @property
    def name(self) -> str:
        return f"chromium {self.chromium.version}"

    @contextmanager
    def page(self, *scripts: str) -> Iterator[Page]:
        """An empty page that nothing else shares."""
        context = self.chromium.new_context(viewport={"width": 1280, "height": 900}, offline=True)
        context.set_default_timeout(MINUTES * 60_000)
        for script in (COMMON, *scripts):
            context.add_init_script(script)
        try:
            yield Page(context)
        finally:
            context.close()

    @contextmanager
    def file(self, path: Path, canvases: str, n: int) -> Iterator[tuple[Page, float]]:
        """A page from a file, and the seconds from its opening until `n` canvases (a CSS selector) are drawn."""
        with self.page(WATCH % (json.dumps(canvases), n)) as page:
            page.tab.goto(path.as_uri())
            yield page, page.tab.evaluate("opened") / 1000


class Page:
    """asked: addresses beyond this machine that it went on to ask for; none is answered."""

    def __init__(self, context: Any) -> None:
        self.asked: list[str] = []
        self.errors: list[str] = []
        context.route("**/*", self._guard)
        self.tab = context.new_page()
        self.tab.on("pageerror", lambda error: self.errors.append(str(error)))

    def _guard(self, route: Any) -> None:
        if route.request.url.startswith(LOCAL):
            route.continue_()
        else:
            self.asked.append(route.request.url)
            route.abort()

    def pointed(self, selector: str, at: int, end: str, event: str = "pointerover") -> float:
        """Seconds from a mouse's move onto the `at`th of these elements until `end`, "painted" or "settled"."""
        place = self.tab.locator(selector).nth(at)
        place.scroll_into_view_if_needed()
        self.tab.mouse.move(0, 0)
        self.tab.evaluate("settled()")
        box = place.bounding_box()
        place.evaluate("(element, [event, end]) => after(element, event, end)", [event, end])
        self.tab.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + box["height"] * 0.6)
        return self.tab.evaluate("answered") / 1000


class Shown:
    """A widget's view on a page, with a stand-in for the notebook between them."""

    def __init__(self, page: Page, widget: Any) -> None:
        self.tab, self.widget = page.tab, widget
        self.messages: list[tuple[dict[str, Any], list[Any]]] = []
        widget._send = lambda message, buffers=None: self.messages.append((message, buffers or []))

    def open(self) -> float:
        """Seconds from the first byte of the module to what is painted; the traits are there already."""
        self.tab.goto(EMPTY)
        self.tab.evaluate(STAND_IN, in_json(self.widget.get_state()))
        taken = self.tab.evaluate("([source, css]) => host.open(source, css)", [self.widget._esm, self.widget._css])
        return taken / 1000

    def choose(self, testid: str) -> tuple[float, list[dict[str, Any]]]:
        """Clicks: seconds until the view has said so, and what it says."""
        return self.tab.evaluate("(testid) => host.choose(testid)", testid) / 1000, self.sent()

    def sent(self) -> list[dict[str, Any]]:
        """What it has told the kernel since this was last asked."""
        return self.tab.evaluate("host.sent()")

    def answer(self) -> tuple[float, int]:
        """Lets the view have what the kernel sent: seconds until it is painted, and how many bytes that was."""
        told: dict[str, Any] = {}
        for message, buffers in self.messages:
            names = [path[0] for path in message["buffer_paths"]]
            told |= message["state"] | dict(zip(names, buffers, strict=True))
        n_bytes = sum(len(json.dumps(message)) + sum(map(len, buffers)) for message, buffers in self.messages)
        self.messages.clear()
        return self.tab.evaluate("(traits) => host.receive(traits)", in_json(told)) / 1000, n_bytes


@contextmanager
def browser() -> Iterator[Browser]:
    """SystemExit, saying what to install, where there is none."""
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        path = None
    if path is None:
        raise SystemExit(HOW)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        try:
            yield Browser(chromium)
        finally:
            chromium.close()


def in_json(traits: dict[str, Any]) -> dict[str, Any]:
    """Bytes as {"base64": text}; a view's own module and styles go another way."""
    return {
        name: {"base64": base64.b64encode(bytes(value)).decode()} if is_data(value) else value
        for name, value in traits.items()
        if name not in ("_esm", "_css")
    }


def is_data(value: object) -> bool:
    return isinstance(value, bytes | bytearray | memoryview)


def bytes_of(traits: dict[str, Any]) -> int:
    """What a comm carries: JSON, and binary as it is."""
    plain = {name: value for name, value in traits.items() if not is_data(value)}
    return len(json.dumps(plain)) + sum(len(bytes(value)) for value in traits.values() if is_data(value))
