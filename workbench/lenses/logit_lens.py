"""The logit lens (nostalgebraist 2020): what the model would say if it stopped here.

Each stream goes through the final norm with its own statistics, then through the unembedding. At the last layer that
is the model's own output.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor
from tqdm.auto import tqdm

from ..errors import InputError, KindError
from ..hooked import HookedTransformer
from ..hooks import HookLike
from ..inputs import Text, TextLike, read_text
from ..keywords import checked_keywords
from ..model.pass_ import Pass
from ..run import run_with_cache, stream_logits
from .lens import Lens
from .readings import Reading, joined, read

Targets: TypeAlias = int | str | Sequence[int | str] | Int[Tensor, "*target"]

LOGITS = 2**22  # of one matrix, a few of which are held at a time; beyond 32 MiB memory is taken anew for each


@checked_keywords
def logit_lens(
    model: HookedTransformer,
    tokens: TextLike,
    top_k: int = 10,
    targets: Targets = (),
    hooks: Iterable[HookLike] = (),
    *,
    attention_mask: Tensor | None = None,
    prepend_bos: bool | None = None,
    progress: bool = True,
) -> Lens:
    """What each place in the stream says comes next: before each block and after the last.

    top_k:    how many of the most probable tokens are kept at each place.
    targets:  tokens to follow at every place: ids, or texts of one token each (MetricError shows the pieces of others).
    hooks:    what is changed in the run; those at the final norm are part of the model's own output, the last row.
    progress: show a bar over places once it has taken a second.

    Padded texts are read at their real tokens; no tensor of layer x pos x vocabulary is made. Any wiring will do: a
    stream that is not a sum of writes (post-norm) is read as it is.
    """
    model = _checked_model(model).with_hooks(hooks)
    top_k = _checked_top_k(top_k, model.spec.vocab_size)
    followed = _ids(model, targets)
    text = read_text(tokens, model.spec, model.tokenizer, model.device, attention_mask, prepend_bos)
    found = _places(model, text, followed, top_k, progress)
    names = _names(model, [*text.tokens.flatten().tolist(), *found.tokens.flatten().tolist(), *followed])
    ids = text.tokens.masked_fill(text.positions < 0, -1)
    return Lens(
        tokens=found.tokens,
        logprobs=found.logprobs,
        labels=(*(f"{layer}_pre" for layer in range(model.spec.n_layers)), "final"),
        str_tokens=[[names[token] for token in row] for row in ids.tolist()],
        texts=[[[[names[token] for token in k] for k in pos] for pos in row] for row in found.tokens.tolist()],
        entropy=found.entropy,
        kl=found.kl,
        next_tokens=_next_tokens(text),
        next_logprobs=found.followed_logprobs[..., 0],
        next_ranks=found.followed_ranks[..., 0],
        target_tokens=tuple(followed),
        target_texts=tuple(names[token] for token in followed),
        target_logprobs=found.followed_logprobs[..., 1:],
        target_ranks=found.followed_ranks[..., 1:],
    )


@torch.no_grad()
def _places(model: HookedTransformer, text: Text, targets: list[int], top_k: int, progress: bool) -> Reading:
    """[batch, layer, pos] of every stream; followed are the next token and then the targets."""
    last, cache = run_with_cache(
        model, text, model._view_hooks, names_filter="resid_pre", stop_at_layer=model.spec.n_layers
    )
    final = model.ln_final(last, Pass(text.positions, padded=text.padded, hooks=model._view_hooks))
    real = text.positions >= 0
    following = _next_tokens(text)[real][:, None]
    followed = torch.cat([following, following.new_tensor(targets, dtype=torch.long).expand(len(following), -1)], 1)
    example, column = real.nonzero(as_tuple=True)
    step, n_rows = max(1, LOGITS // model.spec.vocab_size), model.spec.n_layers + 1
    readings = []
    with tqdm(total=n_rows * len(followed), unit="place", disable=not progress, leave=False, delay=1) as bar:
        for start in range(0, len(followed), step):
            chunk = slice(start, start + step)
            at = example[chunk], column[chunk]
            streams = torch.stack([stream[at] for stream in cache.values()])
            readings.append(joined(_layers(model, streams, final[at], followed[chunk], top_k, bar), 0))
    return Reading(*(_spread(values, real) for values in joined(readings, 1)))


def _layers(
    model: HookedTransformer,
    streams: Float[Tensor, "layer row d_model"],
    final: Float[Tensor, "row d_model"],
    followed: Int[Tensor, "row followed"],
    top_k: int,
    bar: tqdm,
) -> Iterator[Reading]:
    """Of the same tokens in every stream, and in the last one (`final`, normed already): a few layers at a time, since
    a product with the vocabulary costs a few rows nearly as much as many."""
    output = model.unembedding(final)
    reference = output.float().log_softmax(-1)
    for some in streams.split(max(1, LOGITS // output.numel())):
        yield read(stream_logits(model, some), reference, followed, top_k)
        bar.update(some.shape[0] * some.shape[1])
    yield read(output[None], reference, followed, top_k)
    bar.update(len(final))


def _spread(values: Tensor, real: Tensor) -> Tensor:
    """[layer, row, ...] of real tokens as [batch, layer, pos, ...]; NaN or -1 at padding."""
    nothing = torch.nan if values.is_floating_point() else -1
    spread = values.new_full((*real.shape, len(values), *values.shape[2:]), nothing)
    spread[real] = values.transpose(0, 1)
    return spread.transpose(1, 2).contiguous()


def _next_tokens(text: Text) -> Int[Tensor, "batch pos"]:
    """The token that each goes before, padding between them passed over; -1 where there is none."""
    real = text.positions >= 0
    ids, (example, _) = text.tokens[real], real.nonzero(as_tuple=True)
    following = torch.full_like(ids, -1)
    following[:-1] = ids[1:].where(example[1:] == example[:-1], -1)
    return torch.full_like(text.tokens, -1).masked_scatter(real, following)


def _names(model: HookedTransformer, ids: list[int]) -> dict[int, str]:
    """What tokens are called, each looked up once."""
    known = model.tokenizer.knows if model.tokenizer else lambda token: True
    return {i: model.token_texts([i])[0] if i == -1 or known(i) else f"<{i}>" for i in {*ids, -1}}


def _ids(model: HookedTransformer, targets: Targets) -> list[int]:
    """The tokens to follow, each once."""
    if isinstance(targets, Tensor):
        targets = targets.tolist()
    given = [targets] if isinstance(targets, (int, str)) else targets
    if not isinstance(given, Sequence):
        raise KindError(f"targets are {targets!r}; a list of ids and texts is wanted")
    ids = [_id(model, target) for target in given]
    if twice := [target for target, token in zip(given, ids, strict=True) if ids.count(token) > 1]:
        raise InputError(f"targets name {twice[0]!r} twice")
    return ids


def _id(model: HookedTransformer, target: object) -> int:
    token = model.to_single_token(target) if isinstance(target, str) else target
    if not isinstance(token, int) or isinstance(token, bool):
        raise KindError(f"a target is {target!r}; the id of a token or its text is wanted")
    if not 0 <= token < model.spec.vocab_size:
        raise InputError(f"the target {target!r} is token {token}; the vocabulary is 0 to {model.spec.vocab_size - 1}")
    return token


def _checked_model(model: object) -> HookedTransformer:
    if not isinstance(model, HookedTransformer):
        raise KindError(f"a lens is of a model that wb.load or HookedTransformer gives, not {type(model).__name__}")
    return model


def _checked_top_k(top_k: object, vocab_size: int) -> int:
    if not isinstance(top_k, int) or isinstance(top_k, bool):
        raise KindError(f"top_k is {top_k!r}; a whole number is wanted")
    if not 1 <= top_k <= vocab_size:
        raise InputError(f"top_k is {top_k}; a number from 1 to {vocab_size} is wanted")
    return top_k
