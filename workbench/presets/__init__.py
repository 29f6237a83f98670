"""Named architectures as data: each <name>.json is what `ModelSpec.to_dict` gives.

Where the numbers are from. Where there is a family, a preset equals what loading the published config gives.

    kamui-nano, kamui-small,       The KAMUI project's configs/*.yaml, without dropout: exact GELU, biases, tied. It has
    kamui-medium                   "~1.5M", "~12M" and "~85M" parameters; the numbers come to 1.33M, 6.90M and 63.82M.
    gpt2-small, gpt2-medium,       Radford et al. 2019 and the published configs. GPT-2 norms before each component;
    gpt2-large, gpt2-xl            "Post-LayerNorm", as is sometimes said of it, is the original transformer's.
    gpt3-175b                      Brown et al. 2020, table 2.1: GPT-2's wiring. The paper alternates dense and locally
                                   banded sparse attention of a width that it does not give; here all of it is dense.
    scratch-gpt                    train-llm-from-scratch, configs/base.json: ReLU, untied, a bias on logits and on the
                                   output projection of attention, none on queries, keys and values.
    original-transformer-decoder   Vaswani et al. 2017, the base model's decoder without attention to an encoder. Biases
                                   as in its equations, of the feed-forward only; the vocabulary of section 5.1. The
                                   paper gives no eps of the norms and no longest text; here they are 1e-6 and 512.
    llama-2-7b, llama-2-70b        Touvron et al. 2023 and the published configs. The unembedding is not tied.
    llama-3-8b, llama-3-70b,       Llama Team 2024 and the published configs: the first two of Llama 3 (8K of context),
    llama-3-405b                   the third of Llama 3.1 (128K). Each has 8 key-value heads.
    mistral-7b                     Jiang et al. 2023 and the published config of version 0.1: a window in every layer.
    mixtral-8x7b                   Jiang et al. 2024 and the published config: no window.
    deepseek-v3                    DeepSeek-AI 2024 and the published config, without the module that predicts a
                                   further token (section 2.2).
"""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

from ..errors import MissingError, nearest


def presets() -> list[str]:
    """The names that `ModelSpec.preset` takes."""
    files = resources.files(__name__).iterdir()
    return sorted(file.name.removesuffix(".json") for file in files if file.name.endswith(".json"))


def read_preset(name: str) -> dict[str, Any]:
    """A preset as plain data."""
    if name not in (known := presets()):
        raise MissingError(f"no preset is called {name!r}; {nearest(str(name), known)}")
    return json.loads((resources.files(__name__) / f"{name}.json").read_text("utf-8"))
