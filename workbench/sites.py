"""Sites: the places of a forward pass that can be watched or changed.

A component makes its sites once, when it is built, from the `Place` where it stands, so a model lists every
site without running. Names are the field's, after TransformerLens: `blocks.3.attn.hook_q`.

Wherever a site is asked for, four forms do:

    "blocks.3.attn.hook_q"          the full name
    ("q", 3), ("attn.q", 3)         short form: the name without `hook_`, and a layer (-1 is the last)
    "blocks.*.attn.hook_q", "q"     several at once: a glob over full names, or a short name in every layer
    lambda name: "attn" in name     any callable over full names
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import prod
from typing import TypeAlias, overload

from .errors import KindError, SiteError, nearest


@dataclass(frozen=True)
class Site:
    """One place in the forward pass.

    axes:  the axes of the value there, in words, e.g. ("batch", "pos", "head", "d_head").
    sizes: the size of each axis; None for those that the input decides (batch, pos, query, key).
    width: how many numbers a cache keeps here per token. Scores and patterns are kept as the queries and
           keys that make them, so this is not always the product of `sizes`.
    exact: whether the value is float32 (or float64) whatever the model's dtype, as statistics and routing are.
    """

    name: str
    layer: int | None
    axes: tuple[str, ...]
    sizes: tuple[int | None, ...]
    width: int
    exact: bool = False

    @property
    def short(self) -> str:
        """The name within its layer, without `hook_`: "attn.q", "resid_pre", "ln_final.scale"."""
        path = self.name.split(".")
        inside = path if self.layer is None else path[2:]
        return ".".join([*inside[:-1], inside[-1].removeprefix("hook_")])

    def __str__(self) -> str:
        return f"{self.name} [{' '.join(self.axes)}]"


Selector: TypeAlias = str | tuple[str, int | None] | Callable[[str], bool] | Site


@dataclass(frozen=True)
class Place:
    """Where a component stands in a model; it names the component's sites."""

    prefix: str = ""
    layer: int | None = None

    def inside(self, name: str, layer: int | None = None) -> Place:
        prefix = f"{self.prefix}.{name}" if self.prefix else name
        return Place(prefix, self.layer if layer is None else layer)

    def site(self, name: str, axes: str, width: int | None = None, exact: bool = False, **sizes: int) -> Site:
        """`place.site("hook_q", "batch pos head d_head", head=8, d_head=64)`."""
        words = tuple(axes.split())
        known = tuple(sizes.get(word) for word in words)
        if width is None:
            width = prod(size for size in known if size is not None)
        full = f"{self.prefix}.{name}" if self.prefix else name
        return Site(full, self.layer, words, known, width, exact)


class Sites(Sequence[Site]):
    """Every site of a model, in the order in which they fire."""

    def __init__(self, sites: Sequence[Site]):
        self._sites = tuple(sites)
        self._by_name = {site.name: site for site in self._sites}
        self._by_short: dict[str, list[Site]] = {}
        for site in self._sites:
            for short in {site.short, site.short.rpartition(".")[2]}:
                self._by_short.setdefault(short, []).append(site)
        self._layers = 1 + max((site.layer for site in self._sites if site.layer is not None), default=-1)

    @overload
    def __getitem__(self, index: int) -> Site: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Site]: ...
    def __getitem__(self, index):
        return self._sites[index]

    def __len__(self) -> int:
        return len(self._sites)

    def __iter__(self) -> Iterator[Site]:
        return iter(self._sites)

    def __contains__(self, site: object) -> bool:
        return site in self._by_name or site in self._sites

    def __repr__(self) -> str:
        return "\n".join(str(site) for site in self._sites)

    @property
    def names(self) -> list[str]:
        return list(self._by_name)

    def select(self, selector: Selector) -> list[Site]:
        """Every site that a selector names, in firing order; at least one, or a SiteError."""
        if isinstance(selector, Site):
            selector = selector.name
        if isinstance(selector, str):
            return self._named(selector)
        if isinstance(selector, tuple):
            return [self._short(*_short_form(selector))]
        if callable(selector):
            chosen = [site for site in self._sites if selector(site.name)]
            if not chosen:
                raise SiteError(f"the filter {_describe(selector)} matches none of the {len(self)} sites")
            return chosen
        raise KindError(
            f"a site is a name, a short form such as ('resid_pre', 3), a glob or a callable over names, "
            f"not {type(selector).__name__} {selector!r}"
        )

    def one(self, selector: Selector) -> Site:
        """The single site that a selector names; SiteError when it names several."""
        chosen = self.select(selector)
        if len(chosen) > 1:
            listed = ", ".join(site.name for site in chosen[:4]) + (", ..." if len(chosen) > 4 else "")
            raise SiteError(f"{selector!r} names {len(chosen)} sites where one is wanted: {listed}")
        return chosen[0]

    def _named(self, name: str) -> list[Site]:
        if name in self._by_name:
            return [self._by_name[name]]
        if any(mark in name for mark in "*?["):
            chosen = [site for site in self._sites if fnmatchcase(site.name, name)]
        else:
            chosen = _unambiguous(name, self._answering(name))
        if not chosen:
            raise SiteError(f"no site matches {name!r}; {nearest(name, self._candidates(name))}")
        return chosen

    def _short(self, short: str, layer: int | None) -> Site:
        if layer is not None and not -self._layers <= layer < self._layers:
            raise SiteError(f"layer {layer} was asked for; this model has layers 0 to {self._layers - 1}")
        where = layer if layer is None or layer >= 0 else layer + self._layers
        chosen = [site for site in self._answering(short) if site.layer == where]
        if not chosen:
            there = [site.short for site in self._sites if site.layer == where]
            raise SiteError(f"no site {short!r} in layer {layer}; {nearest(short, there)}")
        return _unambiguous((short, layer), chosen)[0]

    def _answering(self, short: str) -> list[Site]:
        return self._by_short.get(".".join(part.removeprefix("hook_") for part in short.split(".")), [])

    def _candidates(self, name: str) -> list[str]:
        return self.names if "." in name or name.startswith("hook_") else sorted({s.short for s in self._sites})


def _is_bool(layer: object) -> bool:
    """True is an index to Python, and numpy's and torch's are too; none is meant as one."""
    return str(getattr(layer, "dtype", type(layer).__name__)) in ("bool", "torch.bool")


def _short_form(selector: tuple) -> tuple[str, int | None]:
    match selector:
        case (str(short), None):
            return short, None
        case (str(short), layer) if hasattr(layer, "__index__") and not _is_bool(layer):
            return short, layer.__index__()
        case (str(short), layer, str(component)):  # as TransformerLens has it: ("pattern", 5, "attn")
            return _short_form((f"{component}.{short}", layer))
    raise KindError(f"a short form is a pair such as ('resid_pre', 3), not {selector!r}")


def _unambiguous(asked: object, chosen: list[Site]) -> list[Site]:
    kinds = sorted({site.short for site in chosen})
    if len(kinds) > 1:
        raise SiteError(f"{asked!r} fits more than one site, write one of: {', '.join(kinds)}")
    return chosen


def _describe(selector: Callable) -> str:
    return getattr(selector, "__name__", None) or repr(selector)


def _exists(prefix: list[str], leaf: str) -> bool:
    """Whether a component of this name has such a site."""
    if len(prefix) == 1 and prefix[0] in ("ln1", "ln2", "ln1_post", "ln2_post", "ln_final"):
        return leaf in ("scale", "normalized", "out")
    return len(prefix) == 1 and leaf in _COMPONENT_OF.get(prefix[0], "").split()


# The field's names by the component they stand in; what is not here stands in the block itself.
_COMPONENT_OF = {
    "attn": "q k v q_normed k_normed rot_q rot_k attn_scores pattern z sink q_latent kv_latent k_rope",
    "mlp": "pre pre_linear post router_logits expert_weights shared_out",
    "": "resid_pre resid_mid resid_post attn_in mlp_in attn_out mlp_out",
}
_WITHOUT_LAYER = ("embed", "pos_embed")


def site_name(short: str, layer: int | None = None) -> str:
    """The full name of a site, without a model at hand.

    >>> site_name("pattern", 3)
    'blocks.3.attn.hook_pattern'
    >>> site_name("ln1.scale", 0)
    'blocks.0.ln1.hook_scale'

    A model that lacks the site says so when the name is used. A SiteError for a name outside the field's
    vocabulary, and for one such as "scale" that stands in several components.
    """
    path = [part.removeprefix("hook_") for part in short.split(".")]
    leaf, prefix = path[-1], path[:-1]
    if not prefix:
        homes = [home for home, names in _COMPONENT_OF.items() if leaf in names.split()]
        known = [*_WITHOUT_LAYER, *(name for names in _COMPONENT_OF.values() for name in names.split())]
        if leaf in ("scale", "normalized", "out"):
            raise SiteError(f"{short!r} fits every norm, write ln1.{leaf}, ln2.{leaf} or ln_final.{leaf}")
        if not homes and leaf not in _WITHOUT_LAYER:
            raise SiteError(f"no site is called {short!r}; {nearest(leaf, known)}")
        prefix = [homes[0]] if homes and homes[0] else []
    elif not _exists(prefix, leaf):
        raise SiteError(f"no site is called {short!r}; a component's site is wanted, such as 'attn.q' or 'ln1.scale'")
    outside = leaf in _WITHOUT_LAYER or prefix[:1] == ["ln_final"]
    if layer is not None and (not isinstance(layer, int) or isinstance(layer, bool) or layer < 0):
        raise SiteError(f"layer {layer!r} was given; without a model at hand, a number from 0 is wanted")
    if outside != (layer is None):
        wanted = "no layer" if outside else "a layer"
        raise SiteError(f"site {short!r} is named with {wanted}, and {layer!r} was given")
    block = [] if layer is None else ["blocks", str(layer)]
    return ".".join([*block, *prefix, f"hook_{leaf}"])
