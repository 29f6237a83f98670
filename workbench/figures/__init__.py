"""Figures: pure functions from arrays and names to `plotly.graph_objects.Figure`.

All take `theme="auto" | "light" | "dark"`; "auto" is transparent and reads on either. `themed` gives a
copy of a figure in another theme, `figures.html.page` puts figures into one file that needs no network.
"""

from .attention_map import attention
from .attribution_bars import attribution
from .head_scores_map import head_scores
from .lens_map import lens
from .patching_map import patching
from .style import themed

__all__ = ["attention", "attribution", "head_scores", "lens", "patching", "themed"]
