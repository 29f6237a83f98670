"""The cache: site name -> what the value was in a run, after hooks, and what a stream of such values makes possible.

Values are copies. Nothing that happens later, to the run's tensors or to another site's, changes them. Scores and
patterns are kept as the queries and keys they are made of and computed when looked at.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from . import decompose
from .decompose import Index, Token
from .errors import InputError, KindError, LoadError, MissingError, SiteError
from .files import atomic_file
from .model.pass_ import Attended, Positions
from .model.transformer import Transformer
from .sites import Selector, Site, Sites
from .sizes import size_text


class ActivationCache(Mapping[str, Tensor]):
    """Values of one run by site.

        cache["blocks.3.attn.hook_q"]     a full name
        cache["q", 3]                     a short form
        cache["embed"]

    The methods below take TransformerLens' arguments and return what they return there, except that nothing is
    changed in place, and that `apply_ln_to_stack` applies a norm's gain, since weights here are never folded.

    positions: [batch, pos] of the recorded rows, -1 where there is no token.
    """

    def __init__(
        self,
        values: Mapping[str, Tensor],
        sites: Sequence[Site],
        positions: Int[Tensor, "batch pos"],
        model: Transformer | None = None,
        looked: Mapping[str, Attended] | None = None,
        has_batch_dim: bool = True,
    ):
        self._values, self._sites, self._model = dict(values), Sites(sites), model
        self._looked = dict(looked or {})
        self.positions, self.has_batch_dim = positions, has_batch_dim

    def __getitem__(self, site: Selector) -> Tensor:
        """The value at a site; SiteError with the nearest recorded names when it was not recorded."""
        try:
            name = self._sites.one(site).name
        except SiteError as error:
            raise SiteError(f"{error} (of the {len(self)} sites that this cache recorded)") from None
        return self._values[name] if name in self._values else self._look(name)

    def _look(self, name: str) -> Float[Tensor, "*batch head query key"]:
        attended = self._looked[name]
        value = attended.weights() if name.endswith("hook_pattern") else attended.scores()
        return value if self.has_batch_dim else value[0]

    def pattern_part(
        self, layer: int, example: int, queries: Positions, keys: Positions
    ) -> Float[Tensor, "head query key"]:
        """Some rows of one example's pattern over some columns, without the rest being made. A row divides its
        attention among these keys alone: leave out none that it sees, unless hooks made the pattern (`pattern_edited`),
        of which this is a cut."""
        name = self._sites.one(("pattern", layer)).name
        if name in self._values:
            return self._values[name][example][:, queries][:, :, keys].clone()
        return self._looked[name].part(example, queries, keys)

    def pattern_edited(self, layer: int) -> bool:
        """Whether hooks made this layer's pattern."""
        name = self._sites.one(("pattern", layer)).name
        return name in self._values or self._looked[name].edited

    def __iter__(self) -> Iterator[str]:
        return iter(self._sites.names)

    def __len__(self) -> int:
        return len(self._sites)

    def __contains__(self, site: object) -> bool:
        try:
            self._sites.select(site)  # pyright: ignore[reportArgumentType]
        except (SiteError, KindError):
            return False
        return True

    def __repr__(self) -> str:
        return f"ActivationCache of {len(self)} sites, {size_text(self.n_bytes)}"

    @property
    def sites(self) -> Sites:
        return self._sites

    @property
    def n_bytes(self) -> int:
        """Bytes that the recorded values take; patterns that are computed when looked at not counted."""
        return sum(value.numel() * value.element_size() for value in self._values.values())

    @property
    def model(self) -> Transformer:
        if self._model is None:
            raise InputError("this needs weights, and the cache has no model; use ActivationCache.load(path, model)")
        return self._model

    # Moving, saving

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> ActivationCache:
        """A cache of the same values on another device or in another dtype."""
        if dtype is not None and not (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
            raise KindError(f"dtype is {dtype!r}; a floating torch.dtype is wanted")
        if isinstance(device, torch.dtype):
            raise KindError(f"device is {device}; give a dtype by its name, to(dtype={device})")
        values, looked, positions = self._values, self._looked, self.positions
        if dtype is not None:  # what is computed on look would come in the run's dtype, so it is looked at now
            values, looked = dict(self.items()), {}
        if device is not None:
            positions = positions.to(device)
            looked = {name: attended.to(device) for name, attended in looked.items()}
        moved = {name: value.to(device=device, dtype=dtype) for name, value in values.items()}
        return ActivationCache(moved, list(self._sites), positions, self._model, looked, self.has_batch_dim)

    def remove_batch_dim(self) -> ActivationCache:
        """A cache of the only example, its values without the batch axis. InputError for several examples."""
        if not self.has_batch_dim:
            return self
        if len(self.positions) != 1:
            raise InputError(f"remove_batch_dim is for a single example; this cache has {len(self.positions)}")
        values = {name: value[0] for name, value in self._values.items()}
        return ActivationCache(
            values, list(self._sites), self.positions, self._model, self._looked, has_batch_dim=False
        )

    def save(self, path: str | Path) -> None:
        """One safetensors file, scores and patterns included. Written whole or not at all."""
        described, tensors = self.as_tensors()
        with atomic_file(path) as temporary:
            save_file(tensors, temporary, {"workbench_cache": json.dumps(described)})

    def as_tensors(self, names: Sequence[str] | None = None) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What JSON can hold of it, and the rest by name: scores and patterns as they look now. names: these only."""
        kept = [site for site in self._sites if names is None or site.name in names]
        sites = [[s.name, s.layer, list(s.axes), list(s.sizes), s.width, s.exact] for s in kept]
        tensors = {site.name: self[site.name].detach().contiguous() for site in kept}
        described = {"sites": sites, "has_batch_dim": self.has_batch_dim}
        return described, {**tensors, "positions": self.positions.contiguous()}

    @classmethod
    def of_tensors(
        cls, described: Mapping[str, Any], tensors: Mapping[str, Tensor], model: Transformer | None = None
    ) -> ActivationCache:
        """The cache that `as_tensors` took apart."""
        sites = [
            Site(name, layer, tuple(axes), tuple(sizes), width, *exact)
            for name, layer, axes, sizes, width, *exact in described["sites"]
        ]
        values = {site.name: tensors[site.name] for site in sites}
        has_batch_dim = bool(described["has_batch_dim"])
        return cls(values, sites, tensors["positions"], model, has_batch_dim=has_batch_dim)

    @classmethod
    def load(cls, path: str | Path, model: Transformer | None = None) -> ActivationCache:
        """A saved cache. The methods that need weights want the model it was made with."""
        if not Path(path).is_file():
            raise MissingError(f"there is no cache file {str(path)!r}")
        try:
            with safe_open(path, "pt") as file:
                described = json.loads((file.metadata() or {})["workbench_cache"])
                return cls.of_tensors(
                    described,
                    {name: file.get_tensor(name) for name in file.keys()},  # noqa: SIM118
                    model,
                )
        except (SafetensorError, KeyError, ValueError, TypeError, AttributeError) as error:
            raise LoadError(f"{str(path)!r} is not a saved cache or is damaged: {error}") from None

    # What a stream makes possible

    def accumulated_resid(
        self,
        layer: int | None = None,
        incl_mid: bool = False,
        apply_ln: bool = False,
        pos_slice: Index = None,
        mlp_input: bool = False,
        return_labels: bool = False,
    ):
        """The stream before each layer up to `layer` (None: all, then the last stream): [component *batch pos d_model].

        incl_mid adds the streams between attention and feed-forward, mlp_input the one that `layer`'s feed-forward
        reads; with apply_ln the last stream's reader's norm is applied to all, its scale frozen.
        """
        parts = decompose.streams(self, layer, incl_mid, mlp_input)
        return self._stack(parts, layer, apply_ln, pos_slice, mlp_input, return_labels)

    def decompose_resid(
        self,
        layer: int | None = None,
        mlp_input: bool = False,
        mode: str = "all",
        apply_ln: bool = False,
        pos_slice: Index = None,
        incl_embeds: bool = True,
        return_labels: bool = False,
    ):
        """The writes that add up to the stream entering `layer` (None: the last): [component *batch pos d_model].

        mode is "all", "attn" or "mlp".
        """
        parts = decompose.writes(self, layer, mlp_input, mode, incl_embeds)
        return self._stack(parts, layer, apply_ln, pos_slice, mlp_input, return_labels)

    def stack_head_results(
        self,
        layer: int | None = None,
        return_labels: bool = False,
        incl_remainder: bool = False,
        pos_slice: Index = None,
        apply_ln: bool = False,
    ):
        """What each head of the layers before `layer` writes, L0H0 first: [component *batch pos d_model].

        Where attention has an output norm, that is each head's share through it, at the run's own scale.
        incl_remainder adds the rest of the stream (embeddings, biases, feed-forward) as a last component.
        """
        parts = decompose.heads(self, layer, incl_remainder)
        return self._stack(parts, layer, apply_ln, pos_slice, False, return_labels)

    def _stack(
        self,
        parts: dict[str, Tensor],
        layer: int | None,
        apply_ln: bool,
        pos_slice: Index,
        mlp_input: bool,
        return_labels: bool,
    ):
        stack = decompose.stacked([decompose.at_positions(part, pos_slice, -2) for part in parts.values()])
        if apply_ln:
            stack = self.apply_ln_to_stack(stack, layer, mlp_input, pos_slice)
        return (stack, list(parts)) if return_labels else stack

    def stack_activation(self, activation_name: str, layer: int | None = None, sublayer_type: str | None = None):
        """One site of every layer before `layer`, stacked: [layer ...]."""
        short = f"{sublayer_type}.{activation_name}" if sublayer_type else activation_name
        return decompose.stacked([self[short, index] for index in range(decompose.last_layer(self, layer))])

    def apply_ln_to_stack(
        self,
        residual_stack: Float[Tensor, "component *rows d_model"],
        layer: int | None = None,
        mlp_input: bool = False,
        pos_slice: Index = None,
        batch_slice: Index = None,
        has_batch_dim: bool | None = None,
        recompute_ln: bool = False,
    ) -> Float[Tensor, "component *rows d_model"]:
        """Each component as the norm of a reader shows it: centred, over the recorded scale, times the gain.

        The reader is attention in `layer`, its feed-forward with mlp_input, or the final norm (None). Linear, since
        the scale is the run's own: the parts of a stream sum to the norm's output less its bias. recompute_ln takes
        each component's own scale instead.

        pos_slice is the one that the stack was made with; batch_slice chooses examples here. A stack without a batch
        axis is told by has_batch_dim=False, and batch_slice then says which example it is.
        """
        return decompose.apply_norm(
            self, residual_stack, layer, mlp_input, pos_slice, batch_slice, has_batch_dim, recompute_ln
        )

    def logit_attrs(
        self,
        residual_stack: Float[Tensor, "component *rows d_model"],
        tokens: Token,
        incorrect_tokens: Token | None = None,
        pos_slice: Index = None,
        batch_slice: Index = None,
        has_batch_dim: bool | None = None,
    ) -> Float[Tensor, " component *rows"]:
        """What each component adds to the logit of a token, or to the difference of two: (norm(part)) . W_U[token].

        Biases of the final norm and of the unembedding are nobody's part and are left out. Where logits have a softcap,
        it is the uncapped logit that is taken apart.
        """
        normed = self.apply_ln_to_stack(residual_stack, None, False, pos_slice, batch_slice, has_batch_dim)
        return decompose.onto_logits(self, normed, tokens, incorrect_tokens, batch_slice, has_batch_dim)

    def head_results(self, layer: int) -> Float[Tensor, "*batch pos head d_model"]:
        """z W_O of each head; with b_O they sum to attention's output before any output norm."""
        return decompose.head_results(self, layer)

    def expert_outputs(self, layer: int) -> Float[Tensor, "*batch pos expert d_model"]:
        """What each expert adds, weighted, 0 where it was not chosen; with what shared experts add (shared_out) they
        sum to the feed-forward's output before any output norm. Computed from what the feed-forward read."""
        return decompose.expert_outputs(self, layer)
