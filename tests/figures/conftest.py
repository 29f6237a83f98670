"""Data as the workbench makes it: one IOI prompt, sweeps and lenses of the shapes that figures take."""

from types import SimpleNamespace

import pytest
import torch

IOI = "When| Mary| and| John| went| to| the| store|,| John| gave| a| drink| to".split("|")
NASTY = [
    "<b>bold</b>",
    '<a href="https://example.org">x</a>',
    "<script>alert(1)</script>",
    "</script>",
    "$x$",
    "%{x}",
    "&lt;",
    " ",
    "\n",
    "\u200b",
    "שלום",
    "",
]


@pytest.fixture
def ioi():
    return list(IOI)


@pytest.fixture
def nasty():
    return list(NASTY)


@pytest.fixture
def causal():
    """(heads, n) -> attention [head, query, key], rows summing to 1, nothing above the diagonal."""

    def make(heads, n):
        scores = torch.randn(heads, n, n, generator=torch.Generator().manual_seed(n))
        future = torch.ones(n, n, dtype=torch.bool).triu(1)
        return scores.masked_fill(future, -torch.inf).softmax(-1)

    return make


@pytest.fixture
def sweep(ioi):
    """(axes, effect=None, **changes) -> what `wb.figures.patching` takes; 5 layers, 3 heads, 14 positions."""
    labels = {
        "layer": tuple("01234"),
        "head": tuple("012"),
        "kv_head": ("0",),
        "pos": tuple(ioi),
    }

    def make(axes, **changes):
        shape = [len(labels[axis]) for axis in axes]
        effect = torch.linspace(-0.5, 1, torch.Size(shape).numel()).reshape(shape)
        values = {
            "effect": effect,
            "mean": 10 * effect - 5,
            "axes": axes,
            "labels": {axis: labels[axis] for axis in axes},
            "site": "resid_pre",
            "direction": "denoise",
            "clean": torch.tensor([6.0, 5.0]),
            "corrupted": torch.tensor([-5.0, -6.0]),
        }
        return SimpleNamespace(**(values | changes))

    return make


@pytest.fixture
def lens(ioi):
    """(tokens=ioi, rows=4, k=3) -> what `wb.figures.lens` takes; guess i of a cell is " w<row>.<pos>.<i>"."""

    def make(tokens=ioi, rows=4, k=3):
        n = len(tokens)
        texts = [[[f" w{row}.{pos}.{i}" for i in range(k)] for pos in range(n)] for row in range(rows)]
        probs = torch.tensor([0.5, 0.25, 0.125])[:k].expand(1, rows, n, k)
        return SimpleNamespace(
            labels=(*(f"before {row}" for row in range(rows - 1)), "final"),
            str_tokens=[tokens],
            texts=[texts],
            logprobs=probs.log(),
        )

    return make
