"""A mechanistic-interpretability workbench.

    import workbench as wb

    model = wb.load("smollm2-135m")
    logits, attention = model("When Mary and John went to the store, John gave a drink to")
    logits, cache = model.run_with_cache("...", names_filter="resid_pre")

A transformer is a stream and a list of components that read it and write to it by addition. Everything here
watches or changes one of those places.
"""

from __future__ import annotations

from . import errors
from .cache import ActivationCache
from .hooked import HookedTransformer, from_huggingface, load
from .pretrained import pretrained
from .sites import Site, site_name
from .spec import ModelSpec

__version__ = "0.1.0"

__all__ = [
    "ActivationCache",
    "HookedTransformer",
    "ModelSpec",
    "Site",
    "errors",
    "from_huggingface",
    "load",
    "pretrained",
    "site_name",
]
