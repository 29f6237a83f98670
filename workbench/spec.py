"""What a model is, as plain frozen data: numbers and which component stands where.

A `ModelSpec` is an embedding, perhaps position vectors, a tuple of layers, a final norm and an unembedding.
Each of these is a `Spec` of its own, defined beside the module it builds in `workbench.model`; this file knows
none of them. A pattern of layers (sliding and global, dense and sparse) is simply a tuple of different specs.

Specs save as JSON, `{"kind": "attention.AttentionSpec", "n_heads": 8, ...}`, and are read back only from
`workbench.model`, so a file can never name code of its own.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from itertools import groupby
from typing import TYPE_CHECKING, Any, ClassVar, Self, get_args, get_origin, get_type_hints

import torch
from torch import nn

from .errors import SpecError, nearest
from .presets import read_preset
from .sites import Place, Site


@dataclass(frozen=True)
class Spec(ABC):
    """Base of every specification. A subclass lists numbers and parts, and checks them in `check`."""

    def __post_init__(self) -> None:
        _check_types(self)
        self.check()

    def check(self) -> None:
        """Raise SpecError where the numbers contradict each other."""

    def require(self, holds: bool, field: str, rule: str) -> None:
        if not holds:
            raise SpecError(f"{type(self).__name__}.{field} is {getattr(self, field)!r}; {rule}")

    def to_dict(self) -> dict[str, Any]:
        kind = f"{type(self).__module__.rpartition('.')[2]}.{type(self).__name__}"
        return {"kind": kind} | {f.name: _plain(getattr(self, f.name)) for f in dataclasses.fields(self)}


class Component(nn.Module):
    """A part of a model as built: a module that knows its sites.

    sites:     in the order in which they fire.
    starts_at: parameters of its own that start at a constant before training; the others are drawn.
    """

    sites: Sequence[Site] = ()
    starts_at: ClassVar[Mapping[str, float]] = {"bias": 0.0}

    if TYPE_CHECKING:  # torch types every attribute of a module as `Tensor | Module`

        def __getattr__(self, name: str) -> Any: ...


@dataclass(frozen=True)
class ComponentSpec(Spec):
    """A part of a model: an embedding, a norm, an attention, a feed-forward, an unembedding."""

    @abstractmethod
    def build(self, d_model: int, place: Place) -> Component:
        """The module, with the sites it has at this place. Under `torch.device("meta")` it allocates nothing."""

    def n_idle_params(self, d_model: int) -> int:
        """How many of its parameters one token's pass does not use: experts that are not chosen."""
        return 0

    @property
    def n_kept(self) -> int:
        """How many numbers a memory keeps of each token: keys and values, or what they are made of."""
        return 0

    @property
    def n_mixed(self) -> int:
        """Multiply-adds for each key that a query sees: its scores, and the mixing of values, over all heads."""
        return 0

    @property
    def reach(self) -> int | None:
        """How many positions back a query sees, itself included; None for all."""
        return None

    @property
    def label(self) -> str:
        """What a table calls it."""
        return type(self).__name__.removesuffix("Spec")


@dataclass(frozen=True)
class LayerSpec(Spec):
    """One block: a wiring (the subclass) and the components that it wires."""

    attn: ComponentSpec | None
    mlp: ComponentSpec | None

    @abstractmethod
    def build(self, d_model: int, place: Place) -> Component:
        """The block that wires this layer's components."""


@dataclass(frozen=True)
class ModelSpec(Spec):
    """A whole decoder-only transformer.

    n_ctx is the longest text the model takes, in tokens. It allocates nothing: masks and rotary tables are
    made for the text at hand.
    """

    d_model: int
    n_ctx: int
    embed: ComponentSpec
    pos_embed: ComponentSpec | None
    layers: tuple[LayerSpec, ...]
    ln_final: ComponentSpec | None
    unembed: ComponentSpec

    def check(self) -> None:
        self.require(self.d_model > 0, "d_model", "it must be positive")
        self.require(self.n_ctx > 0, "n_ctx", "it must be positive")
        if not 0 < len(self.layers) <= 10_000:
            raise SpecError(f"{len(self.layers)} layers came; a model has 1 to 10000")

    @property
    def n_layers(self) -> int:
        return len(self.layers)

    @property
    def vocab_size(self) -> int:
        return self._number("vocab_size", [self.embed])

    @property
    def n_heads(self) -> int:
        return self._number("n_heads", (layer.attn for layer in self.layers))

    @property
    def n_kv_heads(self) -> int:
        return self._number("n_kv_heads", (layer.attn for layer in self.layers))

    @property
    def d_head(self) -> int:
        return self._number("d_head", (layer.attn for layer in self.layers))

    @property
    def d_mlp(self) -> int:
        return self._number("d_mlp", (layer.mlp for layer in self.layers))

    def _number(self, field: str, parts: Iterable[Spec | None]) -> int:
        """The one value that every layer agrees on."""
        values = {getattr(part, field) for part in parts if hasattr(part, field)}
        if len(values) != 1:
            said = f"the layers differ ({sorted(values)})" if values else "no layer has one"
            raise SpecError(f"this model has no single {field}: {said}; ask the layer's own spec")
        return values.pop()

    @cached_property
    def n_params(self) -> int:
        """Trainable numbers, a tied unembedding counted once."""
        around = (self.embed, self.pos_embed, self.ln_final, self.unembed)
        kinds = Counter(self.layers)  # a pattern of layers repeats, and each kind is counted once
        return sum(self._size(part) for part in around) + sum(n * self._size(layer) for layer, n in kinds.items())

    @cached_property
    def n_active_params(self) -> int:
        """Those that one token's forward pass uses: all, unless a component says which of its own lie idle."""
        parts = (part for layer in self.layers for part in (layer.attn, layer.mlp) if part is not None)
        kinds = Counter(parts)
        return self.n_params - sum(n * part.n_idle_params(self.d_model) for part, n in kinds.items())

    def _size(self, part: ComponentSpec | LayerSpec | None) -> int:
        with torch.device("meta"):
            return 0 if part is None else sum(p.numel() for p in part.build(self.d_model, Place()).parameters())

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; equal layers in a row are written once, with how often they repeat."""
        runs = [{"repeat": len(list(run)), **layer.to_dict()} for layer, run in groupby(self.layers)]
        return super().to_dict() | {"layers": runs}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        spec = _from_plain(data)
        if not isinstance(spec, cls):
            raise SpecError(f"a {cls.__name__} was wanted and {type(spec).__name__} came")
        return spec

    @classmethod
    def preset(cls, name: str) -> Self:
        """A named architecture, e.g. `ModelSpec.preset("kamui-small")`; the numbers lie in workbench/presets."""
        return cls.from_dict(read_preset(name))


def _plain(value: Any) -> Any:
    if isinstance(value, Spec):
        return value.to_dict()
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _from_plain(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(copy for item in value for copy in _repeated(item))
    if not isinstance(value, dict):
        return value
    fields = {key: _from_plain(part) for key, part in value.items() if key != "kind"}
    cls = _spec_class(value.get("kind"))
    known = {field.name for field in dataclasses.fields(cls)}
    if unknown := sorted(fields.keys() - known):
        raise SpecError(f"{cls.__name__} has no field {unknown[0]!r}; {nearest(unknown[0], known)}")
    if missing := [f.name for f in dataclasses.fields(cls) if f.name not in fields and _has_no_default(f)]:
        raise SpecError(f"{cls.__name__} lacks its field {missing[0]!r}")
    return cls(**fields)


def _repeated(item: Any) -> list[Any]:
    if not isinstance(item, dict):
        return [_from_plain(item)]
    repeat = item.get("repeat", 1)
    if not isinstance(repeat, int) or isinstance(repeat, bool) or not 1 <= repeat <= 10_000:
        raise SpecError(f"a layer's repeat is {repeat!r}; a number from 1 to 10000 is wanted")
    return [_from_plain({key: part for key, part in item.items() if key != "repeat"})] * repeat


def _has_no_default(field: dataclasses.Field) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _spec_class(kind: Any) -> type[Spec]:
    """The class behind "<module>.<Class>", found in `workbench.model` (or here) and nowhere else."""
    module_name, _, class_name = kind.partition(".") if isinstance(kind, str) else ("", "", "")
    if kind == "spec.ModelSpec":
        return ModelSpec
    if module_name.isidentifier() and class_name.isidentifier():
        try:
            found = getattr(import_module(f"workbench.model.{module_name}"), class_name, None)
        except ModuleNotFoundError:
            found = None
        if isinstance(found, type) and issubclass(found, Spec) and found.__module__.startswith("workbench.model."):
            return found
    raise SpecError(f"a specification's kind is {kind!r}; '<file>.<Class>' of a spec in workbench.model is wanted")


def _check_types(spec: Spec) -> None:
    hints = get_type_hints(type(spec))
    for field in dataclasses.fields(spec):
        value, hint = getattr(spec, field.name), hints[field.name]
        if not _fits(value, hint):
            wanted = getattr(hint, "__name__", None) or str(hint)
            raise SpecError(f"{type(spec).__name__}.{field.name} is {value!r}; {wanted} is wanted")


def _fits(value: Any, hint: Any) -> bool:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is tuple:
        return isinstance(value, tuple) and all(_fits(item, arguments[0]) for item in value)
    if arguments:  # a union such as `int | None`
        return any(_fits(value, option) for option in arguments)
    if hint in (int, float):
        return isinstance(value, (int, float) if hint is float else int) and not isinstance(value, bool)
    return isinstance(value, hint)
