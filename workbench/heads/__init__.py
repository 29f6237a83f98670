"""Heads by what they attend to."""

from .head_scores import HeadScores, head_scores
from .kinds import DEFAULT_KINDS, KINDS
from .scorer import Scorer

__all__ = ["DEFAULT_KINDS", "KINDS", "HeadScores", "Scorer", "head_scores"]
