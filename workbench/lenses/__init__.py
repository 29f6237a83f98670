"""Lenses: from a place in the stream to logits."""

from .lens import Lens
from .logit_lens import logit_lens

__all__ = ["Lens", "logit_lens"]
