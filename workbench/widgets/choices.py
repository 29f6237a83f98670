"""What a person can choose in an attention view, as JSON: saved as `state`, taken back by the constructor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import InputError, KindError, nearest

# In the order in which they are taken back: later ones depend on earlier ones.
CHOICES = (
    "example", "layer", "head", "query", "queries", "selection", "quantity", "direction", "scale", "hidden",
    "renormalise", "score", "ordered", "minimum", "arrangement", "x", "y",
)  # fmt: skip
ONE_OF = {
    "quantity": ("attention", "value_weighted", "contribution"),
    "direction": ("attends_to", "attended_by"),
    "scale": ("sqrt", "linear", "log"),
    "arrangement": ("grid", "scatter"),
}


def to_state(identity: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, Any]:
    """identity: what the dashboard is of, so that a state finds back to the same model only."""
    plain = {name: [list(item) for item in value] if name == "selection" else value for name, value in chosen.items()}
    return {"of": dict(identity), **plain}


def of_state(state: object, identity: Mapping[str, Any]) -> dict[str, Any]:
    """The choices of a state. KindError for what is none, InputError for another model's or an unknown part."""
    if not isinstance(state, Mapping):
        raise KindError(f"a state is a dictionary, such as another dashboard's .state, not {type(state).__name__}")
    if not isinstance(of := state.get("of"), Mapping):
        raise InputError("this is no dashboard's state: it does not say what it is of")
    if dict(of) != dict(identity):
        raise InputError(f"the state is of {_named(of)}, and this dashboard of {_named(identity)}")
    for name in state:
        if name not in (*CHOICES, "of"):
            raise InputError(f"a state has no {name!r}; {nearest(str(name), CHOICES)}")
    return {name: state[name] for name in CHOICES if name in state}


def _named(identity: Mapping[str, Any]) -> str:
    what = identity.get("what", "something else")
    spec = f" (spec {identity['spec']})" if identity.get("spec") else ""
    return f"{what} of {identity.get('layers')} layers x {identity.get('heads')} heads{spec}"


def check_one_of(name: str, value: str) -> str:
    if value not in ONE_OF[name]:
        raise InputError(f"{name} is {value!r}; {' or '.join(map(repr, ONE_OF[name]))} is wanted")
    return value
