"""From scores to a pattern: softmax, or softmax beside a learned sink.

In float32 as every published implementation does, exactly 0 where masked, and rounded once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..sites import Place
from ..spec import Component
from .masks import Visibility
from .pass_ import Pass
from .precision import at_least_float32

Scores = Float[Tensor, "batch head query key"]
Pattern = Float[Tensor, "batch head query key"]


class Softmax(Component):
    """Rows sum to 1."""

    def forward(self, scores: Scores, visible: Visibility, at: Pass) -> Pattern:
        return self.plain(scores, visible)

    def plain(self, scores: Scores, visible: Visibility) -> Pattern:
        """The pattern where no hook is."""
        return visible.zero(visible.finite(scores).softmax(-1, dtype=at_least_float32(scores)).to(scores.dtype))


class SoftmaxWithSink(Component):
    """A learned score for each head, of a key that has no value (OpenAI 2025, gpt-oss; after Xiao et al. 2023 and
    Miller 2023). It takes a share of each query, and the row sums to what is left:

        share = e^sink / (e^sink + sum e^scores)         hook_sink
        pattern = (1 - share) softmax(scores)
    """

    starts_at: ClassVar[Mapping[str, float]] = {"weight": 0.0}

    def __init__(self, n_heads: int, place: Place):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_heads))
        self.hook_sink = place.site("hook_sink", "batch head query", exact=True, head=n_heads)
        self.sites = (self.hook_sink,)

    def forward(self, scores: Scores, visible: Visibility, at: Pass) -> Pattern:
        return self._beside(at(self.hook_sink, self.share(scores, visible)), scores, visible)

    def plain(self, scores: Scores, visible: Visibility) -> Pattern:
        """The pattern where no hook is."""
        return self._beside(self.share(scores, visible), scores, visible)

    def share(self, scores: Scores, visible: Visibility) -> Float[Tensor, "batch head query"]:
        """What the sink takes; all of a query that sees nothing. In float32."""
        scores = visible.finite(scores).to(at_least_float32(scores))
        share = (self.weight[:, None].to(scores.dtype) - scores.logsumexp(-1)).sigmoid()
        return share if visible.plain else share.masked_fill(visible.blind, 1.0)

    def _beside(self, share: Float[Tensor, "batch head query"], scores: Scores, visible: Visibility) -> Pattern:
        among_keys = visible.finite(scores).softmax(-1, dtype=at_least_float32(scores))
        return visible.zero((among_keys * (1 - share[..., None])).to(scores.dtype))
