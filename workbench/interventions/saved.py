"""Interventions in a file: one safetensors file, whose header says in JSON what is done where, and whose tensors are
the caches and directions it is done with."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from .. import interventions
from ..cache import ActivationCache
from ..errors import InterventionError, KindError, LoadError, MissingError
from ..files import atomic_file
from ..sites import Selector, Site
from ._base import Intervention
from ._choice import Choice, numbers_of

_CHOICES = ("layers", "positions", "heads", "neurons")
_KINDS: dict[str, Any] = {"float": (int, float), "int": int, "bool": bool, "Choice": (int, list, type(None))}
_KEY = "workbench_interventions"


def save_interventions(path: str | Path, changes: Iterable[Intervention]) -> None:
    """Write interventions, in their order, into one safetensors file. Of caches only the sites that are changed are
    kept. Written whole or not at all; KindError for a function, which no file can hold."""
    if isinstance(changes, (Intervention, str)) or not isinstance(changes, Iterable):
        raise KindError(f"a list of interventions can be saved; {changes!r} came")
    described, tensors = [], {}
    for number, change in enumerate(changes):
        if not isinstance(change, Intervention):
            raise KindError(f"interventions can be saved; {change!r} is none")
        said, held = _described(change)
        described.append(said)
        tensors |= {f"{number}/{name}": tensor for name, tensor in held.items()}
    with atomic_file(path) as temporary:
        save_file(tensors, temporary, {_KEY: json.dumps(described)})


def load_interventions(path: str | Path) -> list[Intervention]:
    """Those that `save_interventions` wrote; MissingError or LoadError in a sentence."""
    if not Path(path).is_file():
        raise MissingError(f"there is no file {str(path)!r}")
    try:
        with safe_open(path, "pt") as file:
            described = json.loads((file.metadata() or {})[_KEY])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        return [_made(said, _under(f"{number}/", tensors)) for number, said in enumerate(described)]
    except (SafetensorError, KeyError, ValueError, TypeError, AttributeError) as error:
        raise LoadError(f"{str(path)!r} holds no saved interventions or is damaged: {error}") from None


def _described(change: Intervention) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """What JSON can hold of an intervention, and its tensors by name."""
    said: dict[str, Any] = {"kind": type(change).__name__}
    held: dict[str, Tensor] = {}
    for name, value in ((field.name, getattr(change, field.name)) for field in fields(change)):
        if name == "site":
            said[name] = _site(value)
        elif name in _CHOICES:
            said[name] = _numbers(value)
        elif isinstance(value, ActivationCache):
            said[name], of_cache = value.as_tensors(_changed(change, value))
            held |= {f"{name}/{part}": tensor.clone() for part, tensor in of_cache.items()}
        elif isinstance(value, Tensor):
            held[name] = value.detach().clone().contiguous()
        else:
            said[name] = value
    return said, held


def _changed(change: Intervention, cache: ActivationCache) -> list[str] | None:
    """The recorded sites that it changes; None where that depends on the model."""
    layers = None if change.layers is None else numbers_of(change.layers)
    if not isinstance(change.site, str) or any(layer < 0 for layer in layers or ()):
        return None
    return [site.name for site in cache.sites.select(change.site) if layers is None or site.layer in layers]


def _made(said: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Intervention:
    """An intervention of a kind that is known here, and of no other."""
    kind = getattr(interventions, said["kind"], None)
    if not (isinstance(kind, type) and issubclass(kind, Intervention)):
        raise LoadError(f"an intervention of kind {said['kind']!r} is not known here")
    given = dict(said)
    for field in fields(kind):
        if of_cache := _under(f"{field.name}/", tensors):
            given[field.name] = ActivationCache.of_tensors(said[field.name], of_cache)
        elif field.name in tensors:
            given[field.name] = tensors[field.name]
        elif not isinstance(given.get(field.name), _KINDS.get(str(field.type), object)):
            raise LoadError(f"the {field.name} of {said['kind']} is {given.get(field.name)!r}")
    given["site"] = tuple(said["site"]) if isinstance(said["site"], list) else said["site"]
    del given["kind"]
    return kind(**given)


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _site(site: Selector) -> str | list[Any]:
    if isinstance(site, Site):
        return site.name
    if isinstance(site, (str, tuple)):
        return site if isinstance(site, str) else list(site)
    raise InterventionError(f"an intervention at {site!r} cannot be saved; name its sites, or give a glob over names")


def _numbers(choice: Choice) -> int | list[int] | None:
    numbers = None if choice is None else numbers_of(choice)
    return numbers[0] if numbers is not None and isinstance(choice, int) else numbers
