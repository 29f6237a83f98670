"""Interventions: values that say what is changed where, usable wherever a hook is. One idea a file."""

from ._base import Intervention, Part, Replacing
from .linear import ProjectOut, Scale, Steer, project_out, scale, steer
from .patch import Freeze, Patch, freeze, patch
from .reference import Mean, Resample, mean, resample
from .saved import load_interventions, save_interventions
from .when import When, on_generated, on_prompt
from .zero import Zero, zero

__all__ = [
    "Freeze",
    "Intervention",
    "Mean",
    "Part",
    "Patch",
    "ProjectOut",
    "Replacing",
    "Resample",
    "Scale",
    "Steer",
    "When",
    "Zero",
    "freeze",
    "load_interventions",
    "mean",
    "on_generated",
    "on_prompt",
    "patch",
    "project_out",
    "resample",
    "save_interventions",
    "scale",
    "steer",
    "zero",
]
