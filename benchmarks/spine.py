"""The spine against transformers, on SmolLM2-135M: forward, attention, cache, loading, import.

python benchmarks/spine.py [--threads 2] [--rounds 7] [--json out.json] [--only forward]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from side_by_side import Row, compare, report
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging

import workbench as wb
from workbench.pretrained import fetch

SHAPES = ((1, 14), (4, 256), (1, 2048))


def as_folder(into: Path) -> Path:
    """SmolLM2 as a Hugging Face folder, dequantised by transformers."""
    file = fetch("smollm2-135m")
    read = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name)
    del read.config.quantization_config  # transformers refuses to save what came from GGUF; the weights are plain
    plain = AutoModelForCausalLM.from_config(read.config)
    plain.load_state_dict(read.state_dict())
    plain.save_pretrained(into)
    AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name).save_pretrained(into)
    return into


def some_tokens(batch: int, pos: int) -> torch.Tensor:
    return torch.randint(0, 49152, (batch, pos), generator=torch.Generator().manual_seed(batch * pos))


def forwards(folder: Path, rounds: int) -> Iterator[Row]:
    ours, theirs = wb.load(folder), AutoModelForCausalLM.from_pretrained(folder, attn_implementation="sdpa")
    for (batch, pos), target in zip(SHAPES, (1.10, 1.10, 1.15), strict=True):
        tokens = some_tokens(batch, pos)
        yield compare(
            f"forward, attention returned, {batch} x {pos}",
            "transformers, SDPA, no attention",
            lambda tokens=tokens: ours(tokens),
            lambda tokens=tokens: theirs(tokens, use_cache=False),
            target,
            rounds * 3 if pos < 20 else rounds,
        )


def looks(folder: Path, rounds: int) -> Iterator[Row]:
    ours, theirs = wb.load(folder), AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager")

    def every_layer(tokens: torch.Tensor) -> float:
        return sum(float(weights[0, 0, -1, 0]) for weights in ours(tokens)[1])

    for batch, pos in SHAPES[1:]:
        tokens = some_tokens(batch, pos)
        yield compare(
            f"forward, then every layer's weights, {batch} x {pos}",
            "transformers, eager, attentions",
            lambda tokens=tokens: every_layer(tokens),
            lambda tokens=tokens: theirs(tokens, use_cache=False, output_attentions=True),
            1.10,
            rounds if pos < 1000 else max(3, rounds // 2),
        )


def caches(folder: Path, rounds: int) -> Iterator[Row]:
    model = wb.load(folder)
    sites = ["hook_embed", "resid_pre", "attn_out", "resid_mid", "mlp_out", "resid_post"]
    for batch, pos in SHAPES:
        tokens = some_tokens(batch, pos)
        yield compare(
            f"run_with_cache, streams and writes, {batch} x {pos}",
            "our own forward",
            lambda tokens=tokens: model.run_with_cache(tokens, names_filter=sites),
            lambda tokens=tokens: model(tokens),
            1.15,
            rounds * 3 if pos < 20 else rounds,
        )


def loading(folder: Path, rounds: int) -> Iterator[Row]:
    yield compare(
        "load a folder, tokenizer included",
        "from_pretrained, model and tokenizer",
        lambda: wb.load(folder),
        lambda: (AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)),
        1.3,
        rounds,
    )


def imports(folder: Path, rounds: int) -> Iterator[Row]:
    def process(statement: str) -> Callable[[], object]:
        return lambda: subprocess.run([sys.executable, "-c", statement], check=True)

    yield compare("import workbench", "import torch", process("import workbench"), process("import torch"), 1.3, rounds)


SECTIONS = {"forward": forwards, "look": looks, "cache": caches, "load": loading, "import": imports}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", choices=SECTIONS, action="append")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    warnings.filterwarnings("ignore", module="transformers")
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as temporary, torch.no_grad():
        folder = as_folder(Path(temporary))
        for name in arguments.only or SECTIONS:
            rows += SECTIONS[name](folder, arguments.rounds)
    report(rows, arguments.json)


if __name__ == "__main__":
    main()
