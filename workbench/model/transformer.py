"""The whole model: embed, blocks, unembed.

x = embed(tokens) (+ pos_embed)
for block in blocks: x = block(x)
logits = unembed(ln_final(x))
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from jaxtyping import Float, Int
from torch import Tensor, nn

from ..sites import Place, Sites
from ..spec import ModelSpec
from .block import Block
from .norms import build_norm
from .pass_ import Pass
from .positions import NoPositions


class Transformer(nn.Module):
    """A decoder-only transformer built from its spec. Nothing of a run stays on it."""

    if TYPE_CHECKING:  # as in Component

        def __getattr__(self, name: str) -> Any: ...

    def __init__(self, spec: ModelSpec):
        super().__init__()
        d_model, here = spec.d_model, Place()
        self.spec = spec
        self.embedding = spec.embed.build(d_model, here)
        self.pos_embedding = spec.pos_embed.build(d_model, here) if spec.pos_embed else NoPositions()
        blocks = [layer.build(d_model, here.inside(f"blocks.{at}", at)) for at, layer in enumerate(spec.layers)]
        self.blocks = cast(Sequence[Block], nn.ModuleList(blocks))
        self.ln_final = build_norm(spec.ln_final, d_model, here.inside("ln_final"))
        self.unembedding = spec.unembed.build(d_model, here)
        self.unembedding.tie(self.embedding)
        inside = [site for block in blocks for site in block.sites]
        self.sites = Sites([*self.embedding.sites, *self.pos_embedding.sites, *inside, *self.ln_final.sites])

    def embed(self, tokens: Int[Tensor, "batch pos"], at: Pass) -> Float[Tensor, "batch pos d_model"]:
        return self.pos_embedding(self.embedding(tokens, at), at)

    def run_blocks(
        self, x: Float[Tensor, "batch pos d_model"], at: Pass, start: int = 0, stop: int | None = None
    ) -> Float[Tensor, "batch pos d_model"]:
        """Blocks start to stop - 1; the others do not run."""
        for block in self.blocks[start:stop]:
            x = block(x, at)
        return x

    def unembed(self, x: Float[Tensor, "batch pos d_model"], at: Pass) -> Float[Tensor, "batch pos vocab"]:
        return self.unembedding(self.ln_final(x, at))
