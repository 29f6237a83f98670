"""A mechanistic-interpretability workbench.

    import workbench as wb

    model = wb.load("smollm2-135m")
    logits, attention = model("When Mary and John went to the store, John gave a drink to")
    logits, cache = model.run_with_cache("...", names_filter="resid_pre")

A transformer is a stream and a list of components that read it and write to it by addition. Everything here
watches or changes one of those places.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import errors, tasks
from .arithmetic import costs
from .attribution import Attribution, direct_logit_attribution
from .cache import ActivationCache
from .heads import HeadScores, head_scores
from .hooked import HookedTransformer
from .interventions import (
    freeze,
    load_interventions,
    mean,
    on_generated,
    on_prompt,
    patch,
    project_out,
    resample,
    save_interventions,
    scale,
    steer,
    zero,
)
from .lenses import logit_lens
from .loading import from_huggingface, load
from .metrics import (
    answer_logprob,
    kl_from,
    lm_cross_entropy_loss,
    logit,
    logit_diff,
    logprob,
    loss,
    prob,
    prob_diff,
    rank,
)
from .presets import presets
from .pretrained import pretrained
from .sites import Site, site_name
from .spec import ModelSpec
from .sweep import ablate, activation_patching, faithfulness
from .sweep_result import SweepResult

if TYPE_CHECKING:
    from . import figures
    from .widgets import AttentionDashboard, LensDashboard, PatchingDashboard

__version__ = "0.5.0"

__all__ = [
    "ActivationCache",
    "AttentionDashboard",
    "Attribution",
    "HeadScores",
    "HookedTransformer",
    "LensDashboard",
    "ModelSpec",
    "PatchingDashboard",
    "Site",
    "SweepResult",
    "ablate",
    "activation_patching",
    "answer_logprob",
    "costs",
    "direct_logit_attribution",
    "errors",
    "faithfulness",
    "figures",
    "freeze",
    "from_huggingface",
    "head_scores",
    "kl_from",
    "lm_cross_entropy_loss",
    "load",
    "load_interventions",
    "logit",
    "logit_diff",
    "logit_lens",
    "logprob",
    "loss",
    "mean",
    "on_generated",
    "on_prompt",
    "patch",
    "presets",
    "pretrained",
    "prob",
    "prob_diff",
    "project_out",
    "rank",
    "resample",
    "save_interventions",
    "scale",
    "site_name",
    "steer",
    "tasks",
    "zero",
]

# What draws is imported when first used: plotly and ipywidgets take longer to import than all the rest.
_DRAWS = {
    "figures": ("figures", None),
    "AttentionDashboard": ("widgets", "AttentionDashboard"),
    "LensDashboard": ("widgets", "LensDashboard"),
    "PatchingDashboard": ("widgets", "PatchingDashboard"),
}


def __getattr__(name: str) -> Any:
    if name not in _DRAWS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; {errors.nearest(name, __all__)}")
    module_name, attribute = _DRAWS[name]
    module = import_module(f".{module_name}", __name__)
    return module if attribute is None else getattr(module, attribute)


def __dir__() -> list[str]:
    return sorted(__all__)
