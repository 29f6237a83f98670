"""HookedTransformer: the model with the public methods."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from . import run
from .cache import ActivationCache
from .errors import InputError, KindError, TooLargeError
from .formats.checkpoint import save_checkpoint
from .generate import Generated, Plan, Sampling, Step, StepRecorder, StopLike, generate, read_stop
from .hooks import BoundHooks, HookLike, bind, merge
from .inputs import Text, TextLike, read_stream, read_text
from .keywords import checked_keywords
from .metrics import lm_cross_entropy_loss
from .model.init import initial_tensors, place_tensors
from .recorder import PosSlice
from .sizes import free_memory, size_text, usable_device
from .spec import ModelSpec
from .tokenizer import Tokenizer
from .weights import Weights


class HookedTransformer(Weights):
    """A transformer whose every read and write of the stream can be watched or changed.

    Built from a spec it has random weights that train. Loaded (`wb.load`) it has published ones, which are frozen:
    a run then keeps no graph; `requires_grad_(True)` makes them train.

    tokens, wherever asked for: a text, a list of texts (padded left), or an int tensor [pos] or [batch, pos].
    hooks: a sequence of (site, function) pairs or interventions; see `workbench.sites` and `workbench.hooks`.
    """

    def __init__(
        self,
        spec: ModelSpec,
        seed: int = 0,
        *,
        tokenizer: Tokenizer | None = None,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
        tensors: Mapping[str, Tensor] | None = None,
    ):
        """tensors: parameters by name, taken as they lie and frozen, in place of random ones."""
        if not isinstance(spec, ModelSpec):
            raise KindError(f"a ModelSpec is wanted, not {type(spec).__name__}; wb.load(...) takes names and paths")
        with torch.device("meta"):
            super().__init__(spec)
        if tensors is None:
            size = spec.n_params * dtype.itemsize
            if size > (free := free_memory(torch.device(device))):
                raise TooLargeError(f"this model takes {size_text(size)} and {size_text(free)} are free")
        frozen = tensors is not None
        placed = tensors if tensors is not None else initial_tensors(self, seed, dtype, torch.device(device))
        place_tensors(self, placed, trainable=not frozen)
        self.tokenizer = tokenizer
        self._view_hooks: BoundHooks = {}
        self.train(not frozen)

    @property
    def device(self) -> torch.device:
        return self.embedding.weight.device

    @property
    def dtype(self) -> torch.dtype:
        return self.embedding.weight.dtype

    # Runs

    @checked_keywords
    def forward(
        self,
        tokens: TextLike,
        hooks: Iterable[HookLike] = (),
        attention_mask: Tensor | None = None,
        prepend_bos: bool | None = None,
    ) -> tuple[Float[Tensor, "batch pos vocab"], run.AttentionWeights]:
        """Logits, and the attention of every layer: attention[l] is [batch, head, query, key]."""
        text = self._read(tokens, attention_mask, prepend_bos)
        return run.forward(self, text, self._bound(hooks))

    @checked_keywords
    def run_with_hooks(
        self,
        tokens: TextLike,
        fwd_hooks: Iterable[HookLike] = (),
        attention_mask: Tensor | None = None,
        prepend_bos: bool | None = None,
    ) -> Float[Tensor, "batch pos vocab"]:
        """Logits of a run with hooks."""
        return self(tokens, fwd_hooks, attention_mask, prepend_bos)[0]

    @checked_keywords
    def run_with_cache(
        self,
        tokens: TextLike,
        names_filter: run.NamesFilter = None,
        hooks: Iterable[HookLike] = (),
        stop_at_layer: int | None = None,
        pos_slice: PosSlice = None,
        device: torch.device | str | None = None,
        grad: bool = False,
        attention_mask: Tensor | None = None,
        prepend_bos: bool | None = None,
    ) -> tuple[Tensor, ActivationCache]:
        """Logits, and the values at every site or at those that `names_filter` names, after hooks.

        names_filter:  None, a name, a short form, a glob, a callable over names, or a list of which each must match.
        stop_at_layer: return the stream entering this layer in place of logits; later blocks do not run.
        pos_slice:     an int, slice or list of positions to keep (of queries, for scores and pattern).
        device:        where to keep the values.
        grad:          make the embedding a leaf and keep the graph, for `torch.autograd.grad(metric, cache[name])`.
                       Scores and patterns that are recorded are then really computed on the way.

        A cache that would not fit into free memory is a TooLargeError before anything runs.
        """
        text = self._read(tokens, attention_mask, prepend_bos)
        return run.run_with_cache(
            self, text, self._view_hooks, hooks, names_filter, stop_at_layer, pos_slice, device, grad
        )

    @checked_keywords
    def forward_hidden(
        self,
        tokens: TextLike,
        final_norm: bool = True,
        hooks: Iterable[HookLike] = (),
        attention_mask: Tensor | None = None,
        prepend_bos: bool | None = None,
    ) -> Float[Tensor, "batch pos d_model"]:
        """The last stream, with or without the final norm, and no logits: what a value, reward or classification head
        reads, so that it is trained on the same backbone."""
        text = self._read(tokens, attention_mask, prepend_bos)
        span = run.Span(stop=None if final_norm else self.spec.n_layers)
        bound = merge(self._view_hooks, run.bind_within(hooks, self.sites, span))
        return run.forward_hidden(self, text, bound, final_norm)

    @checked_keywords
    def loss(
        self,
        tokens: TextLike,
        per_token: bool = False,
        hooks: Iterable[HookLike] = (),
        attention_mask: Tensor | None = None,
        prepend_bos: bool | None = None,
    ) -> Float[Tensor, "..."]:
        """The language-model loss of a text, in nats: see `wb.lm_cross_entropy_loss`."""
        text = self._read(tokens, attention_mask, prepend_bos)
        logits, _ = run.forward(self, text, self._bound(hooks))
        return lm_cross_entropy_loss(logits, text.tokens, text.positions >= 0, per_token)

    @checked_keywords
    def resume(
        self,
        resid: Float[Tensor, "batch pos d_model"],
        start_at_layer: int,
        hooks: Iterable[HookLike] = (),
        attention_mask: Tensor | None = None,
    ) -> tuple[Float[Tensor, "batch pos vocab"], run.AttentionWeights]:
        """Logits and attention from the stream that enters a layer; earlier blocks do not run, and asking for their
        attention raises. start_at_layer = n_layers is the last stream: only the final norm and unembedding run."""
        start = run.checked_layer(self, start_at_layer, "start_at_layer")
        rows = read_stream(resid, self.spec, self.dtype, attention_mask)
        bound = run.bind_within(hooks, self.sites, run.Span(start=start, resumed=True))
        return run.resume(self, resid, start, merge(self._view_hooks, bound), rows)

    @checked_keywords
    def with_hooks(self, hooks: Iterable[HookLike]) -> HookedTransformer:
        """A view of this model in which these hooks are always there, before those of a run. It shares the weights
        and is accepted wherever a model is; this model's runs stay as they were.

        What moves or converts weights (`to`, `requires_grad_`) does so for both. A run that starts late or stops
        early calls those of the hooks that it passes.
        """
        view = copy.copy(self)
        view._view_hooks = self._bound(hooks)
        return view

    def _bound(self, hooks: Iterable[HookLike]) -> BoundHooks:
        return merge(self._view_hooks, bind(hooks, self.sites))

    def _read(self, tokens: TextLike, attention_mask: Tensor | None, prepend_bos: bool | None) -> Text:
        return read_text(tokens, self.spec, self.tokenizer, self.device, attention_mask, prepend_bos)

    # Generation

    @checked_keywords
    def generate(
        self,
        tokens: TextLike,
        max_new_tokens: int = 20,
        temperature: float = 0.0,
        top_k: int | None = None,
        top_p: float | None = None,
        hooks: Iterable[HookLike] = (),
        seed: int | None = None,
        stop: StopLike = None,
        use_kv_cache: bool = True,
        repetition_penalty: float = 1.0,
        attention_mask: Tensor | None = None,
        prepend_bos: bool | None = None,
        on_step: Callable[[Step], object] | None = None,
        progress: bool = False,
    ) -> str | list[str] | Int[Tensor, "batch total"]:
        """What follows: a text for a text, a list for a list, [batch, pos + new] for tokens; the prompt included.

        temperature:  0 takes the most probable token; otherwise logits are divided by it and a token is drawn.
        top_k, top_p, repetition_penalty, seed: see `workbench.generate.Sampling`.
        stop:         texts or ids of tokens at which a row ends, beside the tokenizer's end of text; [] for nothing at
                      all. What ended a row is left out of its text and stands in its tokens, filled up with padding.
        use_kv_cache: keep keys and values (or latents) of what was run. False runs the whole text at each step; the
                      tokens are the same, unless a rotation depends on the length of the text.
        hooks:        are called in every pass, a step's value having one position; `wb.on_prompt` and
                      `wb.on_generated` choose. Positions of interventions are columns of the whole text, negative
                      ones counted from the end of the prompt.
        on_step:      is called with a `Step` for each new token: its ids, and the texts that became readable.

        InputError, before any token is made, where the text would outgrow the model's context.
        """
        sampling = Sampling(temperature, top_k, top_p, repetition_penalty, seed)
        plan = self._plan(tokens, max_new_tokens, sampling, stop, on_step, progress, use_kv_cache)
        text = self._read(tokens, attention_mask, prepend_bos)
        return _as_given(tokens, generate(self, text, plan, self._bound(hooks), self.tokenizer))

    @checked_keywords
    def generate_with_cache(
        self,
        tokens: TextLike,
        max_new_tokens: int = 20,
        *,
        names_filter: run.NamesFilter = None,
        temperature: float = 0.0,
        top_k: int | None = None,
        top_p: float | None = None,
        hooks: Iterable[HookLike] = (),
        seed: int | None = None,
        stop: StopLike = None,
        repetition_penalty: float = 1.0,
        device: torch.device | str | None = None,
        attention_mask: Tensor | None = None,
        prepend_bos: bool | None = None,
        on_step: Callable[[Step], object] | None = None,
        progress: bool = False,
    ) -> tuple[str | list[str] | Int[Tensor, "batch total"], ActivationCache]:
        """What `generate` gives, and the values at every site (or those of `names_filter`) of the passes that made it:
        [batch, pos + new - 1 ...], since the last token is never run. No second forward is made for it, and it is what
        `run_with_cache` records of the same text. Columns after a row's end have position -1. The other arguments are
        those of `generate`."""
        sampling = Sampling(temperature, top_k, top_p, repetition_penalty, seed)
        plan = self._plan(tokens, max_new_tokens, sampling, stop, on_step, progress)
        text = self._read(tokens, attention_mask, prepend_bos)
        wanted = run.select(names_filter, self.sites, run.Span())
        recorder = StepRecorder(wanted, self.device if device is None else usable_device(device))
        recorder.refuse_too_large(text, max_new_tokens, self.dtype)
        made = generate(self, text, plan, self._bound(hooks), self.tokenizer, recorder)
        return _as_given(tokens, made), recorder.cache(self, made.positions)

    def _plan(
        self,
        tokens: TextLike,
        max_new_tokens: int,
        sampling: Sampling,
        stop: StopLike,
        on_step: Callable[[Step], object] | None,
        progress: bool,
        use_kv_cache: bool = True,
    ) -> Plan:
        said = read_stop(stop, self.tokenizer, self.spec.vocab_size)
        wants_text = not isinstance(tokens, Tensor)
        return Plan(max_new_tokens, sampling, said, use_kv_cache, on_step, progress, text=wants_text)

    # Text

    @checked_keywords
    def to_tokens(self, text: TextLike, prepend_bos: bool | None = None) -> Int[Tensor, "batch pos"]:
        """Token ids [batch, pos] of a text or a list of texts; prepend_bos=None follows the tokenizer's own rule.

        Texts of unequal length are padded left, and these ids alone do not say where: give a run the texts
        themselves, or the mask of `to_tokens_and_mask` with them.
        """
        return self._read(text, None, prepend_bos).tokens

    @checked_keywords
    def to_tokens_and_mask(
        self, text: TextLike, prepend_bos: bool | None = None
    ) -> tuple[Int[Tensor, "batch pos"], Bool[Tensor, "batch pos"]]:
        """Token ids, and True where there is a token: what a run takes as tokens and attention_mask."""
        read = self._read(text, None, prepend_bos)
        return read.tokens, read.positions >= 0

    @checked_keywords
    def to_str_tokens(self, tokens: TextLike, prepend_bos: bool | None = None) -> list[str]:
        """Each token of one text as its own text; its id where the model has no tokenizer."""
        ids = self.to_tokens(tokens, prepend_bos)
        if len(ids) != 1:
            raise InputError(f"to_str_tokens takes one text; {len(ids)} came")
        return self.token_texts(ids[0].tolist())

    def token_texts(self, ids: Iterable[int]) -> list[str]:
        """Each id as its own text, or as a number where the model has no tokenizer; "" for -1, no token."""
        name = str if self.tokenizer is None else self.tokenizer.piece
        return ["" if token == -1 else name(token) for token in ids]

    def to_string(self, tokens: Int[Tensor, "*batch pos"] | Sequence[int]) -> str | list[str]:
        """The text of ids [pos]; a list of texts for [batch, pos]."""
        ids = torch.as_tensor(tokens)
        if ids.ndim > 1:
            return [self._tokenizer.decode(row.tolist()) for row in ids]
        return self._tokenizer.decode(ids.reshape(-1).tolist())

    def to_single_token(self, text: str) -> int:
        """The id of a text that is one token; MetricError names the pieces when it is not."""
        return self._tokenizer.single(text)

    @property
    def _tokenizer(self) -> Tokenizer:
        if self.tokenizer is None:
            raise InputError("this model has no tokenizer; it works with token ids")
        return self.tokenizer

    # Files

    def save(self, folder: str | Path) -> None:
        """Spec, weights and tokenizer into a folder that `wb.load` takes; whole or not at all."""
        if self._view_hooks:
            raise InputError("this is a view with hooks, which no checkpoint can hold; save the model it is a view of")
        save_checkpoint(self, self.tokenizer, Path(folder))


def _as_given(given: TextLike, made: Generated) -> str | list[str] | Int[Tensor, "batch total"]:
    """Text for text, tokens for tokens."""
    if isinstance(given, Tensor):
        return made.tokens
    if isinstance(given, str):
        return given + made.texts[0]
    return [prompt + said for prompt, said in zip(given, made.texts, strict=True)]
