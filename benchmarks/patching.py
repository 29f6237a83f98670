"""Activation patching against TransformerLens and nnsight, on SmolLM2-135M, and against the products it is made of.

python benchmarks/patching.py [--rows 1 4 memory] [--rounds 3] [--full] [--threads 2] [--json out.json]
python benchmarks/patching.py --quick        # three layers, one round: whether it runs and agrees
python benchmarks/patching.py --device cuda --dtype bfloat16

Each side is held to the others' values before anything is timed, which is its warm-up too. Then rounds: ours, a peer,
ours again, each on a pair of its own (of the same length), so that nothing is known already. A peer's loop over many
cells runs some of them, drawn anew in each round, and its time is scaled; --full runs them all.

The last columns: how many multiply-adds a second the sweep's matrix products make on their own, replayed with random
numbers of the same shapes, and what share of that rate the sweep attains (its multiply-adds as torch counts them).
"""

from __future__ import annotations

import argparse
import json
import math
import random
import re
import statistics
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import cache
from itertools import count, product
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import torch
from peers import Cell, HandBatched, Measure, OwnLoop, Peer, Traces, bridge
from side_by_side import machine, seconds
from spine import as_folder
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode
from transformers.utils import logging

import workbench as wb

NAMES = """Mary John Tom James Robert Michael William David Richard Joseph Thomas Charles Daniel Matthew Anthony Mark
Paul Andrew George Kevin Brian Edward Jason Ryan Eric Stephen Scott Frank Peter Henry Adam Simon Alice Sarah Anna Emma
Laura Jane Kate Lisa Karen Susan Helen Amy Maria Rachel Emily Julia Victoria Martin Alex Jack Sam Max Ben""".split()
SENTENCE = "When {a} and {b} went to the store, {again} gave a drink to"
# By how much of the largest value two sides may differ.
TOLERANCE = {torch.float32: 1e-4, torch.float16: 3e-2, torch.bfloat16: 2e-1}
OF_PRODUCTS = 0.5  # the share of the products' rate that is wanted
MEMORY = 2**28


class Case(NamedTuple):
    """A pair, or several: tokens [example, pos], and the metric as each side writes it."""

    clean: Tensor
    corrupted: Tensor
    ours: Any
    theirs: Measure


@dataclass(frozen=True)
class Setup:
    """What each side loads, and the layers that are swept."""

    folder: Path
    device: str
    dtype: torch.dtype
    layers: tuple[int, ...] | None  # None for all

    def load(self) -> wb.HookedTransformer:
        return wb.load(self.folder, dtype=self.dtype, device=self.device)


class Against(NamedTuple):
    """A peer; how many times faster is wanted; and of how many cells (or layers) its time is taken, None for all."""

    make: Callable[[Setup], Peer]
    wanted: float
    drawn: int | None = None


@dataclass(frozen=True)
class Work:
    name: str
    site: str
    over: tuple[str, ...]
    case: Callable[[wb.HookedTransformer, int], Case]
    against: tuple[Against, ...]


@dataclass
class Line:
    """Medians over rounds.

    ours, theirs:  seconds.
    times:         theirs / ours.
    multiply_adds: of our sweep.
    product_rate:  multiply-adds per second of its products alone.
    share:         of that rate which the sweep attains.
    """

    work: str
    peer: str
    wanted: float
    ours: float
    theirs: float
    times: float
    share: float
    multiply_adds: float
    product_rate: float

    @property
    def short(self) -> bool:
        return self.times < self.wanted or self.share < OF_PRODUCTS


# What is asked


def case_of(clean: Tensor, corrupted: Tensor, right: Tensor, wrong: Tensor) -> Case:
    """By the logit difference of answers [example]."""
    example = torch.arange(len(right))

    def difference(logits: Tensor) -> Tensor:
        return logits[example, -1, right].float() - logits[example, -1, wrong].float()

    return Case(clean, corrupted, wb.logit_diff(right.tolist(), wrong.tolist()), difference)


def names_of(number: int) -> list[str]:
    return random.Random(number).sample(NAMES, 2) if number else ["Mary", "John"]


def one_pair(model: wb.HookedTransformer, number: int) -> Case:
    """Another for each number."""
    a, b = names_of(number)
    clean, corrupted = (model.to_tokens(SENTENCE.format(a=a, b=b, again=again)) for again in (b, a))
    return case_of(clean, corrupted, *torch.tensor([[model.to_single_token(f" {name}")] for name in (a, b)]))


def many_pairs(model: wb.HookedTransformer, number: int) -> Case:
    """As many tokens in each: TransformerLens' loop takes no mask."""
    drawn = wb.tasks.ioi(model.tokenizer, n=512, seed=number)
    texts = list(zip(drawn.clean, drawn.corrupted, drawn.correct, drawn.incorrect, strict=True))
    clean, corrupted, right, wrong = zip(*[t for t in texts if model.to_tokens(t[0]).numel() == 14][:32], strict=True)
    answers = torch.tensor([[model.to_single_token(token) for (token,) in side] for side in (right, wrong)])
    return case_of(model.to_tokens(list(clean)), model.to_tokens(list(corrupted)), *answers)


def all_different(model: wb.HookedTransformer, number: int) -> Case:
    case = one_pair(model, number)
    others = torch.randint(1000, 49_000, case.clean.shape, generator=torch.Generator().manual_seed(number))
    others = others.to(case.clean)
    return case._replace(corrupted=others + (others == case.clean))


def callable_metric(model: wb.HookedTransformer, number: int) -> Case:
    case = one_pair(model, number)
    return case._replace(ours=case.theirs)


def log_probability(model: wb.HookedTransformer, number: int) -> Case:
    right = model.to_single_token(f" {names_of(number)[0]}")
    return one_pair(model, number)._replace(
        ours=wb.logprob(right), theirs=lambda logits: logits[:, -1].float().log_softmax(-1)[:, right]
    )


# Whom it is asked of


@cache
def their_model(setup: Setup) -> Any:
    return bridge(setup.folder, setup.device, setup.dtype)


def loop_over(function: str) -> Callable[[Setup], Peer]:
    """By one of the functions of transformer_lens.patching."""

    def make(setup: Setup) -> Peer:
        from transformer_lens import patching

        return OwnLoop(their_model(setup), getattr(patching, function))

    return make


def by_hand(setup: Setup) -> Peer:
    return HandBatched(their_model(setup))


def traces(setup: Setup) -> Peer:
    return Traces(setup.folder, setup.device, setup.dtype)


STREAM, HEADS, HEADS_AT = ("layer", "pos"), ("layer", "head"), ("layer", "pos", "head")
of_stream = loop_over("get_act_patch_resid_pre")
of_heads = loop_over("get_act_patch_attn_head_out_all_pos")
of_heads_at = loop_over("get_act_patch_attn_head_out_by_pos")
ROWS = {
    "1": Work("stream", "resid_pre", STREAM, one_pair, (Against(of_stream, 60), Against(by_hand, 15))),
    "2": Work(
        "stream, every token differs",
        "resid_pre",
        STREAM,
        all_different,
        (Against(of_stream, 12), Against(by_hand, 3.5)),
    ),
    "3": Work("heads", "z", HEADS, one_pair, (Against(of_heads, 16),)),
    "4": Work("heads by position", "z", HEADS_AT, one_pair, (Against(of_heads_at, 60, 200),)),
    "5": Work(
        "stream, 32 pairs", "resid_pre", STREAM, many_pairs, (Against(of_stream, 40, 24), Against(by_hand, 10, 2))
    ),
    "6": Work("stream, a callable as metric", "resid_pre", STREAM, callable_metric, (Against(of_stream, 30),)),
    "7": Work("stream, log probability", "resid_pre", STREAM, log_probability, (Against(of_stream, 40),)),
    "8": Work("stream, against nnsight", "resid_pre", STREAM, one_pair, (Against(traces, 100),)),
}


# Products


class Products(TorchDispatchMode):
    """Writes down each product of rows with a matrix."""

    def __init__(self):
        super().__init__()
        self.seen: list[tuple[int, tuple[int, int], bool, int]] = []  # rows, shape, whether it lies [out, in], where

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.overloadpacket in (torch.ops.aten.mm, torch.ops.aten.addmm):
            rows, matrix = args[-2:]
            self.seen.append((len(rows), tuple(matrix.shape), matrix.stride(0) == 1, matrix.data_ptr()))
        return func(*args, **(kwargs or {}))

    @property
    def multiply_adds(self) -> int:
        return sum(rows * math.prod(shape) for rows, shape, _, _ in self.seen)

    def replay(self, device: str, dtype: torch.dtype) -> Callable[[], None]:
        """The same products of random numbers: as many different matrices, lying as they lay."""
        most: dict[int, int] = {}
        matrices: dict[tuple[Any, ...], Tensor] = {}
        for rows, shape, turned, where in self.seen:
            most[shape[0]] = max(rows, most.get(shape[0], 0))
            made = torch.randn(shape[::-1] if turned else shape, device=device, dtype=dtype)
            matrices.setdefault((where, shape, turned), made.T if turned else made)
        inputs = {width: torch.randn(n, width, device=device, dtype=dtype) for width, n in most.items()}
        operands = [
            (inputs[shape[0]][:rows], matrices[where, shape, turned]) for rows, shape, turned, where in self.seen
        ]

        def run() -> None:
            for rows, matrix in operands:
                torch.mm(rows, matrix)

        return run


# Measuring


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds, and what came of it."""
    kept = []
    return seconds(lambda: kept.append(run())), kept[0]


@dataclass
class Ours:
    """Our sweep on new cases each time."""

    model: wb.HookedTransformer
    work: Work
    layers: tuple[int, ...] | None
    numbers: Iterator[int] = field(default_factory=count)

    def case(self) -> Case:
        return self.work.case(self.model, next(self.numbers))

    def sweep(self, case: Case) -> wb.SweepResult:
        work = self.work
        return wb.activation_patching(
            self.model, case.clean, case.corrupted, case.ours, work.site, work.over, layers=self.layers, progress=False
        )

    def cells(self, result: wb.SweepResult) -> list[Cell]:
        return list(product(*(result.places[axis] for axis in self.work.over)))

    def timed(self) -> tuple[float, int]:
        """Seconds, and how many tokens went through a layer."""
        case = self.case()
        taken, result = timed(lambda: self.sweep(case))
        return taken, result.work.computed


@dataclass
class Theirs:
    peer: Peer
    drawn: int | None
    chance: random.Random = field(default_factory=lambda: random.Random(0))

    def some(self, cells: Sequence[Cell]) -> Sequence[Cell]:
        return cells if self.drawn is None else self.peer.drawn(cells, self.drawn, self.chance)

    def how_many(self, cells: Sequence[Cell]) -> str:
        n = len(self.some(cells))
        return f" ({n} of {len(cells)} cells, scaled)" if n < len(cells) else ""

    def seconds(self, case: Case, cells: Sequence[Cell]) -> float:
        """For all cells: what recording takes, and then each cell."""
        some = self.some(cells)
        once, recorded = timed(lambda: self.peer.record(case.clean))
        loop = seconds(lambda: self.peer.values(case.corrupted, recorded, case.theirs, some))
        return once + loop * len(cells) / len(some)


def agree(ours: wb.SweepResult, theirs: Theirs, case: Case, cells: Sequence[Cell], dtype: torch.dtype) -> None:
    """SystemExit where the two sides do not say the same, cell by cell and example by example."""
    some = theirs.some(cells)
    expected = theirs.peer.values(case.corrupted, theirs.peer.record(case.clean), case.theirs, some).cpu()
    where = {cell: index for index, cell in enumerate(cells)}
    said = ours.values.flatten(1).T[[where[cell] for cell in some]]
    off = (said - expected).abs()
    worst, scale = float(off.max()), max(1.0, float(expected.abs().max()))
    if not worst <= TOLERANCE[dtype] * scale:
        cell, example = divmod(int(off.argmax()), off.shape[1])
        place = ", ".join(f"{axis} {number}" for axis, number in zip(ours.axes, some[cell], strict=True))
        they, we = float(expected[cell, example]), float(said[cell, example])
        raise SystemExit(f"{theirs.peer.name} says {they:.5f} at {place}, example {example}, and we {we:.5f}")


def measured(work: Work, model: wb.HookedTransformer, setup: Setup, n_rounds: int, full: bool) -> Iterator[Line]:
    ours = Ours(model, work, setup.layers)
    case = ours.case()
    with FlopCounterMode(display=False) as counter, Products() as products:
        result = ours.sweep(case)
    multiply_adds, cells = counter.get_total_flops() / 2, ours.cells(result)
    if not 0.75 * multiply_adds <= products.multiply_adds <= multiply_adds:
        raise SystemExit(f"of {multiply_adds:.4g} multiply-adds {products.multiply_adds:.4g} were seen as products")
    replay = products.replay(setup.device, setup.dtype)
    replay()
    for against in work.against:
        theirs = Theirs(against.make(setup), None if full else against.drawn)
        agree(result, theirs, case, cells, setup.dtype)
        rounds_of = [in_turn(ours, theirs, cells, replay) for _ in range(n_rounds)]
        rates = [products.multiply_adds / of.products for of in rounds_of]
        attained = [multiply_adds * of.computed / result.work.computed / of.ours for of in rounds_of]
        yield Line(
            f"{work.name}, {' x '.join(f'{len(result.places[axis])} {axis}' for axis in work.over)}",
            theirs.peer.name + theirs.how_many(cells),
            against.wanted,
            ours=statistics.median(of.ours for of in rounds_of),
            theirs=statistics.median(of.theirs for of in rounds_of),
            times=statistics.median(of.theirs / of.ours for of in rounds_of),
            share=statistics.median(a / rate for a, rate in zip(attained, rates, strict=True)),
            multiply_adds=multiply_adds,
            product_rate=statistics.median(rates),
        )


class Round(NamedTuple):
    """Seconds, and how many tokens went through a layer in ours."""

    ours: float
    computed: float
    theirs: float
    products: float


def in_turn(ours: Ours, theirs: Theirs, cells: Sequence[Cell], replay: Callable[[], None]) -> Round:
    """Ours, and the products, before and after theirs, so that a machine that slows down slows both."""
    (before, computed), products_before = ours.timed(), seconds(replay)
    them = theirs.seconds(ours.case(), cells)
    (after, computed_after), products_after = ours.timed(), seconds(replay)
    return Round((before + after) / 2, (computed + computed_after) / 2, them, (products_before + products_after) / 2)


# Memory


def peak_of_sweep(setup: Setup, row: str, threads: int) -> int:
    """Bytes that a sweep takes at most beyond what the loaded model does after a run; in a process of its own."""
    torch.set_num_threads(threads)
    model = setup.load()
    work = ROWS[row]
    case = work.case(model, 0)
    model(case.clean)
    base = memory_peak(setup.device, reset=True)
    with torch.no_grad():
        wb.activation_patching(
            model, case.clean, case.corrupted, case.ours, work.site, work.over, progress=False, memory=MEMORY
        )
    return memory_peak(setup.device) - base


def memory_peak(device: str, reset: bool = False) -> int:
    """Most bytes held so far, or since the reset. On the processor VmHWM: ru_maxrss begins at the parent's."""
    if device != "cpu":
        if reset:
            torch.cuda.reset_peak_memory_stats()
        return torch.cuda.max_memory_allocated()
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    return 1024 * int(re.findall(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[0])


def memory(setup: Setup, threads: int) -> dict[str, int]:
    peaks = {}
    for row in ("1", "4"):
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            work = f"{ROWS[row].site}, {' x '.join(ROWS[row].over)}"
            peaks[work] = process.submit(peak_of_sweep, setup, row, threads).result()
    return peaks


# The table


TITLES = (
    f"{'work':<46} {'against':<74} {'ours':>9} {'theirs':>9} {'faster':>8} {'wanted':>7} {'products':>9} {'of them':>8}"
)


def shown(line: Line, whole: bool) -> str:
    mark = "  <- short" if whole and line.short else ""
    return (
        f"{line.work:<46} {line.peer:<74} {line.ours:8.2f}s {line.theirs:8.1f}s "
        f"{line.times:7.1f}x {line.wanted:6.1f}x {line.product_rate / 1e9:5.0f} G/s {line.share:8.0%}{mark}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument(
        "--dtype", default="float32", choices=[str(dtype).removeprefix("torch.") for dtype in TOLERANCE]
    )
    parser.add_argument("--rounds", type=int, default=3)
    rows = "; ".join(f"{row} {work.name}" for row, work in ROWS.items())
    every = [*ROWS, "memory"]
    parser.add_argument("--rows", nargs="+", choices=every, default=every, metavar="ROW", help=f"{rows}; memory")
    parser.add_argument("--layers", nargs="+", type=int, help="these only, on both sides")
    parser.add_argument("--quick", action="store_true", help="layers 0, 15 and 29 and one round")
    parser.add_argument("--full", action="store_true", help="peers' loops over all cells, also where they take minutes")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    warnings.filterwarnings("ignore", module="transformers")
    n_rounds = 1 if arguments.quick else arguments.rounds
    layers = tuple(arguments.layers or ()) or ((0, 15, 29) if arguments.quick else None)
    lines: list[Line] = []
    with tempfile.TemporaryDirectory() as temporary, torch.no_grad():
        dtype = getattr(torch, arguments.dtype)
        setup = Setup(as_folder(Path(temporary)), arguments.device, dtype, layers)
        peaks = memory(setup, arguments.threads) if "memory" in arguments.rows else {}
        for work, peak in peaks.items():
            print(f"peak memory beyond the model, memory={MEMORY >> 20} MiB: {work} {peak / 2**20:.0f} MiB")
        if layers is not None:
            print("some layers only: the numbers are not those of a whole sweep and say only that it runs")
        print(TITLES, flush=True)
        model = setup.load()
        for row in arguments.rows:
            if row in ROWS:
                for line in measured(ROWS[row], model, setup, n_rounds, arguments.full):
                    print(shown(line, layers is None), flush=True)
                    lines.append(line)
    if arguments.json is not None:
        rows = [asdict(line) for line in lines]
        arguments.json.write_text(json.dumps({"machine": machine(), "rows": rows, "peak_bytes": peaks}, indent=1))


if __name__ == "__main__":
    main()
