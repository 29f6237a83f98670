"""The weights of all layers in the field's layout, stacked. Per layer they are views: model.blocks[3].attn.W_Q"""

from __future__ import annotations

import torch
from torch import Tensor

from .errors import SpecError
from .model.moe import MixtureOfExperts
from .model.positions import LearnedPositions
from .model.transformer import Transformer


class Weights(Transformer):
    """A transformer that names its weights as papers do."""

    def _stack(self, component: str, name: str) -> Tensor:
        parts = [getattr(block, component, None) for block in self.blocks]
        for layer, part in enumerate(parts):
            if part is None:
                raise SpecError(f"layer {layer} has no {component}, and so no {name}")
            if isinstance(part, MixtureOfExperts):
                raise SpecError(f"layer {layer} has experts, whose own is blocks[{layer}].mlp.experts.{name}")
            if not hasattr(part, name):  # said here, since torch would call the property itself missing
                raise SpecError(f"layer {layer}'s {component} is a {type(part).__name__}, which has no {name}")
        try:
            return torch.stack([getattr(part, name) for part in parts])
        except RuntimeError:
            raise SpecError(f"{name} differs in shape from layer to layer; ask blocks[l].{component}.{name}") from None

    W_Q = property(lambda self: self._stack("attn", "W_Q"), doc="[layer head d_model d_head]")
    W_K = property(lambda self: self._stack("attn", "W_K"), doc="[layer kv_head d_model d_head]")
    W_V = property(lambda self: self._stack("attn", "W_V"), doc="[layer kv_head d_model d_head]")
    W_O = property(lambda self: self._stack("attn", "W_O"), doc="[layer head d_head d_model]")
    b_Q = property(lambda self: self._stack("attn", "b_Q"), doc="[layer head d_head]; 0 where there is none")
    b_K = property(lambda self: self._stack("attn", "b_K"), doc="[layer kv_head d_head]; 0 where there is none")
    b_V = property(lambda self: self._stack("attn", "b_V"), doc="[layer kv_head d_head]; 0 where there is none")
    b_O = property(lambda self: self._stack("attn", "b_O"), doc="[layer d_model]; 0 where there is none")
    W_DQ = property(lambda self: self._stack("attn", "W_DQ"), doc="[layer d_model d_latent], of latent attention")
    W_UQ = property(lambda self: self._stack("attn", "W_UQ"), doc="[layer head d_latent d_head], of latent attention")
    W_DKV = property(lambda self: self._stack("attn", "W_DKV"), doc="[layer d_model d_latent], of latent attention")
    W_UK = property(lambda self: self._stack("attn", "W_UK"), doc="[layer head d_latent d_nope], of latent attention")
    W_UV = property(lambda self: self._stack("attn", "W_UV"), doc="[layer head d_latent d_value], of latent attention")
    W_KR = property(lambda self: self._stack("attn", "W_KR"), doc="[layer d_model d_rope], of latent attention")
    W_in = property(lambda self: self._stack("mlp", "W_in"), doc="[layer d_model d_mlp]")
    W_gate = property(lambda self: self._stack("mlp", "W_gate"), doc="[layer d_model d_mlp]")
    W_out = property(lambda self: self._stack("mlp", "W_out"), doc="[layer d_mlp d_model]")
    b_in = property(lambda self: self._stack("mlp", "b_in"), doc="[layer d_mlp]; 0 where there is none")
    b_gate = property(lambda self: self._stack("mlp", "b_gate"), doc="[layer d_mlp]; 0 where there is none")
    b_out = property(lambda self: self._stack("mlp", "b_out"), doc="[layer d_model]; 0 where there is none")
    W_E = property(lambda self: self.embedding.W_E, doc="[vocab d_model]; what each token writes")
    W_pos = property(lambda self: self._learned_positions(), doc="[n_ctx d_model], of learned positions")
    W_U = property(lambda self: self.unembedding.W_U, doc="[d_model vocab]")
    b_U = property(lambda self: self.unembedding.b_U, doc="[vocab]; 0 where there is none")

    def _learned_positions(self) -> Tensor:
        if not isinstance(self.pos_embedding, LearnedPositions):
            raise SpecError(f"this model has no W_pos: its positions are {type(self.pos_embedding).__name__}")
        return self.pos_embedding.weight
