"""Direct logit attribution (Elhage et al. 2021; Wang et al. 2022, section 3.1): what each part of the model writes
straight to the logits, past all that reads the stream later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from ..decompose import refuse_unless_sum
from ..errors import InputError, KindError, MetricError
from ..hooked import HookedTransformer
from ..hooks import HookLike
from ..inputs import TextLike
from ..interventions._choice import Choice, within
from ..keywords import checked_keywords
from ..metrics import Metric, MetricLike
from ..metrics.logits import Logit, LogitDiff
from ..sweep.labels import read_labels
from ..sweep.texts import read_one
from .attribution import UNITS, Attribution
from .parts import Parts, Split, by_head, by_neuron, parts_of
from .readout import Readout, read_out

SPLITS: dict[str, dict[str, Split]] = {
    "component": {},
    "head": {"attn_out": by_head},
    "neuron": {"mlp_out": by_neuron},
}
OF = {Logit: "logit", LogitDiff: "logit_diff"}  # metrics that are linear in logits


@checked_keywords
def direct_logit_attribution(
    model: HookedTransformer,
    tokens: TextLike,
    metric: MetricLike,
    by: str = "component",
    *,
    layers: Choice = None,
    positions: Mapping[str, Sequence[int]] | None = None,
    hooks: Sequence[HookLike] = (),
    attention_mask: Tensor | None = None,
) -> Attribution:
    """Take a logit, or a difference of logits, apart into what each part of the model adds to it.

    With the final norm's scale frozen at the run's own, the last stream's way to a logit is linear, and the stream is
    the sum of what was written to it. So the parts sum to the metric, up to rounding.

    metric:    `wb.logit` or `wb.logit_diff`. Where the model's logits have a softcap, those before it are taken apart.
    by:        "component": embedding, positions, and what attention and feed-forward of each layer write. "head": the
               heads in place of each attention. "neuron": the neurons in place of each feed-forward, or the experts,
               where it is a mixture. Heads and neurons go through an output norm with its scale frozen too. What biases
               add inside is a part of its own, as are the final norm's bias and the unembedding's.
    layers:    split these only; the others' components stay whole.
    positions: {label: [position of each example]}, for a metric that reads a label.
    hooks:     it is the run with these that is taken apart. One at a stream, or at the output of what is split, puts
               something there that nobody wrote; that is a part of its own, such as "5_resid_pre_edit".

    tokens: texts or tokens (these with an attention_mask, where padded). MetricError for a metric that is not linear in
    logits; InputError for a wiring whose stream is not a sum of writes.
    """
    model = _checked_model(model).with_hooks(hooks)
    splits, metric = _splits(by, layers), _linear(metric).resolved(model.tokenizer)
    refuse_unless_sum(model, model.spec.n_layers)
    chosen = range(model.spec.n_layers) if layers is None else within(layers, model.spec.n_layers, "layer")
    text = read_one(model, tokens, attention_mask)
    labels = read_labels(_checked_positions(positions), text)
    with torch.no_grad():
        readout = read_out(model, text, metric.of_texts(text.tokens, text.positions >= 0, labels))
        return _result(readout, list(parts_of(readout, splits, chosen)), by, OF[type(metric)])


def _result(readout: Readout, parts: list[Parts], by: str, of: str) -> Attribution:
    layers = [-1 if some.layer is None else some.layer for some in parts for _ in some.labels]
    units = [unit if some.kind in UNITS else -1 for some in parts for unit in range(len(some.labels))]
    return Attribution(
        values=torch.cat([some.values for some in parts], 1).cpu(),
        labels=tuple(label for some in parts for label in some.labels),
        kinds=tuple(some.kind for some in parts for _ in some.labels),
        layers=torch.tensor(layers),
        units=torch.tensor(units),
        total=readout.total.cpu(),
        by=by,
        of=of,
        softcapped=getattr(readout.model.spec.unembed, "softcap", None) is not None,
    )


def _checked_model(model: object) -> HookedTransformer:
    if not isinstance(model, HookedTransformer):
        raise KindError(f"a model that wb.load or HookedTransformer gives is wanted, not {type(model).__name__}")
    return model


def _splits(by: object, layers: Choice) -> dict[str, Split]:
    if not isinstance(by, str) or by not in SPLITS:
        raise InputError(f"by is {by!r}; one of {', '.join(map(repr, SPLITS))} is wanted")
    if layers is not None and not SPLITS[by]:
        raise InputError("layers= says which layers are split, and by 'component' splits none; leave it out")
    return SPLITS[by]


def _linear(metric: object) -> Logit | LogitDiff:
    if isinstance(metric, (Logit, LogitDiff)):
        return metric
    of_logits = callable(metric) and not isinstance(metric, Metric)
    came = "a function of logits" if of_logits else type(metric).__name__
    kind = MetricError if callable(metric) else KindError
    raise kind(f"only what is linear in logits can be taken apart, wb.logit or wb.logit_diff, not {came}")


def _checked_positions(positions: object) -> object:
    if positions is not None and not isinstance(positions, Mapping):
        raise KindError(f"positions is {{label: [position of each example]}}; {positions!r} came")
    return positions
