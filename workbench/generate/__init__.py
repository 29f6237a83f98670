"""Generation: what comes next, chosen from the logits, run, and so on until a row ends.

`passes` gives the logits that follow each row, `sampling` chooses a token, `continuation` holds what a row says,
`stopping` whether that ends it, and `recording` what the passes were like.

Hooks see every pass; a value of a step has one position, and `at.positions` and `at.columns` say which. A row that
has ended goes on as columns without a token, so that nothing of it reaches another row or a cache.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral

import torch
from jaxtyping import Int
from torch import Tensor
from tqdm.auto import tqdm

from ..errors import InputError, KindError
from ..hooks import BoundHooks
from ..inputs import Text
from ..model.transformer import Transformer
from ..tokenizer import Tokenizer
from .continuation import Continuation
from .passes import Passes
from .recording import StepRecorder
from .sampling import Sampling
from .stopping import Stop, StopLike, read_stop

__all__ = ["Generated", "Plan", "Sampling", "Step", "StepRecorder", "Stop", "StopLike", "generate", "read_stop"]


@dataclass(frozen=True)
class Step:
    """What one step made, for whoever watches.

    number: 0 for the first new token.
    tokens: [batch], -1 in rows that had ended before.
    texts:  what became readable by it, a text a row. What is half a letter, or may begin a stop string, comes later.
    """

    number: int
    tokens: Int[Tensor, " batch"]
    texts: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    """What is asked of a generation; see `HookedTransformer.generate`. text: whether texts are to come out."""

    max_new_tokens: int
    sampling: Sampling
    stop: Stop
    use_kv_cache: bool = True
    on_step: Callable[[Step], object] | None = None
    progress: bool = False
    text: bool = False

    @property
    def wants_text(self) -> bool:
        """Whether anybody reads what is said. Otherwise a tokenizer, which may not know every id, is not asked."""
        return self.text or self.on_step is not None or bool(self.stop.strings)

    def __post_init__(self) -> None:
        n_new = self.max_new_tokens
        if isinstance(n_new, bool) or not isinstance(n_new, Integral):
            raise KindError(f"max_new_tokens is {n_new!r}; a whole number is wanted")
        if n_new < 1:
            raise InputError(f"max_new_tokens is {n_new}; at least 1 is wanted")
        if self.on_step is not None and not callable(self.on_step):
            raise KindError(f"on_step is {self.on_step!r}; a function of a Step is wanted")


@dataclass(frozen=True)
class Generated:
    """tokens:    [batch, pos + new], padding after a row's end.
    positions: of the columns that were run, [batch, pos + new - 1]; -1 where a row has no token.
    texts:     what each row says after its prompt, without what ended it.
    """

    tokens: Int[Tensor, "batch total"]
    positions: Int[Tensor, "batch run"]
    texts: list[str]


@torch.no_grad()
def generate(
    model: Transformer,
    text: Text,
    plan: Plan,
    hooks: BoundHooks,
    tokenizer: Tokenizer | None = None,
    recorder: StepRecorder | None = None,
) -> Generated:
    """Continue each row until it meets a stop or has max_new_tokens more."""
    n_run = text.tokens.shape[1] + plan.max_new_tokens - 1
    _refuse_past_context(model, text, plan.max_new_tokens)
    passes = Passes(model, text, n_run, hooks, recorder, plan.use_kv_cache)
    generator = plan.sampling.generator(text.tokens.device)
    filler = _filler(tokenizer, model.spec.vocab_size)
    tokens, positions, first = text.tokens, text.positions, None
    speaker = tokenizer if plan.wants_text else None
    rows = [
        Continuation(ids[position >= 0].tolist(), plan.stop, speaker)
        for ids, position in zip(tokens, positions, strict=True)
    ]
    with tqdm(total=plan.max_new_tokens, unit="token", disable=not plan.progress) as bar:
        for number in range(plan.max_new_tokens):
            logits = passes.next_logits(tokens, positions)
            if first is not None:
                first = _tell(first, plan, bar)
            running = torch.tensor([not row.ended for row in rows], device=tokens.device)
            chosen = plan.sampling.choose(logits, tokens, positions >= 0, running, generator)
            new = torch.where(running, chosen, -1).cpu()
            for row, token in zip(rows, new.tolist(), strict=True):
                if token >= 0:
                    row.add(token)
            tokens = torch.cat([tokens, torch.where(running, chosen, filler)[:, None]], 1)
            positions = torch.cat([positions, torch.where(running, positions.amax(1) + 1, -1)[:, None]], 1)
            last = number + 1 == plan.max_new_tokens or all(row.ended for row in rows)
            step = Step(number, new, tuple(row.unread(last) for row in rows))
            if number == 0 and not last:
                first = step  # told once a step has run: a hook that fits the prompt and no step is found before
            else:
                _tell(step, plan, bar)
            if last:
                break
    return Generated(tokens, positions[:, :-1], [row.text for row in rows])


def _tell(step: Step, plan: Plan, bar: tqdm) -> None:
    bar.update()
    if plan.on_step is not None:
        plan.on_step(step)


def _refuse_past_context(model: Transformer, text: Text, n_new: int) -> None:
    longest = int((text.positions >= 0).sum(1).max())
    if longest + n_new > model.spec.n_ctx:
        raise InputError(
            f"a prompt of {longest} tokens and {n_new} new ones make {longest + n_new}; this model's context is "
            f"{model.spec.n_ctx}"
        )


def _filler(tokenizer: Tokenizer | None, vocab_size: int) -> int:
    """What stands in the tokens after a row's end; a tokenizer may have more than the model knows."""
    usual = () if tokenizer is None else (tokenizer.pad_id, tokenizer.eos_id)
    return next((token for token in usual if token is not None and token < vocab_size), 0)
