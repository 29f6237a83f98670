"""Blocks: how components read the stream and write to it. The only file that adds to the stream after the
embedding.

PreNorm: one after the other, each through a norm of its own. With output norms as well it is a sandwich (Gemma 2),
with output norms alone it is OLMo 2's.

    resid_pre ─┬───────────────────────────────────────────── + ─ resid_mid ─┬──────── ... ──────── + ─ resid_post
               └ attn_in ─ ln1 ─ attn (─ ln1_post) ─ attn_out ┘              └ mlp_in ─ ... mlp_out ┘

Parallel: both read resid_pre, and there is no resid_mid.

    resid_pre ─┬────────────────────────────────── + ─ resid_post
               ├ attn_in ─ ln1 ─ attn ─ attn_out ─ ┤
               └ mlp_in ── ln2 ─ mlp ── mlp_out ── ┘

PostNorm: norms stand on the stream itself, which is therefore no sum of writes.

    resid_pre ─┬─────────────────────────── + ─ ln1 ─ resid_mid ─┬──────────────────────── + ─ ln2 ─ resid_post
               └ attn_in ─ attn ─ attn_out ─┘                    └ mlp_in ─ mlp ─ mlp_out ─┘

AttentionOnly: PreNorm's first half.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

from jaxtyping import Float
from torch import Tensor

from ..sites import Place, Site
from ..spec import Component, ComponentSpec, LayerSpec
from .norms import NoNorm, build_norm
from .pass_ import Pass

Stream: TypeAlias = Float[Tensor, "batch pos d_model"]
Onward: TypeAlias = Float[Tensor, "onward pos d_model"]  # of the rows that `Pass.onward` leaves: all, in any plain run


class Block(Component):
    """A layer of the model: stream in, stream out. A subclass is a wiring: it says which streams there are and in
    which order components read and write. Reading through a norm and writing is the same in all.

    streams: the streams inside the block, by the field's short names, the first one first.
    writes:  what is added to the stream, in order.
    adds:    whether every stream is the one before it plus what was written.
    """

    adds: ClassVar[bool] = True

    def __init__(self, spec: AttentionOnly | TwoPart, d_model: int, place: Place):
        super().__init__()
        self.ln1 = build_norm(spec.ln1, d_model, place.inside("ln1"))
        self.attn = spec.attn.build(d_model, place.inside("attn"))
        self.ln1_post = build_norm(spec.ln1_post, d_model, place.inside("ln1_post"))
        self.hook_resid_pre = stream_site(place, "hook_resid_pre", d_model)
        self.hook_attn_in = stream_site(place, "hook_attn_in", d_model)
        self.hook_attn_out = stream_site(place, "hook_attn_out", d_model)
        self.hook_resid_post = stream_site(place, "hook_resid_post", d_model)
        inside = (*self.ln1.sites, *self.attn.sites, *self.ln1_post.sites)
        self.attn_sites = (self.hook_attn_in, *inside, self.hook_attn_out)
        self.streams = {"pre": self.hook_resid_pre}
        self.writes = {"attn_out": self.hook_attn_out}

    def attn_write(self, x: Stream, at: Pass) -> Onward:
        """What attention adds to the stream that it reads."""
        read = at(self.hook_attn_in, x)
        return at(self.hook_attn_out, self.ln1_post(self.attn(self.ln1(read, at), at), at))

    @property
    def attn_reader(self) -> Component:
        """The norm through which attention reads the stream."""
        return self.ln1


class AttentionOnlyBlock(Block):
    """Attention reads the stream and adds to it (Elhage et al. 2021)."""

    def __init__(self, spec: AttentionOnly, d_model: int, place: Place):
        super().__init__(spec, d_model, place)
        self.sites = (self.hook_resid_pre, *self.attn_sites, self.hook_resid_post)

    def forward(self, x: Stream, at: Pass) -> Onward:
        x = at(self.hook_resid_pre, x)
        return at(self.hook_resid_post, at.onward(x) + self.attn_write(x, at))


class TwoPartBlock(Block):
    """A block with a feed-forward.

    before_mlp: which of the block's writes are in the stream that the feed-forward reads.
    """

    before_mlp: ClassVar[tuple[str, ...]] = ("attn_out",)

    def __init__(self, spec: TwoPart, d_model: int, place: Place):
        super().__init__(spec, d_model, place)
        self.ln2 = build_norm(spec.ln2, d_model, place.inside("ln2"))
        self.mlp = spec.mlp.build(d_model, place.inside("mlp"))
        self.ln2_post = build_norm(spec.ln2_post, d_model, place.inside("ln2_post"))
        self.hook_mlp_in = stream_site(place, "hook_mlp_in", d_model)
        self.hook_mlp_out = stream_site(place, "hook_mlp_out", d_model)
        inside = (*self.ln2.sites, *self.mlp.sites, *self.ln2_post.sites)
        self.mlp_sites = (self.hook_mlp_in, *inside, self.hook_mlp_out)
        self.writes = {"attn_out": self.hook_attn_out, "mlp_out": self.hook_mlp_out}

    def mlp_write(self, x: Stream, at: Pass) -> Stream:
        """What the feed-forward adds to the stream that it reads."""
        read = at(self.hook_mlp_in, x)
        return at(self.hook_mlp_out, self.ln2_post(self.mlp(self.ln2(read, at), at), at))

    @property
    def mlp_reader(self) -> Component:
        """The norm through which the feed-forward reads the stream."""
        return self.ln2


class SequentialBlock(TwoPartBlock):
    """The feed-forward reads what attention has written: there is a stream between them."""

    def __init__(self, spec: TwoPart, d_model: int, place: Place):
        super().__init__(spec, d_model, place)
        self.hook_resid_mid = stream_site(place, "hook_resid_mid", d_model)
        self.streams = {"pre": self.hook_resid_pre, "mid": self.hook_resid_mid}


class PreNormBlock(SequentialBlock):
    """Each component reads the stream through a norm of its own and adds to it, one after the other
    (Xiong et al. 2020), perhaps through an output norm."""

    def __init__(self, spec: PreNorm, d_model: int, place: Place):
        super().__init__(spec, d_model, place)
        first_half, second_half = (self.hook_resid_pre, *self.attn_sites), (self.hook_resid_mid, *self.mlp_sites)
        self.sites = (*first_half, *second_half, self.hook_resid_post)

    def forward(self, x: Stream, at: Pass) -> Onward:
        x = at(self.hook_resid_pre, x)
        x = at(self.hook_resid_mid, at.onward(x) + self.attn_write(x, at))
        return at(self.hook_resid_post, x + self.mlp_write(x, at))


class ParallelBlock(TwoPartBlock):
    """Attention and feed-forward read the same stream (Wang and Komatsuzaki 2021, GPT-J)."""

    before_mlp = ()

    def __init__(self, spec: TwoPart, d_model: int, place: Place):
        super().__init__(spec, d_model, place)
        self.sites = (self.hook_resid_pre, *self.attn_sites, *self.mlp_sites, self.hook_resid_post)

    def forward(self, x: Stream, at: Pass) -> Onward:
        x = at(self.hook_resid_pre, x)
        attn_out, x = self.attn_write(x, at), at.onward(x)
        return at(self.hook_resid_post, x + attn_out + self.mlp_write(x, at))


class SharedNormParallelBlock(ParallelBlock):
    """The same with one norm for both. It runs for each reader, and has the sites of each."""

    def __init__(self, spec: SharedNormParallel, d_model: int, place: Place):
        super().__init__(spec, d_model, place)
        self.ln2.share(self.ln1)


class PostNormBlock(SequentialBlock):
    """Each component reads the stream as it is, and the sum is normed (Vaswani et al. 2017): ln1 gives resid_mid and
    ln2 resid_post. What is written is not what the stream changes by."""

    adds = False

    def __init__(self, spec: PostNorm, d_model: int, place: Place):
        super().__init__(spec, d_model, place)
        self.attn_sites = (self.hook_attn_in, *self.attn.sites, self.hook_attn_out)
        self.mlp_sites = (self.hook_mlp_in, *self.mlp.sites, self.hook_mlp_out)
        first_half = (self.hook_resid_pre, *self.attn_sites, *self.ln1.sites, self.hook_resid_mid)
        self.sites = (*first_half, *self.mlp_sites, *self.ln2.sites, self.hook_resid_post)

    def forward(self, x: Stream, at: Pass) -> Onward:
        x = at(self.hook_resid_pre, x)
        x = at(self.hook_resid_mid, self.ln1(at.onward(x) + self.attn_write(x, at), at))
        return at(self.hook_resid_post, self.ln2(x + self.mlp_write(x, at), at))

    def attn_write(self, x: Stream, at: Pass) -> Onward:
        return at(self.hook_attn_out, self.attn(at(self.hook_attn_in, x), at))

    def mlp_write(self, x: Stream, at: Pass) -> Stream:
        return at(self.hook_mlp_out, self.mlp(at(self.hook_mlp_in, x), at))

    @property
    def attn_reader(self) -> Component:
        return NoNorm()

    @property
    def mlp_reader(self) -> Component:
        return NoNorm()


def stream_site(place: Place, name: str, d_model: int) -> Site:
    return place.site(name, "batch pos d_model", d_model=d_model)


@dataclass(frozen=True)
class AttentionOnly(LayerSpec):
    """ln1: the norm through which attention reads;  ln1_post: through which it writes. None for none."""

    attn: ComponentSpec
    mlp: None = field(default=None, kw_only=True)
    ln1: ComponentSpec | None
    ln1_post: ComponentSpec | None = None

    def build(self, d_model: int, place: Place) -> AttentionOnlyBlock:
        return AttentionOnlyBlock(self, d_model, place)


@dataclass(frozen=True)
class TwoPart(LayerSpec):
    """ln1, ln2: norms through which components read;  ln1_post, ln2_post: through which they write. None for none."""

    attn: ComponentSpec
    mlp: ComponentSpec
    ln1: ComponentSpec | None
    ln2: ComponentSpec | None
    ln1_post: ComponentSpec | None = None
    ln2_post: ComponentSpec | None = None


@dataclass(frozen=True)
class PreNorm(TwoPart):
    def build(self, d_model: int, place: Place) -> PreNormBlock:
        return PreNormBlock(self, d_model, place)


@dataclass(frozen=True)
class Parallel(TwoPart):
    def build(self, d_model: int, place: Place) -> ParallelBlock:
        return ParallelBlock(self, d_model, place)


@dataclass(frozen=True)
class SharedNormParallel(TwoPart):
    """ln1 and ln2 are one norm, given twice."""

    def check(self) -> None:
        self.require(self.ln2 == self.ln1, "ln2", f"one norm is shared, and ln1 is {self.ln1!r}")

    def build(self, d_model: int, place: Place) -> SharedNormParallelBlock:
        return SharedNormParallelBlock(self, d_model, place)


@dataclass(frozen=True)
class PostNorm(TwoPart):
    """ln1, ln2: norms of the stream itself, after each addition."""

    def check(self) -> None:
        for field_name in ("ln1_post", "ln2_post"):
            self.require(getattr(self, field_name) is None, field_name, "this wiring norms the stream, not its writes")

    def build(self, d_model: int, place: Place) -> PostNormBlock:
        return PostNormBlock(self, d_model, place)
