"""Sweeps: one kind of intervention over a grid of places, and what it did to a metric at each.

Each cell is exactly the run with its one intervention. What a cell cannot change is not computed: see `recompute`, and
`ways` for when that does not hold.
"""

from .ablation import Faithfulness, ablate, faithfulness
from .patching import activation_patching

__all__ = ["Faithfulness", "ablate", "activation_patching", "faithfulness"]
