"""Rotary frequencies for texts longer than those of training.

A model that learned positions up to some length can be taken further by turning its pairs more slowly. Each scaling
says how slowly, for the frequencies base^(-2i/d) of the plain rotation (`plain`, one for each pair).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from math import ceil, floor, log, pi, sqrt
from typing import TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..errors import SpecError
from ..spec import Spec

Frequencies: TypeAlias = Float[Tensor, "*batch half"]


@dataclass(frozen=True)
class RotaryScalingSpec(Spec):
    """attention_factor multiplies the rotated queries and keys, so it enters a score twice."""

    @abstractmethod
    def scaled(self, plain: Float[Tensor, " half"], base: float, length: Int[Tensor, " batch"]) -> Frequencies:
        """Frequencies [half], or [batch half] where they depend on the length of each text."""

    @property
    def factor_of_attention(self) -> float:
        return 1.0

    def check_pairs(self, n_pairs: int) -> None:
        """SpecError where this scaling cannot be for so many pairs."""

    def _require_at_least_one(self, field: str) -> None:
        self.require(getattr(self, field) >= 1, field, "it must be at least 1")


@dataclass(frozen=True)
class LinearScalingSpec(RotaryScalingSpec):
    """Positions divided by a factor (Chen et al. 2023, "position interpolation")."""

    factor: float

    def check(self) -> None:
        self._require_at_least_one("factor")

    def scaled(self, plain: Float[Tensor, " half"], base: float, length: Int[Tensor, " batch"]) -> Frequencies:
        return plain / self.factor


@dataclass(frozen=True)
class DynamicNTKSpec(RotaryScalingSpec):
    """A base that grows with the text once it is longer than n_ctx: the slowest pair is stretched as far as linear
    scaling would, the fastest not at all (bloc97 and emozilla 2023, "dynamic NTK").

    A text's own length counts, so what is computed for its first part changes as it grows past n_ctx.
    """

    factor: float
    n_ctx: int

    def check(self) -> None:
        self._require_at_least_one("factor")
        self.require(self.n_ctx > 0, "n_ctx", "it must be positive")

    def check_pairs(self, n_pairs: int) -> None:
        if n_pairs < 2:
            raise SpecError(f"{n_pairs} pair is to be turned; dynamic NTK stretches the slowest of at least 2")

    def scaled(self, plain: Float[Tensor, " half"], base: float, length: Int[Tensor, " batch"]) -> Frequencies:
        d_rotary = 2 * len(plain)
        stretch = self.factor * length.clamp(min=self.n_ctx).float() / self.n_ctx - (self.factor - 1)
        bases = base * stretch ** (d_rotary / (d_rotary - 2))
        pair = torch.arange(0, d_rotary, 2, device=plain.device, dtype=torch.float32)
        return 1.0 / bases[:, None] ** (pair / d_rotary)


@dataclass(frozen=True)
class YaRNSpec(RotaryScalingSpec):
    """Fast pairs as they are, slow ones interpolated, a ramp between (Peng et al. 2023, section 3.2).

    n_ctx:                length of the texts in training.
    beta_fast, beta_slow: pairs that turn more often than this within n_ctx are kept, less often interpolated.
    attention_factor:     None for the paper's 0.1 ln(factor) + 1 (equation 22).
    truncate:             whether the ramp begins and ends at whole pairs.
    """

    factor: float
    n_ctx: int
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float | None = None
    truncate: bool = True

    def check(self) -> None:
        self._require_at_least_one("factor")
        self.require(self.n_ctx > 0, "n_ctx", "it must be positive")
        self.require(0 < self.beta_slow < self.beta_fast, "beta_slow", "it must lie between 0 and beta_fast")

    @property
    def factor_of_attention(self) -> float:
        return yarn_magnitude(self.factor) if self.attention_factor is None else self.attention_factor

    def scaled(self, plain: Float[Tensor, " half"], base: float, length: Int[Tensor, " batch"]) -> Frequencies:
        low, high = self._ramp(2 * len(plain), base)
        pair = torch.arange(len(plain), device=plain.device, dtype=torch.float32)
        interpolated = ((pair - low) / (high - low)).clamp(0, 1)
        return plain / self.factor * interpolated + plain * (1 - interpolated)

    def _ramp(self, d_rotary: int, base: float) -> tuple[float, float]:
        """The pairs between which interpolation sets in."""

        def pair_that_turns(times: float) -> float:
            return d_rotary * log(self.n_ctx / (times * 2 * pi)) / (2 * log(base))

        low, high = pair_that_turns(self.beta_fast), pair_that_turns(self.beta_slow)
        if self.truncate:
            low, high = float(floor(low)), float(ceil(high))
        low, high = max(low, 0.0), min(high, d_rotary - 1.0)
        return low, high + 0.001 if low == high else high


def yarn_magnitude(factor: float, share: float = 1.0) -> float:
    """0.1 share ln(factor) + 1: by how much attention is sharpened (Peng et al. 2023, equation 22)."""
    return 1.0 if factor <= 1 else 0.1 * share * log(factor) + 1.0


@dataclass(frozen=True)
class LongRoPESpec(RotaryScalingSpec):
    """A divisor found by search for each pair, one list for texts up to n_ctx and one for longer (Ding et al. 2024).

    A text's own length decides, so what is computed for its first part changes when it grows past n_ctx.
    """

    short_factor: tuple[float, ...]
    long_factor: tuple[float, ...]
    n_ctx: int
    attention_factor: float = 1.0

    def check(self) -> None:
        self.require(self.n_ctx > 0, "n_ctx", "it must be positive")
        same = len(self.short_factor) == len(self.long_factor)
        self.require(same, "long_factor", f"it must have as many as short_factor, {len(self.short_factor)}")
        positive = all(factor > 0 for factor in (*self.short_factor, *self.long_factor))
        self.require(positive, "long_factor", "it and short_factor must be positive")

    def check_pairs(self, n_pairs: int) -> None:
        fits = len(self.short_factor) == n_pairs
        self.require(fits, "short_factor", f"it must have one factor for each of the {n_pairs} pairs")

    @property
    def factor_of_attention(self) -> float:
        return self.attention_factor

    def scaled(self, plain: Float[Tensor, " half"], base: float, length: Int[Tensor, " batch"]) -> Frequencies:
        short, long = plain.new_tensor(self.short_factor), plain.new_tensor(self.long_factor)
        return plain / torch.where(length[:, None] > self.n_ctx, long, short)


@dataclass(frozen=True)
class DivisorsSpec(RotaryScalingSpec):
    """A divisor for each pair, whatever it was computed from: so llama.cpp writes Llama 3's scaling out."""

    divisors: tuple[float, ...]

    def check(self) -> None:
        self.require(all(divisor > 0 for divisor in self.divisors), "divisors", "they must be positive")

    def check_pairs(self, n_pairs: int) -> None:
        fits = len(self.divisors) == n_pairs
        self.require(fits, "divisors", f"there must be one for each of the {n_pairs} pairs")

    def scaled(self, plain: Float[Tensor, " half"], base: float, length: Int[Tensor, " batch"]) -> Frequencies:
        return plain / plain.new_tensor(self.divisors)


def longrope_magnitude(factor: float, n_ctx: int) -> float:
    """sqrt(1 + ln(factor) / ln(n_ctx)) (Ding et al. 2024, section 3.3)."""
    return 1.0 if factor <= 1 else sqrt(1 + log(factor) / log(n_ctx))


@dataclass(frozen=True)
class Llama3ScalingSpec(RotaryScalingSpec):
    """Waves longer than n_ctx / low_freq_factor are slowed by a factor, those shorter than n_ctx / high_freq_factor
    are kept, a ramp between (Llama 3.1, Grattafiori et al. 2024)."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    n_ctx: int

    def check(self) -> None:
        self._require_at_least_one("factor")
        self.require(self.n_ctx > 0, "n_ctx", "it must be positive")
        below = 0 < self.low_freq_factor < self.high_freq_factor
        self.require(below, "low_freq_factor", f"it must lie between 0 and high_freq_factor, {self.high_freq_factor}")

    def scaled(self, plain: Float[Tensor, " half"], base: float, length: Int[Tensor, " batch"]) -> Frequencies:
        turns = self.n_ctx * plain / (2 * pi)  # within n_ctx positions
        kept = ((turns - self.low_freq_factor) / (self.high_freq_factor - self.low_freq_factor)).clamp(0, 1)
        return (1 - kept) * plain / self.factor + kept * plain
