"""Interventions: values that say what is changed where, usable wherever a hook is. One file each."""

from ._base import Intervention
from .patch import Patch, patch
from .zero import Zero, zero

__all__ = ["Intervention", "Patch", "Zero", "patch", "zero"]
