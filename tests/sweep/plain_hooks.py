"""The naive sweep: a full forward of a transformers model for every cell, with plain PyTorch hooks.

A *spot* is where transformers computes the value of a site: what goes into a module or comes out of it, or what passes
through the softmax that it calls. Edits change a copy of that value in place, through a view in which positions, heads
and the like are axes of their own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Edit: TypeAlias = Callable[[Tensor], object]  # in place
Choice: TypeAlias = int | Sequence[int] | Tensor  # a number, several, or one for each example
New: TypeAlias = Tensor | Callable[[Tensor], Tensor]  # what a value becomes, perhaps made of what it is


class View(NamedTuple):
    """Part of what a module gives or takes, with its axes in words; `of` returns a view, so that edits reach it."""

    axes: tuple[str, ...]
    of: Callable[[Tensor], Tensor]


VECTORS = View(("example", "pos", "d"), lambda value: value)


@dataclass(frozen=True)
class Spot(ABC):
    """path: of the module, from the block (or from the model, for what stands in no block)."""

    path: str
    view: View = VECTORS

    @abstractmethod
    def hooked(self, within: nn.Module, edit: Edit, n_examples: int) -> Any:
        """A context in which every run of the model is edited here."""

    def stands_in(self, within: nn.Module) -> bool:
        try:
            within.get_submodule(self.path)
        except AttributeError:
            return False
        return True

    def edited(self, value: Tensor, edit: Edit, n_examples: int) -> Tensor:
        """A copy, edited. Some modules get the tokens of all examples in a row, and positions are embedded once for
        all of them."""
        copy = value.expand(n_examples, *value.shape[1:]).clone() if value.ndim > 2 else value.clone()
        edit(self.view.of(copy if value.ndim > 2 else copy.unflatten(0, (n_examples, -1))))
        return copy


class Input(Spot):
    @contextmanager
    def hooked(self, within: nn.Module, edit: Edit, n_examples: int) -> Iterator[None]:
        def before(_, args, keywords):
            if args:
                return (self.edited(args[0], edit, n_examples), *args[1:]), keywords
            return args, {**keywords, "hidden_states": self.edited(keywords["hidden_states"], edit, n_examples)}

        with handle(within.get_submodule(self.path).register_forward_pre_hook(before, with_kwargs=True)):
            yield


class Output(Spot):
    @contextmanager
    def hooked(self, within: nn.Module, edit: Edit, n_examples: int) -> Iterator[None]:
        def after(_, args, out):
            if isinstance(out, tuple):
                return (self.edited(out[0], edit, n_examples), *out[1:])
            return self.edited(out, edit, n_examples)

        with handle(within.get_submodule(self.path).register_forward_hook(after)):
            yield


class Between(Output):
    """The stream between a block's two parts: its input plus what comes out of the module that writes first."""

    @contextmanager
    def hooked(self, within: nn.Module, edit: Edit, n_examples: int) -> Iterator[None]:
        stream: list[Tensor] = []

        def edit_sum(written):
            summed = written + stream[-1]
            edit(summed)
            written.copy_(summed - stream[-1])

        with (
            handle(within.register_forward_pre_hook(lambda _, args: stream.append(args[0]))),
            super().hooked(within, edit_sum, n_examples),
        ):
            yield


class AfterSoftmax(Spot):
    """What comes out of the one softmax that a module calls."""

    @contextmanager
    def hooked(self, within: nn.Module, edit: Edit, n_examples: int) -> Iterator[None]:
        softmax, module = F.softmax, within.get_submodule(self.path)

        def open_up(*_):
            before = F.softmax
            F.softmax = lambda *args, **keywords: self.around(before, edit, n_examples, *args, **keywords)

        def close(*_):
            F.softmax = softmax

        try:
            with (
                handle(module.register_forward_pre_hook(open_up)),
                handle(module.register_forward_hook(close)),
            ):
                yield
        finally:
            F.softmax = softmax

    def around(self, softmax: Callable, edit: Edit, n_examples: int, scores: Tensor, **keywords: Any) -> Tensor:
        return self.edited(softmax(scores, **keywords), edit, n_examples)


class BeforeSoftmax(AfterSoftmax):
    """What goes into it."""

    def around(self, softmax: Callable, edit: Edit, n_examples: int, scores: Tensor, **keywords: Any) -> Tensor:
        return softmax(self.edited(scores, edit, n_examples), **keywords)


class Routing(Spot):
    """The weight of each expert for each token, 0 where it is not chosen. The module gives logits, the weights of those
    chosen and their numbers; after an edit every expert is chosen, some with weight 0."""

    @contextmanager
    def hooked(self, within: nn.Module, edit: Edit, n_examples: int) -> Iterator[None]:
        def after(_, args, out):
            logits, weights, chosen = out
            every = self.edited(torch.zeros_like(logits).scatter(1, chosen, weights), edit, n_examples)
            return logits, every, torch.arange(logits.shape[1]).expand_as(logits)

        with handle(within.get_submodule(self.path).register_forward_hook(after)):
            yield


@contextmanager
def handle(hook: torch.utils.hooks.RemovableHandle) -> Iterator[None]:
    try:
        yield
    finally:
        hook.remove()


@dataclass(frozen=True)
class Places:
    """Where a family of transformers has its sites.

    blocks: path of the list of blocks.
    inside: of each block;  outside: of the model, beside the blocks.
    """

    blocks: str
    inside: Mapping[str, Spot]
    outside: Mapping[str, Spot]

    def __getitem__(self, site: str) -> Spot:
        return self.inside[site] if site in self.inside else self.outside[site]


class PlainHooks:
    def __init__(self, theirs: nn.Module, places: Places):
        self.theirs, self.places = theirs, places
        self.blocks = list(theirs.get_submodule(places.blocks).children())

    def layers(self, site: str) -> list[int | None]:
        """The layers that have a site; [None] for one in no layer."""
        if site in self.places.outside:
            return [None]
        return [layer for layer, block in enumerate(self.blocks) if self.places[site].stands_in(block)]

    @torch.no_grad()
    def run(self, tokens: Tensor, *edits: tuple[str, int | None, Edit]) -> Tensor:
        """Logits [example, pos, vocab] of a run with edits, each (site, layer, edit) reached exactly once."""
        reached = [0] * len(edits)

        def counted(number: int, edit: Edit) -> Edit:
            def counting(value: Tensor) -> None:
                reached[number] += 1
                edit(value)

            return counting

        with ExitStack() as stack:
            for number, (site, layer, edit) in enumerate(edits):
                within = self.theirs if layer is None else self.blocks[layer]
                stack.enter_context(self.places[site].hooked(within, counted(number, edit), len(tokens)))
            logits = self.theirs(tokens, use_cache=False).logits
        assert reached == [1] * len(edits)
        return logits

    def values(self, tokens: Tensor, site: str, *before: tuple[str, int | None, Edit]) -> dict[int | None, Tensor]:
        """By layer, what a run has at a site; in a run with edits, after these."""
        found: dict[int | None, Tensor] = {}

        def keep(layer: int | None) -> Edit:
            return lambda value: found.update({layer: value.clone()})

        self.run(tokens, *before, *((site, layer, keep(layer)) for layer in self.layers(site)))
        return found

    def sweep(
        self,
        tokens: Tensor,
        site: str,
        axes: Sequence[str],
        new: Mapping[int | None, New],
        *before: tuple[str, int | None, Edit],
        **places: Sequence[Choice],
    ) -> Tensor:
        """Logits [example, *axes, pos, vocab]: in each cell the site becomes `new`, by layer, at one place of every
        axis, and at all places of those that are no axes.

        places: of an axis, what is a place on it; by default every number. An axis "label" is of positions.
        """
        shape = dict(
            zip(self.places[site].view.axes, next(iter(self.values(tokens, site).values())).shape, strict=True)
        )
        along = "query" if "query" in shape else "pos"
        sizes = {**shape, "label": shape[along]}
        steps: dict[str, list[Any]] = {"layer": [several(choice) for choice in places.get("layer", self.layers(site))]}
        for axis in {*axes, *places} - {"layer"}:
            steps[axis] = [chosen(choice, sizes[axis]) for choice in places.get(axis, range(sizes[axis]))]
        logits = []
        for cell in product(*(steps[axis] for axis in axes)):
            at = dict(zip(axes, cell, strict=True))
            layers = dict.fromkeys(at["layer"] if "layer" in at else sum(steps["layer"], ()))
            masks = {axis: at[axis] if axis in at else torch.stack(steps[axis]).any(0) for axis in {*steps} - {"layer"}}
            within = {along if axis == "label" else axis: mask for axis, mask in masks.items()}
            puts = [(site, layer, self.put(site, new[layer], within)) for layer in layers]
            logits.append(self.run(tokens, *before, *puts))
        return torch.stack(logits, 1).unflatten(1, [len(steps[axis]) for axis in axes]) if axes else logits[0]

    def put(self, site: str, new: New, within: Mapping[str, Tensor]) -> Edit:
        """The value becomes new within [place] or [example place] of these axes, and anywhere along others."""
        mask = torch.ones([1] * len(self.places[site].view.axes), dtype=torch.bool)
        for axis, word in enumerate(self.places[site].view.axes):
            if word in within:
                of_axis = within[word]
                shape = [len(of_axis) if of_axis.ndim == 2 else 1, *[1] * (mask.ndim - 1)]
                shape[axis] = of_axis.shape[-1]
                mask = mask & of_axis.view(shape)
        return lambda value: value.copy_(torch.where(mask, new if isinstance(new, Tensor) else new(value), value))


def several(layers: Any) -> tuple[int | None, ...]:
    return (layers,) if layers is None or isinstance(layers, int) else tuple(layers)


def chosen(choice: Choice, size: int) -> Tensor:
    """[place] of a number or several; [example place] of a tensor with one for each example."""
    if isinstance(choice, Tensor):
        return choice[:, None] == torch.arange(size)
    return torch.isin(torch.arange(size), torch.tensor(choice))
