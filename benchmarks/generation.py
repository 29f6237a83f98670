"""Greedy generation against transformers, on SmolLM2-135M, cache on in both.

python benchmarks/generation.py [--threads 2] [--rounds 5] [--json out.json]
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch
from side_by_side import Row, compare, report
from spine import as_folder, some_tokens
from transformers import AutoModelForCausalLM
from transformers.utils import logging

import workbench as wb

PROMPT, NEW = 256, 64


def rows(folder: Path, rounds: int) -> list[Row]:
    ours = wb.load(folder)
    theirs: Any = AutoModelForCausalLM.from_pretrained(folder)
    prompt = some_tokens(1, PROMPT)
    theirs.generation_config.eos_token_id = None  # neither side stops early
    greedy: dict[str, Any] = {
        "do_sample": False,
        "max_new_tokens": NEW,
        "pad_token_id": 0,
        "attention_mask": torch.ones_like(prompt),
    }
    halve = (("mlp_out", 15), lambda value, at: value / 2)

    def by_them() -> Any:
        return theirs.generate(prompt, **greedy)

    def by_us(*hooks: Any) -> Any:
        return ours.generate(prompt, NEW, stop=[], hooks=hooks)

    if not torch.equal(by_us(), by_them()):
        raise SystemExit("the two sides do not say the same")
    work = f"{NEW} greedy tokens after {PROMPT}"
    return [
        compare(work, "transformers.generate", by_us, by_them, 1.10, rounds),
        compare(
            f"{work}, a hook at one layer",
            "transformers.generate, no hook",
            lambda: by_us(halve),
            by_them,
            1.15,
            rounds,
        ),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    warnings.filterwarnings("ignore", module="transformers")
    with tempfile.TemporaryDirectory() as temporary, torch.no_grad():
        report(rows(as_folder(Path(temporary)), arguments.rounds), arguments.json)


if __name__ == "__main__":
    main()
