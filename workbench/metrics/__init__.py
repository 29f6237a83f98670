"""Metrics: from logits to one number per example.

A metric says which position and which tokens it reads, so that a sweep can compute no more than these. Any callable
from logits [batch, pos, vocab] to [batch] (or to a number) is a metric too.
"""

from ._base import Labels, Metric, MetricLike, measure, resolve
from .language_model import answer_logprob, lm_cross_entropy_loss, loss
from .logits import logit, logit_diff
from .probabilities import kl_from, logprob, prob, prob_diff, rank

__all__ = [
    "Labels",
    "Metric",
    "MetricLike",
    "answer_logprob",
    "kl_from",
    "lm_cross_entropy_loss",
    "logit",
    "logit_diff",
    "logprob",
    "loss",
    "measure",
    "prob",
    "prob_diff",
    "rank",
    "resolve",
]
