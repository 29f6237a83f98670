"""The attention dashboard: bytes, and times in a browser, against what is wanted of them; and CircuitsVis beside it.

python benchmarks/dashboards.py [--threads 2] [--rounds 5] [--only opening --only beside] [--json out.json]
python benchmarks/dashboards.py --quick      # small models and short texts: whether it runs

opening      32 x 32 heads of a random model at 1024 tokens: bytes, and the time from the module to what is painted
thumbnails   computing them, as a multiple of the model's own forward on as many threads
choosing     another head: the view's word to the kernel, the kernel's answer, and until that is painted
hovering     a token, or a head: until the next painted frame
files        to_html of SmolLM2 on a short and on a long text
beside       12 heads of CircuitsVis and ours as files in the same browser

Chromium runs without a GPU, and the way between kernel and browser is not in these times.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

import torch
from beside_circuitsvis import measured, sides
from in_browser import OURS, Browser, Page, Shown, browser, bytes_of
from side_by_side import compare, machine, seconds
from torch import Tensor

import workbench as wb
from workbench.model.attention import AttentionSpec
from workbench.model.block import PreNorm
from workbench.model.embedding import TokenEmbeddingSpec, UnembeddingSpec
from workbench.model.mlp import MLPSpec
from workbench.model.norms import LayerNormSpec
from workbench.model.rotary import RotarySpec

VOCAB = 1000
SENTENCE = "When Mary and John went to the store, John gave a drink to"
README = Path(__file__).parents[1] / "README.md"


@dataclass
class Row:
    """unit: "bytes", "s", "times" or "" for a number of things; wanted: at most this, None where nothing is."""

    section: str
    work: str
    measured: float
    unit: str
    wanted: float | None = None

    @property
    def holds(self) -> bool:
        return self.wanted is None or self.measured <= self.wanted

    def __str__(self) -> str:
        wanted = "" if self.wanted is None else said(self.wanted, self.unit)
        return f"{self.work:<64} {said(self.measured, self.unit):>10} {wanted:>10}"


@dataclass
class Beside:
    """The same of theirs and ours."""

    work: str
    peer: str
    unit: str
    ours: float
    theirs: float

    def __str__(self) -> str:
        times = f"{self.theirs / self.ours:.1f} x"
        return (
            f"{self.work:<46} {self.peer:<38} {said(self.ours, self.unit):>10} "
            f"{said(self.theirs, self.unit):>10} {times:>10}"
        )


def said(value: float, unit: str) -> str:
    if unit == "bytes":
        return f"{value / 1e6:.3g} MB" if value >= 1e5 else f"{value / 1e3:.3g} kB"
    if unit == "s":
        return f"{value:.2f} s" if value >= 1 else f"{value * 1e3:.0f} ms"
    return f"{value:.2f} x" if unit == "times" else f"{value:.0f}"


@dataclass
class Setup:
    """side: layers, and heads of each; long: tokens of a long text."""

    browser: Browser
    folder: Path
    rounds: int
    side: int
    d_model: int
    long: int

    @property
    def size(self) -> str:
        return f"{self.side} x {self.side} heads, {self.long} tokens"

    @cached_property
    def model(self) -> wb.HookedTransformer:
        return random_model(self.side, self.d_model)

    @cached_property
    def tokens(self) -> Tensor:
        return torch.randint(0, VOCAB, (1, self.long), generator=torch.Generator().manual_seed(0))

    @cached_property
    def widget(self) -> wb.AttentionDashboard:
        return wb.AttentionDashboard(self.model, self.tokens)

    @cached_property
    def pretrained(self) -> wb.HookedTransformer:
        return wb.load("smollm2-135m")

    @cached_property
    def text(self) -> Tensor:
        """[1, pos] of a real text."""
        return self.pretrained.to_tokens(README.read_text(encoding="utf-8")[:10_000])[:, : self.long]


def random_model(side: int, d_model: int) -> wb.HookedTransformer:
    """So many layers of so many heads, with scores that deviate by 3: heads look at few tokens, as trained ones do."""
    d_head = d_model // side
    attn = AttentionSpec(side, side, d_head, rotary=RotarySpec(), scale=3 / (d_model * 0.02**2 * d_head**0.5))
    layer = PreNorm(attn, MLPSpec(4 * d_model), LayerNormSpec(), LayerNormSpec())
    embed, unembed = TokenEmbeddingSpec(VOCAB), UnembeddingSpec(VOCAB)
    spec = wb.ModelSpec(d_model, 2048, embed, None, (layer,) * side, LayerNormSpec(), unembed)
    return wb.HookedTransformer(spec).requires_grad_(False)


# What is measured


def opening(setup: Setup) -> Iterator[Row]:
    taken = seconds(lambda: setup.widget)
    yield Row("opening", f"{setup.size}: sent", bytes_of(setup.widget.get_state()), "bytes", 5e6)
    yield Row(
        "opening", "  until it is painted", statistics.median(opened(setup) for _ in range(setup.rounds)), "s", 1.5
    )
    yield Row("opening", "  in Python before: the model's run, thumbnails, one head", taken, "s")


def opened(setup: Setup) -> float:
    with setup.browser.page() as page:
        taken = Shown(page, setup.widget).open()
        checked(page, setup.side**2)
        return taken


def checked(page: Page, n_heads: int) -> None:
    """SystemExit where a page has not so many heads, has not drawn one of them, or said that something is wrong."""
    there = page.tab.locator(".wb-head").count()
    if page.errors or there != n_heads or not page.tab.evaluate("(selector) => drawn(selector, 1)", OURS):
        raise SystemExit(f"a page was not drawn: {page.errors or f'{there} heads of {n_heads}, or an empty canvas'}")


def thumbnails(setup: Setup) -> Iterator[Row]:
    wide = f"{setup.size}, d_model {setup.d_model}"
    yield from of_forward(setup, setup.model, setup.tokens, wide)
    d_model = setup.d_model // 4
    yield from of_forward(setup, random_model(setup.side, d_model), setup.tokens, f"  d_model {d_model}")
    yield from of_forward(setup, setup.pretrained, setup.text, f"  SmolLM2, {setup.long} tokens")


def of_forward(setup: Setup, model: wb.HookedTransformer, tokens: Tensor, name: str) -> Iterator[Row]:
    subject = wb.AttentionDashboard(model, tokens)._subject
    row = compare(name, "", lambda: subject.open(0).grid, lambda: model(tokens), 1.5, setup.rounds)
    yield Row("thumbnails", f"{name}: thumbnails, of the forward", row.ratio, "times", row.target)
    yield Row("thumbnails", "  thumbnails alone", row.ours, "s")


def choosing(setup: Setup) -> Iterator[Row]:
    n, widget = setup.side, setup.widget
    layers = [(widget.layer + 1 + i * (n // 2 - 1)) % n for i in range(setup.rounds)]
    others = [(layer, (7 * i + 3) % n) for i, layer in enumerate(layers)]
    with setup.browser.page() as page:
        shown = Shown(page, widget)
        shown.open()
        yield from chosen(f"{setup.size}: a head of another layer", [choice(shown, *place) for place in others])
        heads = [(layers[-1], (others[-1][1] + 1 + i) % n) for i in range(setup.rounds)]
        yield from chosen("a head of the same layer", [choice(shown, *place) for place in heads])
        checked(page, n**2)


def choice(shown: Shown, layer: int, head: int) -> tuple[float, float, int]:
    """Seconds in the kernel and in the browser, and bytes, of a click on a thumbnail."""
    before, messages = shown.choose(f"head-{layer}-{head}")
    in_python = seconds(lambda: [shown.widget.set_state(message) for message in messages])
    if (shown.widget.layer, shown.widget.head) != (layer, head):
        raise SystemExit(f"layer {layer}, head {head} was not chosen: {messages}")
    after, n_bytes = shown.answer()
    return in_python, before + after, n_bytes


def chosen(name: str, choices: list[tuple[float, float, int]]) -> Iterator[Row]:
    in_python, in_browser, n_bytes = zip(*choices, strict=True)
    both = [a + b for a, b in zip(in_python, in_browser, strict=True)]
    yield Row("choosing", f"{name}: sent", max(n_bytes), "bytes", 1.1e6)
    yield Row("choosing", "  until it is painted", statistics.median(both), "s", 0.3)
    yield Row("choosing", "  of that, in Python", statistics.median(in_python), "s")
    yield Row("choosing", "  of that, in the browser", statistics.median(in_browser), "s")


def hovering(setup: Setup) -> Iterator[Row]:
    with setup.browser.page() as page:
        shown = Shown(page, setup.widget)
        shown.open()
        for what, selector, n in (
            ("a token", ".wb-strip [role=option]", setup.long),
            ("a head", ".wb-heads [role=option]", setup.side**2),
        ):
            times = [page.pointed(selector, i * n // 30, "painted") for i in range(30)]
            yield Row("hovering", f"{setup.size}: {what}, median of 30", statistics.median(times), "s", 0.05)
            yield Row("hovering", "  worst of 30", max(times), "s", 0.05)
        n_bytes = sum(len(json.dumps(message)) for message in shown.sent()) + len(shown.messages)
        yield Row("hovering", "  sent", n_bytes, "bytes", 0)


def files(setup: Setup) -> Iterator[Row]:
    spec = setup.pretrained.spec
    for name, tokens in (("14 tokens", setup.pretrained.to_tokens(SENTENCE)), (f"{setup.long} tokens", setup.text)):
        widget, path = wb.AttentionDashboard(setup.pretrained, tokens), setup.folder / "file.html"
        written = seconds(lambda widget=widget, path=path: widget.to_html(path))
        yield Row("files", f"SmolLM2, {name}: the file", path.stat().st_size, "bytes")
        times, asked = [], 0
        for _ in range(setup.rounds):
            with setup.browser.file(path, OURS, 1) as (page, taken):
                checked(page, spec.n_layers * spec.n_heads)
                times.append(taken)
                asked += len(page.asked)
        yield Row("files", "  opened, until it is drawn", statistics.median(times), "s")
        yield Row("files", "  requests", asked, "", 0)
        yield Row("files", "  writing it", written, "s")


def beside(setup: Setup) -> Iterator[Beside]:
    for n_tokens in (16,) if setup.long < 256 else (128, 256):
        (_, ours), *others = sides(n_tokens).items()
        of_ours = measured(setup.browser, setup.folder, ours)
        for peer, theirs in others:
            of_theirs = measured(setup.browser, setup.folder, theirs)
            for (work, unit), value in of_ours.items():
                yield Beside(f"12 heads, {n_tokens} tokens: {work}", peer, unit, value, of_theirs[work, unit])


# The tables

SECTIONS: dict[str, Callable[[Setup], Iterator[Row]]] = {
    "opening": opening,
    "thumbnails": thumbnails,
    "choosing": choosing,
    "hovering": hovering,
    "files": files,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=[*SECTIONS, "beside"], action="append")
    parser.add_argument("--quick", action="store_true", help="8 x 8 heads, 64 tokens, one round")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    sizes = (1, 8, 64, 64) if arguments.quick else (arguments.rounds, 32, 1024, 1024)
    wanted = arguments.only or [*SECTIONS, "beside"]
    rows: list[Row] = []
    lines: list[Beside] = []
    with tempfile.TemporaryDirectory() as temporary, torch.no_grad(), browser() as running:
        setup = Setup(running, Path(temporary), *sizes)
        print(f"{running.name}, {arguments.threads} threads")
        if arguments.quick:
            print("small sizes: the numbers are not those that are wanted and say only that it runs")
        for name in SECTIONS:
            if name in wanted:
                print(f"\n{name:<64} {'measured':>10} {'at most':>10}")
                for row in SECTIONS[name](setup):
                    rows.append(row)
                    print(f"{row}{'' if row.holds or arguments.quick else '  <- over'}", flush=True)
        if "beside" in wanted:
            print(f"\n{'CircuitsVis beside ours':<85} {'ours':>10} {'theirs':>10} {'times':>10}")
            for line in beside(setup):
                lines.append(line)
                print(line, flush=True)
        browsed = running.name
    if arguments.json is not None:
        tables = {"rows": [asdict(row) for row in rows], "beside": [asdict(line) for line in lines]}
        arguments.json.write_text(json.dumps({"machine": machine() | {"browser": browsed}, **tables}, indent=1))


if __name__ == "__main__":
    main()
