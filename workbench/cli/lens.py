"""`workbench lens`: what a model would say at each layer if it stopped there."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from ..errors import InputError, TooLargeError, count
from ..figures.html import Part, Table, page
from ..figures.lens_map import STAR
from ..figures.tokens import shortened, visible
from ..files import atomic_file, check_writable
from ..hooked import HookedTransformer
from ..lenses import Lens, logit_lens
from ..loading import load
from ..widgets import LensDashboard
from .tables import print_table

LETTERS = 24  # of a token in the terminal


def lens(
    model: Annotated[str, typer.Argument(help="A model folder, a .gguf file, or a name such as smollm2-135m.")],
    prompt: Annotated[str, typer.Argument(help="A text.")],
    top_k: Annotated[int, typer.Option(help="How many tokens are kept at each place, for JSON and figure.")] = 10,
    target: Annotated[
        list[str] | None,
        typer.Option(
            help="A token to follow, with its leading space; may be repeated. Else what the model says in the end."
        ),
    ] = None,
    position: Annotated[int, typer.Option(help="The token after which the table reads; -1 is the last.")] = -1,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a page with the whole lens.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers of every layer and position.")] = False,
) -> None:
    """The logit lens: each layer's stream through the final norm and the unembedding."""
    if html is not None:
        check_writable(html)
    loaded = load(model)
    at = column_of(position, loaded, prompt)
    targets = target or [said_in_the_end(loaded, prompt, at)]
    found = logit_lens(loaded, prompt, top_k, targets, progress=not as_json)
    if html is not None:
        with atomic_file(html) as temporary:
            temporary.write_text(report(found, model, at), "utf-8")
    if as_json:
        print(json.dumps(as_data(found, model, prompt, at, html)))
        return
    columns, rows = table_of(found, at)
    print_table(title_of(found, at), columns, rows)
    print(f"entropy and KL(final || layer) in nats; rank 0 is the top token; {STAR} the text goes on so")
    if html is not None:
        print(f"written: {html.resolve()}")


def column_of(position: int, model: HookedTransformer, prompt: str) -> int:
    n_pos = model.to_tokens(prompt).shape[1]
    if not -n_pos <= position < n_pos:
        raise InputError(f"--position is {position}; the text has {count(n_pos, 'token')}, 0 to {n_pos - 1}")
    return position % n_pos


@torch.no_grad()
def said_in_the_end(model: HookedTransformer, prompt: str, at: int) -> int:
    """The model's own most probable token there, to be followed where nothing else was asked for."""
    return int(model.unembedding(model.forward_hidden(prompt)[:, at]).argmax())


def title_of(lens: Lens, at: int) -> str:
    following = lens.str_tokens[0][at + 1 : at + 2]
    goes_on = f", before {visible(following[0])}" if following else ""
    return f"after {visible(lens.str_tokens[0][at])} (position {at} of {len(lens.str_tokens[0])}){goes_on}"


def table_of(lens: Lens, at: int) -> tuple[list[str], list[list[Any]]]:
    """A row per layer at one position: the top token, ranks of what is followed, entropy and divergence."""
    names = [f"rank of {shortened(visible(text), LETTERS)}" for text in lens.target_texts]
    rows = []
    for row, label in enumerate(lens.labels):
        top = shortened(visible(lens.texts[0][row][at][0]), LETTERS) + (f" {STAR}" if lens.right[0, row, at] else "")
        prob = lens.logprobs[0, row, at, 0].exp().item()
        sure = [lens.entropy[0, row, at].item(), lens.kl[0, row, at].item()]
        rows.append([label, top, prob, *lens.target_ranks[0, row, at].tolist(), *sure])
    return ["layer", "top token", "probability", *names, "entropy", "KL"], rows


def as_data(lens: Lens, model: str, prompt: str, at: int, html: Path | None) -> dict[str, Any]:
    """Plain data under the names of `Lens`, [layer][pos] and what is beyond; None where there is no number."""
    numbers = ("tokens", "logprobs", "entropy", "kl", "next_logprobs", "next_ranks", "right")
    of_targets = ("target_logprobs", "target_ranks")
    return {
        "command": "lens",
        "model": model,
        "prompt": prompt,
        "position": at,
        "labels": list(lens.labels),
        "str_tokens": lens.str_tokens[0],
        "texts": lens.texts[0],
        "next_tokens": lens.next_tokens[0].tolist(),
        "target_tokens": list(lens.target_tokens),
        "target_texts": list(lens.target_texts),
        **{name: _plain(getattr(lens, name)[0].tolist()) for name in (*numbers, *of_targets)},
        "files": [] if html is None else [str(html.resolve())],
    }


def _plain(data: Any) -> Any:
    if isinstance(data, list):
        return [_plain(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


def report(lens: Lens, model: str, at: int) -> str:
    """One page with the lens, complete in itself."""
    columns, rows = table_of(lens, at)
    said = f"{model}: the stream before each layer, through the final norm with its own statistics and the unembedding."
    try:
        shown = LensDashboard(lens, pos=at)
    except TooLargeError as error:
        came = count(len(lens.str_tokens[0]), "token")
        raise TooLargeError(f"a page of {came} is too large for --top-k {lens.tokens.shape[-1]}; give less") from error
    star = f"{STAR} is where the top token is what the text goes on with."
    sections: list[tuple[str, list[Part]]] = [
        ("What the stream says on the way", [said, shown, star]),
        (f"Layer by layer, {title_of(lens, at)}", [Table(columns, rows)]),
    ]
    return page("workbench lens", sections)
