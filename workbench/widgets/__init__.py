"""Widgets: figures that a person can steer, in a notebook or as one HTML file."""

from .attention import AttentionDashboard

__all__ = ["AttentionDashboard"]
