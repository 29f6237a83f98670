"""Putting tensors into a model that was built on the meta device: random ones, or those of a file."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from ..spec import ModelSpec
from .linear import Writes
from .transformer import Transformer

STD = 0.02


def meta_transformer(spec: ModelSpec) -> Transformer:
    """A model whose parameters have shapes and no memory."""
    with torch.device("meta"):
        return Transformer(spec)


def initial_tensors(model: Transformer, seed: int, dtype: torch.dtype, device: torch.device) -> dict[str, Tensor]:
    """N(0, 0.02) everywhere, residual outputs smaller by 1/sqrt(2 n_layers), biases 0 (GPT-2), and what a
    component says its own parameters start at: gains 1."""
    generator = torch.Generator().manual_seed(seed)
    return {
        name: _initial(model, name, parameter, generator).to(device, dtype)
        for name, parameter in model.named_parameters()
    }


def _initial(model: Transformer, name: str, parameter: nn.Parameter, generator: torch.Generator) -> Tensor:
    module_name, _, field = name.rpartition(".")
    owner = model.get_submodule(module_name)
    constant = getattr(owner, "starts_at", {"bias": 0.0}).get(field)
    if constant is not None:
        return torch.full(parameter.shape, constant)
    std = STD / (2 * model.spec.n_layers) ** 0.5 if isinstance(owner, Writes) else STD
    return torch.empty(parameter.shape).normal_(0.0, std, generator=generator)


def place_tensors(model: nn.Module, tensors: Mapping[str, Tensor], trainable: bool) -> None:
    """Make each named tensor the model's parameter as it lies, without a copy. Tied parameters stay tied."""
    placed: dict[int, nn.Parameter] = {}
    for name, old in list(model.named_parameters(remove_duplicate=False)):
        if id(old) not in placed:
            placed[id(old)] = nn.Parameter(tensors[name], requires_grad=trainable)
        module_name, _, field = name.rpartition(".")
        setattr(model.get_submodule(module_name), field, placed[id(old)])
