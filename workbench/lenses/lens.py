"""What a lens shows: for each place in the stream, what the model would say if it stopped there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jaxtyping import Bool, Float, Int
from torch import Tensor

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go


@dataclass(frozen=True, repr=False)
class Lens:
    """The next token as each place in the stream has it. Log-probabilities are natural and float32, entropy and KL in
    nats, ranks count the tokens with a larger logit (0: the top one, as in `wb.rank`). n_layers + 1 rows along `layer`:
    the stream before each block, then the last, which is the model's own output.

    tokens, logprobs: [batch, layer, pos, k] the most probable tokens, best first.
    labels:     what the rows are called.
    str_tokens: for each example, its tokens as texts.
    texts:      for each example, row and position, the k tokens as texts.
    entropy:    [batch, layer, pos] of the whole distribution.
    kl:         [batch, layer, pos] KL(final || row): how far the place is from what the model says in the end, which is
                the reference; 0 in the last row.
    next_tokens: [batch, pos] the token that the text goes on with; -1 at its end.
    next_logprobs, next_ranks: [batch, layer, pos] of that token.
    target_tokens, target_texts: tokens that were asked for, followed at every place.
    target_logprobs, target_ranks: [batch, layer, pos, target] of these.

    Where there is no token (padding, or no next one) ids and ranks are -1, numbers NaN and texts empty. A token is its
    number where the model has no tokenizer, and <number> where the model has more tokens than the tokenizer.
    """

    tokens: Int[Tensor, "batch layer pos k"]
    logprobs: Float[Tensor, "batch layer pos k"]
    labels: tuple[str, ...]
    str_tokens: list[list[str]]
    texts: list[list[list[list[str]]]]
    entropy: Float[Tensor, "batch layer pos"]
    kl: Float[Tensor, "batch layer pos"]
    next_tokens: Int[Tensor, "batch pos"]
    next_logprobs: Float[Tensor, "batch layer pos"]
    next_ranks: Int[Tensor, "batch layer pos"]
    target_tokens: tuple[int, ...]
    target_texts: tuple[str, ...]
    target_logprobs: Float[Tensor, "batch layer pos target"]
    target_ranks: Int[Tensor, "batch layer pos target"]

    @property
    def right(self) -> Bool[Tensor, "batch layer pos"]:
        """Whether the top token is the one that the text goes on with."""
        follows = self.next_tokens[:, None]
        return (self.tokens[..., 0] == follows) & (follows >= 0)

    def to_dataframe(self) -> pd.DataFrame:
        """A row per example, layer and position with a token: the top token with its log-probability, entropy and KL,
        the next token's log-probability and rank, and the same of each target."""
        import pandas as pd  # slow to import, and few programs ask for a table

        real = self.tokens[..., 0] >= 0
        places = real.nonzero().tolist()
        words = {
            "example": [example for example, _, _ in places],
            "layer": [self.labels[row] for _, row, _ in places],
            "pos": [pos for _, _, pos in places],
            "token": [self.str_tokens[example][pos] for example, _, pos in places],
            "top": [self.texts[example][row][pos][0] for example, row, pos in places],
        }
        numbers = {
            "logprob": self.logprobs[..., 0],
            "entropy": self.entropy,
            "kl": self.kl,
            "next_logprob": self.next_logprobs,
            "next_rank": self.next_ranks,
        }
        for at, target in enumerate(self.target_texts):
            numbers[f"logprob of {target}"] = self.target_logprobs[..., at]
            numbers[f"rank of {target}"] = self.target_ranks[..., at]
        return pd.DataFrame(words | {name: values[real].cpu().numpy() for name, values in numbers.items()})

    def __repr__(self) -> str:
        batch, rows, pos, k = self.tokens.shape
        return f"Lens of {batch} texts: {rows} layers x {pos} positions, {k} tokens each"

    def figure(self, example: int = 0, show: str = "prob", target: int = 0) -> go.Figure:
        """The top token at each layer and position, coloured by what `show` names: see `wb.figures.lens`."""
        from .. import figures

        return figures.lens(self, example, show=show, target=target)
