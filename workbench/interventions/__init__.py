"""Interventions: values that say what is changed where, usable wherever a hook is. One file each."""

from ._base import Intervention
from .patch import Patch, patch
from .when import When, on_generated, on_prompt
from .zero import Zero, zero

__all__ = ["Intervention", "Patch", "When", "Zero", "on_generated", "on_prompt", "patch", "zero"]
