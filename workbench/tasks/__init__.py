"""Tasks: pairs of prompts for activation patching, and the measure of what a model answers.

pairs = wb.tasks.ioi(model.tokenizer, n=32, seed=0)
wb.activation_patching(model, pairs.clean, pairs.corrupted, pairs.metric)

A task is made for the tokenizer at hand: what has to be one token is. `read` takes pairs from a person's own file.
"""

from ._base import Pairs
from .capitals import capitals
from .greater_than import greater_than
from .induction import induction
from .ioi import ioi
from .read import read

__all__ = ["Pairs", "capitals", "greater_than", "induction", "ioi", "read"]
