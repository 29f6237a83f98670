"""Widgets: figures that a person can steer, in a notebook or as one HTML file."""

from .attention import AttentionDashboard
from .lens import LensDashboard

__all__ = ["AttentionDashboard", "LensDashboard"]
