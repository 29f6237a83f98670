"""Which token comes next: from logits to one id a row.

logits -> repetition penalty -> temperature -> the top k -> the top p -> a draw

At temperature 0, the limit, the most probable token is taken and nothing is drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, isfinite
from numbers import Integral, Real
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..errors import InputError, KindError

Logits = Float[Tensor, "batch vocab"]


@dataclass(frozen=True)
class Sampling:
    """temperature:        what logits are divided by; 0 for the most probable token.
    top_k:              only the k most probable tokens; None for all.
    top_p:              only the fewest most probable tokens that together have this probability (Holtzman et al. 2020,
                        section 3.1, "nucleus"); None for all.
    repetition_penalty: logits of tokens that the row holds already are divided by it when positive and multiplied
                        when negative (Keskar et al. 2019, section 4.1); 1 for none.
    seed:               of the draws; None draws anew each time.
    """

    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None
    repetition_penalty: float = 1.0
    seed: int | None = None

    def __post_init__(self) -> None:
        _require(self.temperature, "temperature", Real, lambda t: t >= 0, "a number from 0 is wanted")
        _require(
            self.repetition_penalty, "repetition_penalty", Real, lambda p: 0 < p < inf, "a positive number is wanted"
        )
        if self.top_k is not None:
            _require(self.top_k, "top_k", Integral, lambda k: k >= 1, "a whole number from 1 is wanted")
        if self.top_p is not None:
            _require(self.top_p, "top_p", Real, lambda p: 0 < p <= 1, "a share above 0 and up to 1 is wanted")
        for name in ("top_k", "top_p"):
            if self.temperature == 0 and getattr(self, name) is not None:
                raise InputError(
                    f"{name} chooses what is drawn from and temperature 0 draws nothing; temperature=1.0 does"
                )
        if self.seed is not None:
            _require(self.seed, "seed", Integral, lambda s: 0 <= s < 2**63, "a whole number from 0 is wanted")

    def generator(self, device: torch.device) -> torch.Generator | None:
        """The source of one generation's draws; None for torch's own."""
        return None if self.seed is None else torch.Generator(device).manual_seed(int(self.seed))

    def choose(
        self,
        logits: Logits,
        tokens: Int[Tensor, "batch pos"],
        real: Bool[Tensor, "batch pos"],
        running: Bool[Tensor, " batch"],
        generator: torch.Generator | None,
    ) -> Int[Tensor, " batch"]:
        """The next token of each row that is `running`, whose tokens so far these are, where `real`; any token of other
        rows. InputError for logits that are NaN, or that leave no token a chance."""
        logits = logits.where(running[:, None], 0.0)  # a row that has ended says nothing, not even NaN
        if self.repetition_penalty != 1:
            logits = penalised(logits, tokens, real, self.repetition_penalty)
        best, most_probable = logits.max(-1)
        if not bool(best.isfinite().all()):
            raise InputError("the next token's logits are NaN or infinite; a hook may have made them so")
        if self.temperature == 0:
            return most_probable
        # The largest is 0, so that no temperature overflows, not even the least that float32 has.
        logits = (logits - best[:, None]) / max(self.temperature, torch.finfo(logits.dtype).tiny)
        if self.top_k is not None:
            logits = within_top_k(logits, self.top_k)
        if self.top_p is not None:
            logits = within_top_p(logits, self.top_p)
        return torch.multinomial(logits.softmax(-1), 1, generator=generator)[:, 0]


def penalised(
    logits: Logits, tokens: Int[Tensor, "batch pos"], real: Bool[Tensor, "batch pos"], penalty: float
) -> Logits:
    """Logits in which tokens that stand in the row already are less probable."""
    counts = torch.zeros_like(logits, dtype=torch.long).scatter_add(1, tokens, real.long())
    return torch.where(counts > 0, torch.where(logits > 0, logits / penalty, logits * penalty), logits)


def within_top_k(logits: Logits, k: int) -> Logits:
    """-inf outside the k largest; tokens that tie with the k-th stay."""
    least = logits.topk(min(k, logits.shape[-1])).values[:, -1:]
    return logits.masked_fill(logits < least, -inf)


def within_top_p(logits: Logits, p: float) -> Logits:
    """-inf outside the fewest most probable tokens whose probability reaches p."""
    ranked, order = logits.sort(dim=-1, descending=True)
    probability = ranked.softmax(-1)
    before = probability.cumsum(-1) - probability  # of all tokens that rank higher
    return torch.empty_like(logits).scatter(1, order, ranked.masked_fill(before >= p, -inf))


def _require(value: Any, name: str, kind: type, holds: Callable[[Any], bool], wanted: str) -> None:
    if isinstance(value, bool) or not isinstance(value, kind):
        raise KindError(f"{name} is {value!r}; {wanted}")
    if not isfinite(value) or not holds(value):  # type: ignore[arg-type]
        raise InputError(f"{name} is {value!r}; {wanted}")
