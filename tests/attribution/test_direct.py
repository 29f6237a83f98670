"""Direct attribution: against plain PyTorch on transformers models, and against each part pushed forward by itself."""

from dataclasses import replace

import pytest
import torch
from cases import ALL
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from parity import VOCAB as N_WORDS
from parity import padded_batch, tiny
from random_models import VOCAB, close, powered, some_tokens, specs
from test_cache import plain_spec
from words import WORDS, word_tokenizer

import workbench as wb
from workbench.model.block import PostNorm
from workbench.model.embedding import UnembeddingSpec
from workbench.model.mlp import GatedMLPSpec
from workbench.model.moe import MixtureOfExperts, MixtureOfExpertsSpec
from workbench.model.router import RouterSpec

errors = wb.errors
BY = ("component", "head", "neuron")
METRIC = wb.logit_diff(3, 8, pos=-2)
few = settings(max_examples=12)


def named(parts):
    return dict(zip(parts.labels, parts.values.unbind(1), strict=True))


def sums(parts, tolerance=1e-5):
    """Whether the parts sum to the metric, but for rounding of the largest."""
    largest = torch.maximum(parts.values.abs().amax(1), parts.total.abs())
    return bool(((parts.values.sum(1) - parts.total).abs() <= tolerance * largest).all())


@pytest.fixture(scope="module")
def model():
    return powered(plain_spec())


@pytest.fixture(scope="module")
def model_of_words():
    model = powered(plain_spec())
    model.tokenizer = word_tokenizer()
    return model


# Plain PyTorch: a transformers model with hooks on its modules


def inputs_and_outputs(theirs, modules, tokens):
    """What goes into and comes out of each module, by its name."""
    seen, handles = {}, []
    for name, module in modules.items():

        def keep(module, inputs, output, name=name):
            seen[name] = inputs[0] if inputs else None, output[0] if isinstance(output, tuple) else output

        handles.append(module.register_forward_hook(keep))
    logits = theirs(tokens).logits
    for handle in handles:
        handle.remove()
    return seen, logits


@torch.no_grad()
def gpt2_by_hand(theirs, tokens, example, pos, answer):
    """Every part of a logit of one example, in loops."""
    body, parts = theirs.transformer, {}
    modules = {"wte": body.wte, "wpe": body.wpe, "ln_f": body.ln_f}
    for layer, block in enumerate(body.h):
        modules |= {f"{layer} z": block.attn.c_proj, f"{layer} post": block.mlp.c_proj}
    seen, logits = inputs_and_outputs(theirs, modules, tokens)
    stream = seen["ln_f"][0][example, pos]
    scale = (stream.var(unbiased=False) + body.ln_f.eps).sqrt()

    def of(write):
        return float(((write - write.mean()) / scale * body.ln_f.weight) @ theirs.lm_head.weight[answer])

    parts["embed"], parts["pos_embed"] = of(seen["wte"][1][example, pos]), of(seen["wpe"][1][0, pos])
    for layer, block in enumerate(body.h):
        z, project = seen[f"{layer} z"][0][example, pos], block.attn.c_proj
        width = len(z) // theirs.config.n_head
        for head in range(theirs.config.n_head):
            mine = slice(head * width, (head + 1) * width)
            parts[f"L{layer}H{head}"] = of(z[mine] @ project.weight[mine])
        parts[f"{layer}_b_O"] = of(project.bias)
        parts[f"{layer}_attn_out"] = of(z @ project.weight + project.bias)
        post, project = seen[f"{layer} post"][0][example, pos], block.mlp.c_proj
        for neuron in range(len(post)):
            parts[f"L{layer}N{neuron}"] = of(post[neuron] * project.weight[neuron])
        parts[f"{layer}_b_out"] = of(project.bias)
        parts[f"{layer}_mlp_out"] = of(post @ project.weight + project.bias)
    parts["ln_final_bias"] = float(body.ln_f.bias @ theirs.lm_head.weight[answer])
    return parts, float(logits[example, pos, answer])


@torch.no_grad()
def llama_by_hand(theirs, tokens, example, pos, answer):
    body, parts = theirs.model, {}
    modules = {"embed": body.embed_tokens, "norm": body.norm}
    for layer, block in enumerate(body.layers):
        modules |= {f"{layer} z": block.self_attn.o_proj, f"{layer} post": block.mlp.down_proj}
    seen, logits = inputs_and_outputs(theirs, modules, tokens)
    stream = seen["norm"][0][example, pos]
    scale = (stream.pow(2).mean() + body.norm.variance_epsilon).sqrt()

    def of(write):
        return float((write / scale * body.norm.weight) @ theirs.lm_head.weight[answer])

    parts["embed"] = of(seen["embed"][1][example, pos])
    for layer, block in enumerate(body.layers):
        z, project = seen[f"{layer} z"][0][example, pos], block.self_attn.o_proj
        n_heads = theirs.config.num_attention_heads
        width = len(z) // n_heads
        for head in range(n_heads):
            mine = slice(head * width, (head + 1) * width)
            parts[f"L{layer}H{head}"] = of(project.weight[:, mine] @ z[mine])
        parts[f"{layer}_attn_out"] = of(seen[f"{layer} z"][1][example, pos])
        if project.bias is not None:
            parts[f"{layer}_b_O"] = of(project.bias)
        post, project = seen[f"{layer} post"][0][example, pos], block.mlp.down_proj
        for neuron in range(len(post)):
            parts[f"L{layer}N{neuron}"] = of(post[neuron] * project.weight[:, neuron])
        parts[f"{layer}_mlp_out"] = of(seen[f"{layer} post"][1][example, pos])
        if project.bias is not None:
            parts[f"{layer}_b_out"] = of(project.bias)
    return parts, float(logits[example, pos, answer])


BY_HAND = {"gpt2: tied": gpt2_by_hand, "gpt2: untied, narrow": gpt2_by_hand}
BY_HAND |= {"llama: grouped, untied": llama_by_hand, "llama: one kv head, tied, wide heads, biases": llama_by_hand}


@pytest.mark.parametrize("name", BY_HAND)
@pytest.mark.parametrize("by", BY)
def test_every_part_is_what_plain_pytorch_finds(name, by):
    theirs, tokens = tiny(ALL[name]), some_tokens(2, 9, N_WORDS)
    model = wb.from_huggingface(theirs)
    ours = wb.direct_logit_attribution(model, tokens, wb.logit([5, 41], pos=[6, 3]), by)
    for example, (pos, answer) in enumerate([(6, 5), (3, 41)]):
        by_hand, logit = BY_HAND[name](theirs, tokens, example, pos, answer)
        found = {label: float(value[example]) for label, value in named(ours).items()}
        assert found.keys() <= by_hand.keys()
        largest = max(map(abs, by_hand.values()))
        assert not [label for label in found if abs(found[label] - by_hand[label]) > 2e-5 * largest]
        assert float(ours.total[example]) == pytest.approx(logit, abs=2e-5 * largest)
        assert sum(found.values()) == pytest.approx(logit, abs=2e-5 * largest)


@pytest.mark.parametrize("name", ALL)
def test_parts_sum_in_every_family(name):
    model = wb.from_huggingface(tiny(ALL[name]))
    tokens, mask = padded_batch("left")
    logits, _ = model(tokens, attention_mask=mask)
    cap, metric = getattr(model.spec.unembed, "softcap", None), wb.logit_diff([1, 2, 3], 7)
    if not all(block.adds for block in model.blocks):
        with pytest.raises(errors.InputError, match="norms the stream after each addition"):
            wb.direct_logit_attribution(model, tokens, metric, attention_mask=mask)
        return
    wanted = metric(logits if cap is None else cap * (logits.double() / cap).atanh())
    for by in BY:
        parts = wb.direct_logit_attribution(model, tokens, metric, by, attention_mask=mask)
        assert sums(parts)
        assert parts.softcapped == (cap is not None)
        assert close(parts.total, wanted, 1e-4)


# Random specs: each part pushed forward by itself


def one_by_one(model, cache, layer, by):
    """What each head, neuron or expert of a layer writes, [unit, batch, pos, d_model], and their labels."""
    block = model.blocks[layer]
    if by == "head":
        written = [cache["z", layer][:, :, [head]] @ block.attn.W_O[head] for head in range(len(block.attn.W_O))]
        written, norm, letter = [each[:, :, 0] for each in written], block.ln1_post, "H"
    elif isinstance(block.mlp, MixtureOfExperts):
        written, norm, letter = cache.expert_outputs(layer).unbind(-2), block.ln2_post, "E"
    else:
        post = cache["post", layer]
        written, norm, letter = [], block.ln2_post, "N"
        for neuron in range(post.shape[-1]):
            alone = torch.zeros_like(post)
            alone[..., neuron] = post[..., neuron]
            written.append(alone @ block.mlp.W_out)
    scale = None if norm.hook_scale is None else cache[norm.hook_scale.name]
    return {f"L{layer}{letter}{unit}": norm.frozen(each, scale) for unit, each in enumerate(written)}


def pushed_forward(model, cache, metric, by):
    """The parts that are no biases, by their labels, through the cache's own arithmetic at every position."""
    split = {"component": None, "head": "attn_out", "neuron": "mlp_out"}[by]
    stack, labels = cache.decompose_resid(return_labels=True)
    writes = {label: each for label, each in zip(labels, stack, strict=True) if not label.endswith(str(split))}
    for layer, block in enumerate(model.blocks):
        if split in block.writes:
            writes |= one_by_one(model, cache, layer, by)
    attrs = cache.logit_attrs(torch.stack(list(writes.values())), metric.correct, metric.incorrect)
    return dict(zip(writes, attrs[:, :, metric.pos], strict=True))


@given(specs(), st.sampled_from(BY), st.booleans())
def test_parts_sum_to_the_metric_and_each_is_what_it_says(spec, by, padded):
    model, tokens, mask = powered(spec), some_tokens(2), torch.ones(2, 7, dtype=torch.long)
    if padded:
        mask[0, :3], mask[1, 5:] = 0, 0  # to the left, and to the right
    parts = wb.direct_logit_attribution(model, tokens, METRIC, by, attention_mask=mask)
    assert sums(parts)
    assert len(set(parts.labels)) == len(parts.labels) == parts.values.shape[1]
    logits, cache = model.run_with_cache(tokens, attention_mask=mask)
    cap = getattr(spec.unembed, "softcap", None)
    logits = logits if cap is None else cap * (logits.double() / cap).atanh()
    ends = torch.tensor([-2, -4]) if padded else torch.tensor([-2, -2])
    rows = logits[torch.arange(2), ends]
    if cap is None:
        assert close(parts.total, rows[:, 3] - rows[:, 8], 1e-5)
    for example, end in enumerate(ends.tolist()):
        wanted = pushed_forward(model, cache, wb.logit_diff(3, 8, pos=end), by)
        found = {label: value[example] for label, value in named(parts).items()}
        largest = parts.values[example].abs().max()
        rest = {label for label in found if label not in wanted}
        assert wanted.keys() <= found.keys()
        assert {parts.kinds[parts.labels.index(label)] for label in rest} <= {"bias", "shared_out"}
        for label, value in wanted.items():
            assert (found[label] - value[example]).abs() <= 1e-5 * largest, label


@given(specs())
def test_by_head_and_by_neuron_only_split_what_by_component_has(spec):
    model, tokens = powered(spec), some_tokens()
    whole, heads, neurons = (wb.direct_logit_attribution(model, tokens, METRIC, by) for by in BY)
    for split, name in ((heads, "attn_out"), (neurons, "mlp_out")):
        for layer, block in enumerate(model.blocks):
            if name not in block.writes:
                continue
            kept = "mlp_out" if name == "attn_out" else "attn_out"
            inside = (split.layers == layer) & torch.tensor([label != f"{layer}_{kept}" for label in split.labels])
            together = named(whole)[f"{layer}_{name}"]
            scale = split.values[:, inside].abs().amax(1)
            assert ((split.values[:, inside].sum(1) - together).abs() <= 1e-5 * scale).all()
        outside = [label for label, layer in zip(whole.labels, whole.layers.tolist(), strict=True) if layer < 0]
        assert all(torch.equal(named(split)[label], named(whole)[label]) for label in outside)


def test_the_order_is_that_of_depth_and_the_names_are_the_fields(model):
    assert wb.direct_logit_attribution(model, some_tokens(), METRIC).labels == (
        *("embed", "pos_embed", "0_attn_out", "0_mlp_out", "1_attn_out", "1_mlp_out", "2_attn_out", "2_mlp_out"),
        *("ln_final_bias", "unembed_bias"),
    )
    heads = [(*(f"L{layer}H{head}" for head in range(4)), f"{layer}_b_O", f"{layer}_mlp_out") for layer in range(3)]
    assert wb.direct_logit_attribution(model, some_tokens(), METRIC, "head").labels == (
        *("embed", "pos_embed"),
        *(label for layer in heads for label in layer),
        *("ln_final_bias", "unembed_bias"),
    )
    parts = wb.direct_logit_attribution(model, some_tokens(), METRIC, "neuron", layers=[1])
    assert parts.labels[2:17] == (
        *("0_attn_out", "0_mlp_out", "1_attn_out"),
        *(f"L1N{neuron}" for neuron in range(10)),
        *("1_b_out", "2_attn_out"),
    )
    assert sums(parts)
    assert parts.layers[:5].tolist() == [-1, -1, 0, 0, 1]
    assert parts.units[4:7].tolist() == [-1, 0, 1]


# Metrics


def test_answers_of_every_form(model):
    tokens, logits = some_tokens(3), model(some_tokens(3))[0]
    ragged = [[1, 2, 3], [4], [5, 6]]
    for metric in (
        wb.logit(4),
        wb.logit([4, 5, 6]),
        wb.logit(ragged),
        wb.logit(ragged, pos=[0, 3, -1]),
        wb.logit_diff(ragged, [9, 8, 7], pos=2),
        wb.logit_diff([9, 8, 7], ragged, pos=torch.tensor([1, 1, 6])),
        wb.logit_diff(1, [[2, 3], [4, 5], [6, 7]]),
    ):
        for by in BY:
            parts = wb.direct_logit_attribution(model, tokens, metric, by)
            assert close(parts.total, metric(logits), 1e-5)
            assert sums(parts)
    average = wb.direct_logit_attribution(model, tokens, wb.logit([[1, 2]] * 3)).values
    each = [wb.direct_logit_attribution(model, tokens, wb.logit(token)).values for token in (1, 2)]
    assert torch.allclose(average, (each[0] + each[1]) / 2, atol=1e-6)


def test_texts_words_and_labels(model_of_words):
    model, texts = model_of_words, ["c a f d b", "e b"]
    metric = wb.logit_diff([" a", " b"], " c", pos="there")
    parts = wb.direct_logit_attribution(model, texts, metric, "head", positions={"there": [1, -1]})
    for row, (text, pos, answer) in enumerate([(texts[0], 1, "a"), (texts[1], 1, "b")]):
        alone = wb.direct_logit_attribution(model, text, wb.logit_diff(WORDS.index(answer), 2, pos=pos), "head")
        assert torch.allclose(parts.values[row], alone.values[0], atol=1e-5)
        assert alone.total[0] == pytest.approx(float(parts.total[row]), abs=1e-5)
    assert parts.of == "logit_diff"


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("by", BY)
def test_padding_is_as_if_it_were_not_there(side, by):
    model = wb.from_huggingface(tiny(ALL["gpt2: tied"]))
    tokens, mask = padded_batch(side)
    parts = wb.direct_logit_attribution(model, tokens, wb.logit([3, 4, 5]), by, attention_mask=mask)
    for row, answer in enumerate([3, 4, 5]):
        alone = wb.direct_logit_attribution(model, tokens[row, mask[row].bool()], wb.logit(answer), by)
        assert close(parts.values[row], alone.values[0], 1e-5)
        assert alone.labels == parts.labels


def test_a_softcap_is_said_and_what_stands_before_it_is_taken_apart():
    model, tokens = (
        powered(plain_spec(unembed=UnembeddingSpec(VOCAB, bias=True, scale=0.3, softcap=1.0))),
        some_tokens(),
    )
    plain = powered(plain_spec(unembed=UnembeddingSpec(VOCAB, bias=True, scale=0.3)))
    ours, theirs = (wb.direct_logit_attribution(each, tokens, METRIC, "head") for each in (model, plain))
    assert ours.softcapped
    assert not theirs.softcapped
    assert torch.equal(ours.values, theirs.values)
    assert close(theirs.total, METRIC(plain(tokens)[0]), 1e-5)
    assert (ours.total - METRIC(model(tokens)[0])).abs().max() > 0.1
    assert "before the softcap" in repr(ours)
    assert "softcap" not in repr(theirs)


# The run with hooks is the one that is taken apart


def disturbed(value, at):
    moved = value.flip(-1) if at.axes[-1] != "1" and "key" not in at.axes else value
    return moved + 0.5 * torch.rand(value.shape, generator=torch.Generator().manual_seed(1)).to(value)


def puts(site, by):
    """Whether a hook there stands on what is otherwise a sum."""
    of_split = {"component": (), "head": ("attn_out", "ln1_post"), "neuron": ("mlp_out", "ln2_post")}[by]
    norm, _, name = site.short.rpartition(".")
    if name in ("normalized", "out"):
        return norm == "ln_final" or norm in of_split
    return name.startswith("resid_") or name in of_split


@few
@given(specs(), st.randoms(use_true_random=False))
def test_a_hook_at_any_site_leaves_a_sum(spec, random):
    if getattr(spec.unembed, "softcap", None):
        spec = replace(spec, unembed=UnembeddingSpec(VOCAB))
    model, tokens = powered(spec), some_tokens()
    pairs = [(site, by) for site in model.sites for by in BY]
    likely = [pair for pair in pairs if puts(*pair)]
    for site, by in random.sample(pairs, 8) + random.sample(likely, min(8, len(likely))):
        hooks = [(site.name, disturbed)]
        parts = wb.direct_logit_attribution(model, tokens, METRIC, by, hooks=hooks)
        assert close(parts.total, METRIC(model.run_with_hooks(tokens, hooks)), 1e-5), site.name
        assert sums(parts), (site.name, by)
        assert parts.kinds.count("edit") == puts(site, by), (site.name, by)


def test_a_patched_stream_replaces_what_was_written_before_it(model):
    tokens, other = some_tokens(seed=0), some_tokens(seed=1)
    _, cache = model.run_with_cache(other)
    parts = wb.direct_logit_attribution(model, tokens, METRIC, hooks=[wb.patch(cache, "resid_pre", layers=2)])
    plain = wb.direct_logit_attribution(model, other, METRIC)
    edit = parts.labels.index("2_resid_pre_edit")
    assert parts.labels[:edit] == plain.labels[:edit]
    assert parts.labels[edit + 1 :] == plain.labels[edit:]
    assert torch.allclose(parts.total, plain.total, atol=1e-5)
    assert torch.allclose(parts.values[:, : edit + 1].sum(1), plain.values[:, :edit].sum(1), atol=1e-5)
    assert torch.allclose(parts.values[:, edit + 1 :], plain.values[:, edit:], atol=1e-5)
    assert (parts.values[:, edit].abs() > 0.1).all()
    assert parts.kinds[edit] == "edit"
    assert parts.layers[edit] == 2


def test_every_stream_that_is_edited_has_a_part(model):
    tokens = some_tokens()
    hooks = [("resid_pre", lambda value, at: 0.5 * value), ("resid_post", disturbed)]
    parts = wb.direct_logit_attribution(model, tokens, METRIC, hooks=hooks)
    edits = [label for label, kind in zip(parts.labels, parts.kinds, strict=True) if kind == "edit"]
    assert edits == [f"{layer}_{site}_edit" for layer in range(3) for site in ("resid_pre", "resid_post")]
    before = parts.values[:, : parts.labels.index("1_resid_pre_edit")].sum(1)
    assert torch.allclose(named(parts)["1_resid_pre_edit"], -before / 2, atol=1e-5)
    assert close(parts.total, METRIC(model.run_with_hooks(tokens, hooks)), 1e-5)
    assert sums(parts)


def test_an_ablated_write_by_head_is_what_heads_made_and_what_took_it_away(model):
    tokens, silent = some_tokens(), [wb.zero("attn_out", layers=1)]
    whole = named(wb.direct_logit_attribution(model, tokens, METRIC, hooks=silent))
    parts = named(wb.direct_logit_attribution(model, tokens, METRIC, "head", hooks=silent))
    assert (whole["1_attn_out"] == 0).all()
    made = sum(parts[label] for label in ("L1H0", "L1H1", "L1H2", "L1H3", "1_b_O"))
    assert torch.allclose(parts["1_attn_out_edit"], -made, atol=1e-5)
    assert (made.abs() > 0.1).all()


def test_an_ablated_head_writes_nothing(model):
    tokens, silent = some_tokens(), [wb.zero("z", layers=1, heads=2)]
    parts = wb.direct_logit_attribution(model, tokens, METRIC, "head", hooks=silent)
    assert (named(parts)["L1H2"] == 0).all()
    assert (named(parts)["L1H1"] != 0).all()
    assert sums(parts)


def test_a_view_is_a_run_with_its_hooks(model):
    tokens, hooks = some_tokens(), [wb.zero("z", layers=1, heads=2), (("resid_mid", 0), disturbed)]
    given, plain = (wb.direct_logit_attribution(model, tokens, METRIC, "head", hooks=each) for each in (hooks, ()))
    view = wb.direct_logit_attribution(model.with_hooks(hooks), tokens, METRIC, "head")
    both = wb.direct_logit_attribution(model.with_hooks(hooks[:1]), tokens, METRIC, "head", hooks=hooks[1:])
    assert torch.equal(view.values, given.values)
    assert torch.equal(both.values, given.values)
    assert view.labels == given.labels
    assert not torch.equal(plain.total, given.total)


# Precision, memory, the model left alone


def test_values_are_float32_or_better(model):
    tokens = some_tokens()
    double = wb.direct_logit_attribution(powered(plain_spec()).double(), tokens, METRIC, "neuron")
    assert double.values.dtype == double.total.dtype == torch.float64
    assert sums(double, 1e-12)
    half = powered(plain_spec()).to(torch.bfloat16)
    for by in BY:
        parts = wb.direct_logit_attribution(half, tokens, METRIC, by)
        assert parts.values.dtype == parts.total.dtype == torch.float32
        assert sums(parts, 0.05)
        assert torch.allclose(parts.total, METRIC(half(tokens)[0]), rtol=0.02, atol=0.02)


def test_a_model_that_trains_is_taken_apart_without_a_graph():
    model = powered(plain_spec()).requires_grad_(True)
    parts = wb.direct_logit_attribution(model, some_tokens(), METRIC, "head")
    assert not parts.values.requires_grad
    assert not parts.total.requires_grad


def test_what_neurons_write_is_never_made(model, monkeypatch):
    """No tensor as large as every neuron's write at the row that is read."""
    wide = powered(plain_spec(layers=(plain_spec().layers[0],)))
    n_neurons, d_model = wide.blocks[0].mlp.W_out.shape
    largest = []
    plain = torch.Tensor.sum
    monkeypatch.setattr(
        torch.Tensor, "sum", lambda self, *args, **kw: largest.append(self.numel()) or plain(self, *args, **kw)
    )
    wb.direct_logit_attribution(wide, some_tokens(2), METRIC, "neuron")
    assert max(largest) < 2 * n_neurons * d_model


# Refusals

NOT_LINEAR = {
    "Prob": wb.prob(3),
    "LogProb": wb.logprob(3),
    "Rank": wb.rank(3),
    "a function of logits": lambda logits: logits[:, -1, 3],
}


@pytest.mark.parametrize("name", NOT_LINEAR)
def test_what_is_not_linear_in_logits_is_refused(model, name):
    with pytest.raises(errors.MetricError, match=f"wb.logit or wb.logit_diff, not {name}$"):
        wb.direct_logit_attribution(model, some_tokens(), NOT_LINEAR[name])


def test_metrics_of_whole_predictions_are_refused(model):
    logits, _ = model(some_tokens())
    for metric in (wb.kl_from(logits), wb.loss(some_tokens())):
        with pytest.raises(errors.MetricError, match="linear in logits"):
            wb.direct_logit_attribution(model, some_tokens(), metric)


@few
@given(specs(adds=False))
def test_post_norm_wirings_are_refused(spec):
    assume(any(isinstance(layer, PostNorm) for layer in spec.layers))
    for by in BY:
        with pytest.raises(errors.InputError, match=r"not a sum of writes") as caught:
            wb.direct_logit_attribution(powered(spec), some_tokens(), METRIC, by)
        assert "\n" not in str(caught.value)


def test_a_refusal_comes_before_the_run(model):
    def never(value, at):
        raise AssertionError("the model ran")

    spec = plain_spec(
        layers=(PostNorm(*(getattr(plain_spec().layers[0], name) for name in ("attn", "mlp", "ln1", "ln2"))),)
    )
    for wrong, metric in ((powered(spec), METRIC), (model, wb.prob(3))):
        with pytest.raises(errors.WorkbenchError):
            wb.direct_logit_attribution(wrong, some_tokens(), metric, hooks=[("embed", never)])


KIND, INPUT, METRIC_ERROR = errors.KindError, errors.InputError, errors.MetricError
WRONG = {
    "model": (KIND, "HookedTransformer gives is wanted, not str", lambda m: ("gpt2", some_tokens(), METRIC), {}),
    "tokens": (KIND, "not float", lambda m: (m, 1.5, METRIC), {}),
    "metric": (KIND, "not int", lambda m: (m, some_tokens(), 3), {}),
    "by": (
        INPUT,
        "by is 'heads'; one of 'component', 'head', 'neuron'",
        lambda m: (m, some_tokens(), METRIC, "heads"),
        {},
    ),
    "by list": (INPUT, r"by is \['head'\]", lambda m: (m, some_tokens(), METRIC, ["head"]), {}),
    "layers": (INPUT, "by 'component' splits none", lambda m: (m, some_tokens(), METRIC), {"layers": 1}),
    "layer": (
        errors.InterventionError,
        "layer 3 was chosen",
        lambda m: (m, some_tokens(), METRIC, "head"),
        {"layers": 3},
    ),
    "layer kind": (KIND, "'all' came", lambda m: (m, some_tokens(), METRIC, "head"), {"layers": "all"}),
    "positions": (KIND, r"\[1, 2\] came", lambda m: (m, some_tokens(), METRIC), {"positions": [1, 2]}),
    "label": (METRIC_ERROR, "'end', which is no label", lambda m: (m, some_tokens(), wb.logit(1, pos="end")), {}),
    "pos": (METRIC_ERROR, "position 7; the texts have 7, 7", lambda m: (m, some_tokens(), wb.logit(1, pos=7)), {}),
    "answers": (METRIC_ERROR, "3 tokens for 2 examples", lambda m: (m, some_tokens(), wb.logit([1, 2, 3])), {}),
    "vocabulary": (METRIC_ERROR, "0 to 22", lambda m: (m, some_tokens(), wb.logit(23)), {}),
    "text answer": (METRIC_ERROR, "no tokenizer", lambda m: (m, some_tokens(), wb.logit(" a")), {}),
    "hooks": (KIND, "sequence of", lambda m: (m, some_tokens(), METRIC), {"hooks": 3}),
    "hook site": (
        errors.SiteError,
        "resid_pre",
        lambda m: (m, some_tokens(), METRIC),
        {"hooks": [("resid_prr", print)]},
    ),
    "mask": (INPUT, "attention_mask is", lambda m: (m, some_tokens(), METRIC), {"attention_mask": torch.ones(3)}),
    "keyword": (
        KIND,
        "no argument 'position'; the nearest are: positions",
        lambda m: (m, some_tokens(), METRIC),
        {"position": 1},
    ),
}


@pytest.mark.parametrize(("kind", "says", "arguments", "keywords"), WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_is_said_in_one_sentence(model, kind, says, arguments, keywords):
    with pytest.raises(kind, match=says) as caught:
        wb.direct_logit_attribution(*arguments(model), **keywords)
    assert "\n" not in str(caught.value)


# What comes back


def test_the_grid_of_heads_and_of_neurons(model):
    heads = wb.direct_logit_attribution(model, some_tokens(), METRIC, "head")
    grid = heads.grid()
    assert grid.shape == (2, 3, 4)
    for layer in range(3):
        for head in range(4):
            assert torch.equal(grid[:, layer, head], named(heads)[f"L{layer}H{head}"])
    some = wb.direct_logit_attribution(model, some_tokens(), METRIC, "neuron", layers=(0, -1))
    assert some.grid().shape == (2, 3, 10)
    assert some.grid()[:, 1].isnan().all()
    assert torch.equal(some.grid()[:, 2, 7], named(some)["L2N7"])
    with pytest.raises(errors.InputError, match="by component"):
        wb.direct_logit_attribution(model, some_tokens(), METRIC).grid()


def test_the_grid_of_experts():
    layer = plain_spec().layers[0]
    experts = MixtureOfExpertsSpec(RouterSpec(n_experts=3, top_k=2), GatedMLPSpec(8))
    model = powered(plain_spec(layers=(layer, replace(layer, mlp=experts))))
    parts = wb.direct_logit_attribution(model, some_tokens(), METRIC, "neuron", layers=(1,))
    assert parts.grid().shape == (2, 2, 3)
    assert parts.grid()[:, 0].isnan().all()
    assert torch.equal(parts.grid()[:, 1, 2], named(parts)["L1E2"])


def test_layers_with_unequal_heads():
    layer = plain_spec().layers[0]
    narrow = replace(layer, attn=replace(layer.attn, n_heads=2, n_kv_heads=1))
    model = powered(plain_spec(layers=(layer, narrow)))
    parts = wb.direct_logit_attribution(model, some_tokens(), METRIC, "head")
    assert parts.grid().isnan().tolist() == [[[False] * 4, [False, False, True, True]]] * 2
    assert sums(parts)
    assert parts.figure().data


def test_tables(model):
    parts = wb.direct_logit_attribution(model, some_tokens(), METRIC, "head")
    table = parts.to_dataframe()
    assert list(table.columns) == ["example", "part", "kind", "layer", "head", "value"]
    assert len(table) == parts.values.numel()
    row = table[(table["example"] == 1) & (table["part"] == "L2H3")].iloc[0]
    assert (row["kind"], row["layer"], row["head"]) == ("head", 2, 3)
    assert row["value"] == pytest.approx(float(named(parts)["L2H3"][1]))
    assert table[table["part"] == "embed"]["layer"].isna().all()
    assert table[table["part"] == "2_mlp_out"]["head"].isna().all()
    best = parts.top(4)
    mean = parts.values.mean(0)
    order = mean.abs().argsort(descending=True)[:4]
    assert list(best["part"]) == [parts.labels[index] for index in order]
    assert best["value"].tolist() == pytest.approx(mean[order].tolist())
    heads = list(parts.top(3, kind="head")[["layer", "head"]].itertuples(index=False))
    assert wb.ablate(model, some_tokens(), METRIC, selection=heads, progress=False).values.shape[0] == 2
    assert list(wb.direct_logit_attribution(model, some_tokens(), METRIC).top(1).columns) == [
        *("part", "kind", "layer", "value")
    ]


def test_tables_that_cannot_be(model):
    parts = wb.direct_logit_attribution(model, some_tokens(), METRIC)
    for wrong in (0, -1, 1.5, True, "all"):
        with pytest.raises(errors.InputError, match="n is"):
            parts.top(wrong)
    with pytest.raises(errors.InputError, match="no part is of kind 'attn'; the nearest are: attn_out"):
        parts.top(3, kind="attn")
    with pytest.raises(errors.KindError, match="'kinds'; the nearest are: kind"):
        parts.top(kinds="head")


def test_it_says_what_it_is(model):
    parts = wb.direct_logit_attribution(model, some_tokens(), wb.logit(3))
    assert repr(parts) == f"Attribution of logit by component: 10 parts, 2 examples, mean {parts.total.mean():.3f}"
    assert isinstance(parts, wb.Attribution)


# A real model


@pytest.fixture(scope="module")
def ioi(smollm):
    return wb.tasks.ioi(smollm.tokenizer, n=8, seed=0)


@pytest.mark.parametrize("by", BY)
def test_smollm2(smollm, ioi, by):
    parts = wb.direct_logit_attribution(smollm, ioi.clean, ioi.metric, by)
    assert (parts.values.sum(1) - parts.total).abs().max() <= 1e-4
    assert (parts.total - ioi.metric(smollm(ioi.clean)[0])).abs().max() <= 1e-4
    assert parts.values.shape == (8, {"component": 61, "head": 1 + 30 * 10, "neuron": 1 + 30 * 1537}[by])


def test_smollm2_at_the_first_token_where_the_stream_is_largest(smollm, ioi):
    for by in BY:
        parts = wb.direct_logit_attribution(smollm, ioi.clean, wb.logit(" the", pos=0), by)
        assert (parts.values.sum(1) - parts.total).abs().max() <= 1e-4
