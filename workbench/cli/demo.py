"""`workbench demo`: activation patching on indirect object identification (Wang et al. 2022), start to end.

In "When Mary and John went to the store, John gave a drink to" the answer is " Mary". With the second John made Mary,
it is " John". Where does the model hold what makes the difference? Patch one place at a time from the clean run into
the corrupted one, and see how much of the answer comes back.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from ..figures.html import Table, page
from ..figures.tokens import visible
from ..files import atomic_file, check_writable
from ..hooked import HookedTransformer
from ..lenses import Lens, logit_lens
from ..loading import load
from ..metrics import logit_diff
from ..sweep import activation_patching
from ..sweep_result import SweepResult
from ..widgets import AttentionDashboard, LensDashboard, PatchingDashboard
from .tables import print_table

MODEL = "smollm2-135m"
CLEAN = "When Mary and John went to the store, John gave a drink to"
CORRUPTED = "When Mary and John went to the store, Mary gave a drink to"
ANSWERS = (" Mary", " John")


def demo(
    out: Annotated[Path, typer.Option(help="Where the report is written.")] = Path("reports/demo.html"),
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Activation patching on a real language model: tables here, pictures in a report that opens offline."""
    start = time.perf_counter()
    check_writable(out)
    model = load(MODEL)
    metric = logit_diff(*ANSWERS)
    by_position = activation_patching(model, CLEAN, CORRUPTED, metric, site="resid_pre", progress=not as_json)
    by_head = activation_patching(model, CLEAN, CORRUPTED, metric, site="z", progress=not as_json)
    lens = logit_lens(model, CLEAN, top_k=5, progress=not as_json)
    found = {
        "clean": by_position.clean.item(),
        "corrupted": by_position.corrupted.item(),
        "layer_position": strongest(by_position),
        "layer_head": strongest(by_head),
        "next_token": lens.texts[0][-1][-1][0],
    }
    write_report(out, model, found, by_position, by_head, lens)
    found |= {"report": str(out.resolve()), "seconds": time.perf_counter() - start}
    if as_json:
        print(json.dumps(found, indent=1))
    else:
        _print(found)


def strongest(result: SweepResult, n: int = 10) -> list[dict[Any, Any]]:
    """The cells with the largest effects of either sign, largest first."""
    cells = result.to_dataframe().drop(columns="example").to_dict("records")
    return sorted(cells, key=lambda cell: -abs(cell["effect"]))[:n]


def _print(found: dict[str, Any]) -> None:
    print(f"clean      {CLEAN!r}")
    print(f"           logit({ANSWERS[0]!r}) - logit({ANSWERS[1]!r}) = {found['clean']:.2f}")
    print(f"           the model says {found['next_token']!r}")
    print(f"corrupted  {CORRUPTED!r}")
    print(f"           logit({ANSWERS[0]!r}) - logit({ANSWERS[1]!r}) = {found['corrupted']:.2f}\n")
    print_table(
        "clean stream into the corrupted run: strongest layer x position",
        ("layer", "position", "token", "logit difference", "effect"),
        [(c["layer"], c["pos"], visible(c["token"]), c["value"], c["effect"]) for c in found["layer_position"]],
    )
    print_table(
        "clean head output into the corrupted run: strongest layer x head",
        ("layer", "head", "logit difference", "effect"),
        [(c["layer"], c["head"], c["value"], c["effect"]) for c in found["layer_head"]],
    )
    print("effect: 0 is the corrupted run, 1 the clean one")
    print(f"report: {found['report']}  ({found['seconds']:.0f} s)")


def write_report(
    path: Path,
    model: HookedTransformer,
    found: dict[str, Any],
    by_position: SweepResult,
    by_head: SweepResult,
    lens: Lens,
) -> None:
    """One HTML file with heat maps and attention, complete in itself."""
    top = max(found["layer_head"], key=lambda cell: cell["effect"])
    last = len(lens.str_tokens[0]) - 1
    dashboard = AttentionDashboard(
        model,
        CLEAN,
        against=CORRUPTED,
        metric=logit_diff(*ANSWERS),
        names=("clean", "corrupted"),
        layer=top["layer"],
        head=top["head"],
        query=last,
    )
    runs = [[CLEAN, round(found["clean"], 2)], [CORRUPTED, round(found["corrupted"], 2)]]
    columns = ["layer", "head", "logit difference", "effect"]
    heads = [[c["layer"], c["head"], round(c["value"], 2), round(c["effect"], 3)] for c in found["layer_head"]]
    sections = [
        (
            "Two prompts, one word apart",
            [
                f"{MODEL} completes the first prompt with {found['next_token']!r}. The measure is the difference of "
                f"two logits at the last position, {ANSWERS[0]!r} less {ANSWERS[1]!r}.",
                Table(["prompt", "logit difference"], runs),
            ],
        ),
        (
            "Which position carries it, layer by layer",
            [
                "Each cell is one run of the corrupted prompt in which the stream entering a layer, at one position, "
                "is the clean run's. 0: nothing moved. 1: the answer is back.",
                PatchingDashboard(by_position),
            ],
        ),
        (
            "Which heads move it",
            [
                "The same with the output of one head, at all positions.",
                PatchingDashboard(by_head),
                Table(columns, heads),
            ],
        ),
        (
            f"Where layer {top['layer']}, head {top['head']} looks",
            [
                "The head with the largest effect, on both prompts and in what differs; every other one can be chosen. "
                "As a contribution to a logit it is each position's part in the logit difference.",
                dashboard,
            ],
        ),
        (
            "What the stream says on the way",
            [
                "The logit lens: the stream before each layer, through the final norm with its own statistics and the "
                "unembedding.",
                LensDashboard(lens, layer=lens.tokens.shape[1] - 1, pos=last),
            ],
        ),
    ]
    with atomic_file(path) as temporary:
        temporary.write_text(page("Where does the model hold the answer?", sections), "utf-8")
