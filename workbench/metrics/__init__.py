"""Metrics: from logits to one number per example.

A metric says which position and which tokens it reads, so that a sweep can compute no more than these. Any callable
from logits [batch, pos, vocab] to [batch] (or to a number) is a metric too.
"""

from ._base import Metric, MetricLike, measure, resolve
from .language_model import lm_cross_entropy_loss
from .logits import logit, logit_diff
from .probabilities import kl_from, logprob, prob, rank

__all__ = [
    "Metric",
    "MetricLike",
    "kl_from",
    "lm_cross_entropy_loss",
    "logit",
    "logit_diff",
    "logprob",
    "measure",
    "prob",
    "rank",
    "resolve",
]
