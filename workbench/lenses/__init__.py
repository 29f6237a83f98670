"""Lenses: from a place in the stream to logits."""

from .logit_lens import Lens, logit_lens

__all__ = ["Lens", "logit_lens"]
