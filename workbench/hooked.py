"""HookedTransformer: the model with the public methods, a line each, and `load`, which finds the right reader."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from . import run
from .cache import ActivationCache
from .errors import FetchError, InputError, KindError, LoadError, MissingError, SpecError, TooLargeError, nearest
from .formats.checkpoint import is_checkpoint, read_checkpoint, save_checkpoint
from .formats.gguf_model import read_gguf
from .formats.huggingface import read_folder, read_memory
from .formats.published import Loaded
from .hooks import BoundHooks, HookLike, bind, merge
from .inputs import Text, TextLike, read_stream, read_text
from .keywords import checked_keywords
from .model.init import initial_tensors, place_tensors
from .model.moe import MixtureOfExperts
from .model.positions import LearnedPositions
from .model.transformer import Transformer
from .pretrained import fetch, pretrained
from .recorder import PosSlice
from .sizes import free_memory, size_text
from .spec import ModelSpec
from .tokenizer import Tokenizer


class HookedTransformer(Transformer):
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
        return run.forward(self, text, merge(self._view_hooks, bind(hooks, self.sites)))

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
        view._view_hooks = merge(self._view_hooks, bind(hooks, self.sites))
        return view

    def _read(self, tokens: TextLike, attention_mask: Tensor | None, prepend_bos: bool | None) -> Text:
        return read_text(tokens, self.spec, self.tokenizer, self.device, attention_mask, prepend_bos)

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

    # Weights, in the field's layout. Per layer they are views: model.blocks[3].attn.W_Q

    def _stack(self, component: str, name: str) -> Tensor:
        parts = [getattr(block, component, None) for block in self.blocks]
        for layer, part in enumerate(parts):
            if part is None:
                raise SpecError(f"layer {layer} has no {component}, and so no {name}")
            if isinstance(part, MixtureOfExperts):
                raise SpecError(f"layer {layer} has experts, whose own is blocks[{layer}].mlp.experts.{name}")
            if not hasattr(part, name):  # said here, since torch would call the property itself missing
                raise SpecError(f"layer {layer}'s {component} is a {type(part).__name__}, which has no {name}")
        try:
            return torch.stack([getattr(part, name) for part in parts])
        except RuntimeError:
            raise SpecError(f"{name} differs in shape from layer to layer; ask blocks[l].{component}.{name}") from None

    W_Q = property(lambda self: self._stack("attn", "W_Q"), doc="[layer head d_model d_head]")
    W_K = property(lambda self: self._stack("attn", "W_K"), doc="[layer kv_head d_model d_head]")
    W_V = property(lambda self: self._stack("attn", "W_V"), doc="[layer kv_head d_model d_head]")
    W_O = property(lambda self: self._stack("attn", "W_O"), doc="[layer head d_head d_model]")
    b_Q = property(lambda self: self._stack("attn", "b_Q"), doc="[layer head d_head]; 0 where there is none")
    b_K = property(lambda self: self._stack("attn", "b_K"), doc="[layer kv_head d_head]; 0 where there is none")
    b_V = property(lambda self: self._stack("attn", "b_V"), doc="[layer kv_head d_head]; 0 where there is none")
    b_O = property(lambda self: self._stack("attn", "b_O"), doc="[layer d_model]; 0 where there is none")
    W_DQ = property(lambda self: self._stack("attn", "W_DQ"), doc="[layer d_model d_latent], of latent attention")
    W_UQ = property(lambda self: self._stack("attn", "W_UQ"), doc="[layer head d_latent d_head], of latent attention")
    W_DKV = property(lambda self: self._stack("attn", "W_DKV"), doc="[layer d_model d_latent], of latent attention")
    W_UK = property(lambda self: self._stack("attn", "W_UK"), doc="[layer head d_latent d_nope], of latent attention")
    W_UV = property(lambda self: self._stack("attn", "W_UV"), doc="[layer head d_latent d_value], of latent attention")
    W_KR = property(lambda self: self._stack("attn", "W_KR"), doc="[layer d_model d_rope], of latent attention")
    W_in = property(lambda self: self._stack("mlp", "W_in"), doc="[layer d_model d_mlp]")
    W_gate = property(lambda self: self._stack("mlp", "W_gate"), doc="[layer d_model d_mlp]")
    W_out = property(lambda self: self._stack("mlp", "W_out"), doc="[layer d_mlp d_model]")
    b_in = property(lambda self: self._stack("mlp", "b_in"), doc="[layer d_mlp]; 0 where there is none")
    b_gate = property(lambda self: self._stack("mlp", "b_gate"), doc="[layer d_mlp]; 0 where there is none")
    b_out = property(lambda self: self._stack("mlp", "b_out"), doc="[layer d_model]; 0 where there is none")
    W_E = property(lambda self: self.embedding.W_E, doc="[vocab d_model]; what each token writes")
    W_pos = property(lambda self: self._learned_positions(), doc="[n_ctx d_model], of learned positions")
    W_U = property(lambda self: self.unembedding.W_U, doc="[d_model vocab]")
    b_U = property(lambda self: self.unembedding.b_U, doc="[vocab]; 0 where there is none")

    def _learned_positions(self) -> Tensor:
        if not isinstance(self.pos_embedding, LearnedPositions):
            raise SpecError(f"this model has no W_pos: its positions are {type(self.pos_embedding).__name__}")
        return self.pos_embedding.weight

    # Files

    def save(self, folder: str | Path) -> None:
        """Spec, weights and tokenizer into a folder that `wb.load` takes; whole or not at all."""
        if self._view_hooks:
            raise InputError("this is a view with hooks, which no checkpoint can hold; save the model it is a view of")
        save_checkpoint(self, self.tokenizer, Path(folder))


@checked_keywords
def load(
    source: str | Path, dtype: torch.dtype | None = torch.float32, device: torch.device | str = "cpu"
) -> HookedTransformer:
    """A model in evaluation mode, its weights frozen.

    source: a checkpoint folder of ours, a Hugging Face folder, a .gguf file, a name in `wb.pretrained()`, or a
            hub id such as "openai-community/gpt2" where the hub can be reached.
    dtype:  None keeps the file's own, which stays memory-mapped.
    """
    if not isinstance(source, (str, Path)):
        raise KindError(
            f"wb.load takes a path or a name, not {type(source).__name__}; "
            "for a transformers model in memory there is wb.from_huggingface"
        )
    if dtype is not None and not (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
        raise KindError(f"dtype is {dtype!r}; a floating-point torch.dtype is wanted, or None for the file's own")
    where = _device(device)
    path = Path(source)
    if not str(source) or not path.exists():
        path = _obtained(str(source))
    return _assembled(_read_path(path, dtype, where))


def _device(device: torch.device | str) -> torch.device:
    """A device that is there."""
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError, TypeError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(f"the device {device!r} cannot be used here: {reason}") from None


def _read_path(path: Path, dtype: torch.dtype | None, device: torch.device) -> Loaded:
    if path.is_file():
        if path.suffix.lower() != ".gguf":
            raise LoadError(f"{str(path)!r} is a file of unknown kind; a .gguf file or a model folder is wanted")
        return read_gguf(path, dtype, device)
    if is_checkpoint(path):
        return read_checkpoint(path, dtype, device)
    return read_folder(path, dtype, device)


def _obtained(name: str) -> Path:
    """The local path of a model that must be fetched first."""
    if name in pretrained():
        return fetch(name)
    if re.fullmatch(r"[\w-][\w.-]*/[\w.-]+", name) and not name.endswith((".gguf", ".safetensors")):
        return _from_hub(name)
    raise MissingError(f"there is no file, folder or model {name!r}; {nearest(name, pretrained())}")


def _from_hub(hub_id: str) -> Path:
    try:
        from huggingface_hub import snapshot_download  # slow to import, and few loads come from the hub

        return Path(snapshot_download(hub_id, allow_patterns=["*.json", "*.safetensors", "*.txt", "*.model"]))
    except Exception as error:  # the hub's client raises types of many libraries
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise FetchError(
            f"{hub_id!r} is no folder here and could not be had from the hub ({type(error).__name__}: {reason[0]})"
        ) from error


@checked_keywords
def from_huggingface(hf_model: Any, tokenizer: Any = None) -> HookedTransformer:
    """A transformers model in memory, in its own dtype and on its own device. Its weights are copied."""
    return _assembled(read_memory(hf_model, tokenizer))


def _assembled(loaded: Loaded) -> HookedTransformer:
    return HookedTransformer(loaded.spec, tokenizer=loaded.tokenizer, tensors=loaded.tensors)
