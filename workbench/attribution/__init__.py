"""Attribution: which part of the model a result is owed to."""

from .attribution import Attribution
from .direct import direct_logit_attribution

__all__ = ["Attribution", "direct_logit_attribution"]
