"""Interventions: values that say what is changed where, usable wherever a hook is. One idea a file."""

from ._base import Intervention
from .linear import ProjectOut, Scale, Steer, project_out, scale, steer
from .patch import Patch, patch
from .when import When, on_generated, on_prompt
from .zero import Zero, zero

__all__ = [
    "Intervention",
    "Patch",
    "ProjectOut",
    "Scale",
    "Steer",
    "When",
    "Zero",
    "on_generated",
    "on_prompt",
    "patch",
    "project_out",
    "scale",
    "steer",
    "zero",
]
