"""The rotation that a config asks for, wherever files keep it.

Since transformers 5 it is `rope_parameters`, perhaps one for each type of layer; before, `rope_theta`, `rope_scaling`
and `partial_rotary_factor` stood beside each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import FamilyError, nearest
from ..model.rotary import RotarySpec
from ..model.rotary_scaling import (
    DivisorsSpec,
    DynamicNTKSpec,
    LinearScalingSpec,
    Llama3ScalingSpec,
    LongRoPESpec,
    RotaryScalingSpec,
    YaRNSpec,
    longrope_magnitude,
    yarn_magnitude,
)
from ._config import Config

LAYER_TYPES = ("full_attention", "sliding_attention")


def rotary(
    config: Config,
    d_head: int,
    n_ctx: int,
    *,
    base: float = 10_000.0,
    partial: float | None = None,
    layer_type: str | None = None,
    kind: type[RotarySpec] = RotarySpec,
    base_key: str = "rope_theta",
    partial_key: str = "partial_rotary_factor",
) -> RotarySpec:
    """The rotation of a family's heads.

    base, partial: the family's own where the file says nothing; partial None for families that turn whole heads.
    layer_type:    for families with a rotation for each type of layer.
    kind:          the family's pairing.
    base_key, partial_key: what older files call them, beside the scaling.
    """
    entry = rope_entry(config, layer_type, base_key, partial_key)
    theta = entry.number("rope_theta", base)
    share = entry.number("partial_rotary_factor", 1.0 if partial is None else partial)
    if partial is None and share != 1:
        raise FamilyError(f"{entry.where} says partial_rotary_factor = {share}; this family turns whole heads")
    if not 0 < share <= 1:
        raise FamilyError(f"{entry.where} says partial_rotary_factor = {share}; a share above 0, up to 1, is wanted")
    scaling = _scaling(entry, n_ctx)
    entry.finish()
    d_rotary = int(d_head * share)
    return kind(theta, None if d_rotary == d_head else d_rotary, scaling)


def rope_entry(
    config: Config,
    layer_type: str | None = None,
    base_key: str = "rope_theta",
    partial_key: str = "partial_rotary_factor",
) -> Config:
    """What a config says of rotation, as one config of its own: rope_type, rope_theta, factor, ..."""
    beside = {"rope_theta": config.take(base_key, None), "partial_rotary_factor": config.take(partial_key, None)}
    said = {"original_max_position_embeddings": config.take("original_max_position_embeddings", None)}
    said |= {key: value for key, value in beside.items() if value is not None}
    for key in ("rope_scaling", "rope_parameters"):
        for name, value in _entry(config, key, layer_type).items():
            name = "rope_type" if name == "type" else name
            if said.get(name) not in (None, value):
                raise FamilyError(
                    f"{config.where} says different things of {name}: {said[name]!r}, and {value!r} in {key}"
                )
            said[name] = value
    new_style = config.take("rope_parameters", None)
    if new_style and said.get("rope_theta") is None:
        raise FamilyError(f"{config.where} says rope_parameters = {new_style}; it must hold the base, rope_theta")
    holder = "rope_parameters" if new_style else "rope_scaling" if config.take("rope_scaling", None) else "its rotation"
    said = {key: value for key, value in said.items() if value is not None}
    return Config(said, f"{config.where}, of {holder},")


def _entry(config: Config, key: str, layer_type: str | None) -> Mapping[str, Any]:
    """The object under a key, or the one in it for a type of layer."""
    entry = config.take(key, {})
    if not isinstance(entry, Mapping):
        raise FamilyError(f"{config.where} says {key} = {entry!r}; an object is wanted")
    if layer_type is None or not entry.keys() & set(LAYER_TYPES):
        return entry
    if unknown := sorted(entry.keys() - set(LAYER_TYPES)):
        raise FamilyError(f"{config.where} says {key} with {unknown[0]!r} beside {' and '.join(LAYER_TYPES)}")
    own = entry.get(layer_type) or {}
    if not isinstance(own, Mapping):
        raise FamilyError(f"{config.where} says {layer_type} = {own!r} in {key}; an object is wanted")
    return own


def _scaling(entry: Config, n_ctx: int) -> RotaryScalingSpec | None:
    rope_type = entry.take("rope_type", "default")
    if rope_type not in _SCALINGS:
        raise FamilyError(
            f"{entry.where} says rope_type = {rope_type!r}, a scaling that is not accounted for; "
            f"{nearest(str(rope_type), _SCALINGS)}"
        )
    return _SCALINGS[rope_type](entry, n_ctx)


def _none(entry: Config, n_ctx: int) -> None:
    # Some files write the length of training out without scaling anything.
    entry.take("original_max_position_embeddings", None)


def _linear(entry: Config, n_ctx: int) -> RotaryScalingSpec:
    entry.take("original_max_position_embeddings", None)
    return LinearScalingSpec(entry.number("factor"))


def _dynamic(entry: Config, n_ctx: int) -> RotaryScalingSpec:
    entry.take("original_max_position_embeddings", None)  # transformers switches at max_position_embeddings
    return DynamicNTKSpec(entry.number("factor"), n_ctx)


def _yarn(entry: Config, n_ctx: int) -> RotaryScalingSpec:
    factor, original = _stretch(entry, n_ctx)
    given = entry.take("attention_factor", None)
    share, all_dims = entry.number("mscale", 0), entry.number("mscale_all_dim", 0)
    ratio = yarn_magnitude(factor, share) / yarn_magnitude(factor, all_dims) if share and all_dims else None
    return YaRNSpec(
        factor=factor,
        n_ctx=original,
        beta_fast=entry.number("beta_fast", 32.0),
        beta_slow=entry.number("beta_slow", 1.0),
        attention_factor=ratio if given is None else entry.number("attention_factor"),
        truncate=entry.flag("truncate", True),
    )


def _stretch(entry: Config, n_ctx: int) -> tuple[float, int]:
    """By how much longer texts are than in training, and how long they were there: one says the other, given n_ctx."""
    original = entry.take("original_max_position_embeddings", None)
    if original is None:
        return entry.number("factor"), n_ctx
    original = entry.integer("original_max_position_embeddings")
    return entry.number("factor", n_ctx / original), original


def _longrope(entry: Config, n_ctx: int) -> RotaryScalingSpec:
    original = entry.integer("original_max_position_embeddings", n_ctx)
    factor = entry.number("factor", n_ctx / original)
    return LongRoPESpec(
        short_factor=entry.numbers("short_factor"),
        long_factor=entry.numbers("long_factor"),
        n_ctx=original,
        attention_factor=entry.number("attention_factor", longrope_magnitude(factor, original)),
    )


def _llama3(entry: Config, n_ctx: int) -> RotaryScalingSpec:
    return Llama3ScalingSpec(
        factor=entry.number("factor"),
        low_freq_factor=entry.number("low_freq_factor"),
        high_freq_factor=entry.number("high_freq_factor"),
        n_ctx=entry.integer("original_max_position_embeddings", n_ctx),
    )


def _divisors(entry: Config, n_ctx: int) -> RotaryScalingSpec:
    entry.take("original_max_position_embeddings", None)
    return DivisorsSpec(entry.numbers("divisors"))


_SCALINGS = {
    "default": _none,
    "linear": _linear,
    "dynamic": _dynamic,
    "yarn": _yarn,
    "longrope": _longrope,
    "su": _longrope,  # what Phi-3's first files called it
    "llama3": _llama3,
    "divisors": _divisors,  # of GGUF files
}
