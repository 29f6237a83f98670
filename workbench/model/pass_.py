"""One trip through the model: its positions, memory, hooks and recorder, and the attention it leaves behind.

Components get the pass as `at` and call `at(site, value)` where a site stands. The pass is made for one run and
dropped after it; nothing of it stays on the model.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from ..hooks import At, BoundHooks, Columns, apply
from ..sites import Site
from .masks import Visibility
from .memory import Kept, Memory, Nothing

T = TypeVar("T")
Positions: TypeAlias = slice | Int[Tensor, " pos"]  # a slice copies nothing


@runtime_checkable
class Recorder(Protocol):
    """Keeps values; see `workbench.recorder`."""

    def keep(self, site: Site, value: Tensor) -> Tensor:
        """Called at every site after its hooks; returns the tensor that the run goes on with."""
        ...

    def needs(self, site: Site) -> bool:
        """Whether the value must be on the path of the computation, because a gradient at it is wanted."""
        ...


@runtime_checkable
class Mixer(Protocol):
    """What a pass needs of an attention, whatever its kind."""

    layer: int
    window: int | None
    looked_at: tuple[str, ...]  # what of the kept tensors the weights are made of

    def attend(
        self, q: Tensor, kept: Kept, visible: Visibility, at: Pass
    ) -> tuple[Tensor, Float[Tensor, "batch head query key"] | None]:
        """Head outputs, and the pattern if it had to be made."""
        ...

    def scores(self, q: Tensor, kept: Kept, visible: Visibility) -> Float[Tensor, "batch head query key"]: ...

    def weights(self, q: Tensor, kept: Kept, visible: Visibility) -> Float[Tensor, "batch head query key"]: ...


class Attended:
    """What one layer's attention was made of, so that its weights can be computed when somebody looks.

    Holds queries and keys and never the pass, the values or anything of size query x key, except a pattern
    that hooks made explicit.
    """

    def __init__(self, mixer: Mixer, q: Tensor, kept: Kept, visible: Visibility, pattern: Tensor | None):
        self._mixer, self._visible, self._pattern = mixer, visible, pattern
        self._q, self._kept = q, {name: kept[name] for name in mixer.looked_at}

    def of_queries(self, rows: Int[Tensor, " kept"] | None) -> Attended:
        """The same for some of the queries; None for all."""
        if rows is None:
            return self
        seen, pattern = self._visible, self._pattern
        visible = replace(seen, query_pos=seen.query_pos[:, rows])
        pattern = None if pattern is None else pattern[:, :, rows]
        return Attended(self._mixer, self._q[:, rows], self._kept, visible, pattern)

    @property
    def edited(self) -> bool:
        """Whether hooks made the pattern, so that a query may weigh what lies ahead of it."""
        return self._pattern is not None

    def part(self, example: int, queries: Positions, keys: Positions) -> Float[Tensor, "head query key"]:
        """The weights of some of one example's queries on some keys, all that these queries see being among them,
        without the rest being made. An edited pattern may be cut anywhere."""
        if self._pattern is not None:
            return self._pattern[example][:, queries][:, :, keys].clone()
        one, seen = slice(example, example + 1), self._visible
        visible = replace(seen, query_pos=seen.query_pos[one, queries], key_pos=seen.key_pos[one, keys])
        kept = {name: tensor[one, keys] for name, tensor in self._kept.items()}
        return self._mixer.weights(self._q[one, queries], kept, visible.counted())[0]

    def then(self, steps: Sequence[Attended]) -> Attended:
        """One attention of these queries and those of steps that followed, over the last step's keys, which hold all
        that earlier steps saw. Patterns that hooks made explicit are filled up with zeros for keys still ahead."""
        every = [self, *steps]
        q_pos = torch.cat([each._visible.query_pos for each in every], 1)
        last, n_keys = every[-1], every[-1]._visible.key_pos.shape[1]
        visible = replace(last._visible, query_pos=q_pos, plain=False)
        patterns = [F.pad(p, (0, n_keys - p.shape[-1])) for p in (each._pattern for each in every) if p is not None]
        pattern = torch.cat(patterns, 2) if patterns else None
        return Attended(self._mixer, torch.cat([each._q for each in every], 1), last._kept, visible, pattern)

    def to(self, device: torch.device | str) -> Attended:
        """The same, with its tensors on a device."""
        seen = self._visible
        visible = replace(seen, query_pos=seen.query_pos.to(device), key_pos=seen.key_pos.to(device))
        kept = {name: tensor.to(device) for name, tensor in self._kept.items()}
        pattern = None if self._pattern is None else self._pattern.to(device)
        return Attended(self._mixer, self._q.to(device), kept, visible, pattern)

    def scores(self) -> Float[Tensor, "batch head query key"]:
        """After scale, -inf where masked; of the queries and keys, so without what a hook made of the scores."""
        return self._mixer.scores(self._q, self._kept, self._visible)

    def weights(self) -> Float[Tensor, "batch head query key"]:
        """A new tensor at each look; differentiable when the run was."""
        if self._pattern is not None:
            return self._pattern.clone()
        return self._mixer.weights(self._q, self._kept, self._visible)


class Pass:
    """One trip through the model.

    positions: [batch, pos] absolute, counted over real tokens; -1 where an attention mask says there is none.
    padded:    whether any position is -1.
    lengths:   [batch] tokens of the text that each row is of, as far as the pass has come; 0 where there is none.
    columns:   which part of a text these positions are; the whole of it unless tokens are generated.
    attended:  layer -> `Attended`, filled as the blocks run.
    """

    def __init__(
        self,
        positions: Int[Tensor, "batch pos"],
        *,
        padded: bool = False,
        memory: Memory | None = None,
        hooks: BoundHooks | None = None,
        recorder: Recorder | None = None,
        columns: Columns | None = None,
    ):
        n_pos = positions.shape[1]
        self.positions = positions
        self.lengths = positions.amax(1) + 1
        self.columns = columns or Columns(0, n_pos, n_pos)
        self.memory = memory or Nothing()
        self.attended: dict[int, Attended] = {}
        self._plain = self.memory.is_empty and not padded
        self._hooks = hooks or {}
        self._recorder = recorder
        self._shared: dict[Hashable, Any] = {}

    def __call__(self, site: Site, value: Tensor, settle: Callable[[Tensor], Tensor] | None = None) -> Tensor:
        """Fire a site: hooks in order, then the recorder. Returns the value that the run goes on with.

        settle: what holds at this site whatever hooks did, applied to what they return.
        """
        hooks = self._hooks.get(site.name)
        if hooks:
            value = apply(hooks, value, At(site, self.positions.clone(), self.columns))
            value = value if settle is None else settle(value)
        return value if self._recorder is None else self._recorder.keep(site, value)

    def wants(self, *sites: Site) -> bool:
        """Whether one of these must really be computed on the way. Recording alone never asks for it, so that
        it cannot change which kernel runs; a gradient at a recorded value does."""
        if any(site.name in self._hooks for site in sites):
            return True
        return self._recorder is not None and any(self._recorder.needs(site) for site in sites)

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """A rotary table or a mask that all layers share, made by the first that asks."""
        if key not in self._shared:
            self._shared[key] = make()
        return self._shared[key]

    def onward(self, x: Tensor) -> Tensor:
        """Of a stream that attention reads, the rows that head outputs are for: all, unless fewer are wanted."""
        return x

    def attend(self, mixer: Mixer, q: Tensor, new: Kept) -> Tensor:
        """Head outputs of one layer; its attention is left in `attended`."""
        key_pos, kept = self.memory.extend(mixer.layer, self.positions, new, mixer.window)
        visible = self.once(  # shared by layers that see as many keys through the same window
            ("visible", mixer.window, key_pos.shape[1]),
            lambda: Visibility(self.positions, key_pos, mixer.window, self._plain),
        )
        z, pattern = mixer.attend(q, kept, visible, self)
        self.attended[mixer.layer] = Attended(mixer, q, kept, visible, pattern)
        return z
