"""Widgets: figures that a person can steer, in a notebook or as one HTML file."""

from .attention import AttentionDashboard
from .lens import LensDashboard
from .patching import PatchingDashboard

__all__ = ["AttentionDashboard", "LensDashboard", "PatchingDashboard"]
