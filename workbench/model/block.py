"""Blocks: how components read the stream and write to it. The only file that adds to the stream after the
embedding.

    resid_pre ─┬───────────────────────────────── + ─ resid_mid ─┬────────────────────────────── + ─ resid_post
               └ attn_in ─ ln1 ─ attn ─ attn_out ─┘              └ mlp_in ─ ln2 ─ mlp ─ mlp_out ─┘
"""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from ..sites import Place, Site
from ..spec import Component, ComponentSpec, LayerSpec
from .norms import build_norm
from .pass_ import Pass

Stream = Float[Tensor, "batch pos d_model"]


class Block(Component):
    """A layer of the model: stream in, stream out. A subclass is a wiring: it says which streams there are and in
    which order components read and write. Reading through a norm and writing is the same in all."""

    def __init__(self, spec: PreNorm, d_model: int, place: Place):
        super().__init__()
        self.ln1 = build_norm(spec.ln1, d_model, place.inside("ln1"))
        self.attn = spec.attn.build(d_model, place.inside("attn"))
        self.ln2 = build_norm(spec.ln2, d_model, place.inside("ln2"))
        self.mlp = spec.mlp.build(d_model, place.inside("mlp"))
        self.hook_attn_in = stream_site(place, "hook_attn_in", d_model)
        self.hook_attn_out = stream_site(place, "hook_attn_out", d_model)
        self.hook_mlp_in = stream_site(place, "hook_mlp_in", d_model)
        self.hook_mlp_out = stream_site(place, "hook_mlp_out", d_model)
        self.attn_sites = (self.hook_attn_in, *self.ln1.sites, *self.attn.sites, self.hook_attn_out)
        self.mlp_sites = (self.hook_mlp_in, *self.ln2.sites, *self.mlp.sites, self.hook_mlp_out)

    def attn_write(self, x: Stream, at: Pass) -> Stream:
        """What attention adds to the stream that it reads."""
        read = at(self.hook_attn_in, x)
        return at(self.hook_attn_out, self.attn(self.ln1(read, at), at))

    def mlp_write(self, x: Stream, at: Pass) -> Stream:
        """What the feed-forward adds to the stream that it reads."""
        read = at(self.hook_mlp_in, x)
        return at(self.hook_mlp_out, self.mlp(self.ln2(read, at), at))


def stream_site(place: Place, name: str, d_model: int) -> Site:
    return place.site(name, "batch pos d_model", d_model=d_model)


class PreNormBlock(Block):
    """Each component reads the stream through a norm of its own and adds to it, one after the other
    (Xiong et al. 2020): GPT-2, Llama."""

    def __init__(self, spec: PreNorm, d_model: int, place: Place):
        super().__init__(spec, d_model, place)
        self.hook_resid_pre = stream_site(place, "hook_resid_pre", d_model)
        self.hook_resid_mid = stream_site(place, "hook_resid_mid", d_model)
        self.hook_resid_post = stream_site(place, "hook_resid_post", d_model)
        first_half, second_half = (self.hook_resid_pre, *self.attn_sites), (self.hook_resid_mid, *self.mlp_sites)
        self.sites = (*first_half, *second_half, self.hook_resid_post)

    def forward(self, x: Stream, at: Pass) -> Stream:
        x = at(self.hook_resid_pre, x)
        x = at(self.hook_resid_mid, x + self.attn_write(x, at))
        return at(self.hook_resid_post, x + self.mlp_write(x, at))


@dataclass(frozen=True)
class PreNorm(LayerSpec):
    attn: ComponentSpec
    mlp: ComponentSpec
    ln1: ComponentSpec | None
    ln2: ComponentSpec | None

    def build(self, d_model: int, place: Place) -> PreNormBlock:
        return PreNormBlock(self, d_model, place)
