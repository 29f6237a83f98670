"""The passes of a generation: the prompt's, then one for each new token, over what memory keeps of those before."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..hooks import BoundHooks, Columns
from ..inputs import Text
from ..model.memory import Growing
from ..model.pass_ import Pass
from ..model.transformer import Transformer
from .recording import StepRecorder


class Passes:
    """One mechanism with the full forward: the same blocks, with a memory that holds earlier keys.

    n_run: how many columns of the text will be run at most; the last new token never is.
    """

    def __init__(
        self,
        model: Transformer,
        text: Text,
        n_run: int,
        hooks: BoundHooks,
        recorder: StepRecorder | None,
        use_kv_cache: bool = True,
    ):
        self.model, self.hooks, self.recorder = model, hooks, recorder
        self.n_prompt, self.n_run, self.n_done = text.tokens.shape[1], n_run, 0
        self.memory = Growing(n_run, self._layers_kept_whole(), _slack(text)) if use_kv_cache else None

    def next_logits(
        self, tokens: Int[Tensor, "batch pos"], positions: Int[Tensor, "batch pos"]
    ) -> Float[Tensor, "batch vocab"]:
        """What follows each row. Runs the columns that were not run before, or without a memory all of them."""
        start = 0 if self.memory is None else self.n_done
        at = Pass(
            positions[:, start:],
            padded=bool((positions < 0).any()),
            memory=self.memory,
            hooks=self.hooks,
            recorder=self.recorder,
            columns=Columns(start, self.n_prompt, self.n_run, generating=True),
        )
        x = self.model.run_blocks(self.model.embed(tokens[:, start:], at), at)
        x = self.model.ln_final(x, at)
        if self.recorder is not None:
            self.recorder.after(at)
        self.n_done = tokens.shape[1]
        last = at.positions.argmax(1)  # a row may be padded on the right
        return self.model.unembedding(x[torch.arange(len(x), device=x.device), last]).float()

    def _layers_kept_whole(self) -> set[int]:
        """Layers in which somebody looks at the pattern, and so wants every key to be there, in the window or not."""
        recorded = [] if self.recorder is None else self.recorder.looked_at
        hooked = [site for site in self.model.sites if site.name in self.hooks and "query" in site.axes]
        return {site.layer for site in (*recorded, *hooked) if site.layer is not None}


def _slack(text: Text) -> int:
    """The most columns of padding that a row has behind its first token."""
    real = text.positions >= 0
    behind_first = real.shape[1] - real.int().argmax(1)
    return int((behind_first - real.sum(1)).max())
