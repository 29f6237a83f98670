"""The cache: every method against arithmetic written out here, over random specs."""

import json

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from random_models import VOCAB, close, powered, some_tokens, specs
from safetensors.torch import save_file
from words import word_tokenizer

import workbench as wb
from workbench.model.attention import AttentionSpec
from workbench.model.block import PreNorm
from workbench.model.embedding import TokenEmbeddingSpec, UnembeddingSpec
from workbench.model.mlp import MLPSpec
from workbench.model.norms import (
    BiaslessLayerNormSpec,
    LayerNormSpec,
    OnePlusRMSNormSpec,
    OutputScaleSpec,
    PlainLayerNormSpec,
)
from workbench.model.positions import LearnedPositionsSpec

N_POS = 7
errors = wb.errors
pos_slices = st.sampled_from([None, -1, 2, slice(1, 4), slice(None, None, 2), [0, 3], [5, -2], torch.tensor([4, 1])])
few = settings(max_examples=12)


def plain_spec(**fields) -> wb.ModelSpec:
    """Every bias, learned positions, grouped heads."""
    attn = AttentionSpec(n_heads=4, n_kv_heads=2, d_head=6, bias=True, bias_out=True)
    layer = PreNorm(attn, MLPSpec(d_mlp=10, bias=True), LayerNormSpec(), LayerNormSpec())
    given = {
        "d_model": 12,
        "n_ctx": 64,
        "embed": TokenEmbeddingSpec(VOCAB),
        "pos_embed": LearnedPositionsSpec(64),
        "layers": (layer,) * 3,
        "ln_final": LayerNormSpec(),
        "unembed": UnembeddingSpec(VOCAB, bias=True),
    }
    return wb.ModelSpec(**given | fields)


@pytest.fixture(scope="module")
def model():
    return powered(plain_spec())


@pytest.fixture(scope="module")
def cache(model):
    return model.run_with_cache(some_tokens())[1]


LAYER_NORMS = (LayerNormSpec, BiaslessLayerNormSpec, PlainLayerNormSpec)


def center(norm, x):
    return x - x.mean(-1, keepdim=True) if isinstance(norm, LAYER_NORMS) else x


def gain(norm, module):
    """What a norm multiplies by after the division, from the specification alone."""
    if isinstance(norm, PlainLayerNormSpec):
        return 1.0
    return module.weight + 1.0 if isinstance(norm, OnePlusRMSNormSpec) else module.weight


def scale(norm, stream):
    """The divisor of a norm over a stream, from the specification alone."""
    return (center(norm, stream).pow(2).mean(-1, keepdim=True) + norm.eps).sqrt()


def cut(value, pos_slice, axis=-2):
    if pos_slice is None:
        return value
    if isinstance(pos_slice, slice):
        pos_slice = list(range(*pos_slice.indices(N_POS)))
    if isinstance(pos_slice, int):
        return value.select(axis, pos_slice)
    return value.index_select(axis, torch.as_tensor(pos_slice) % N_POS)


def reading(model, stop, mlp_input):
    """The norm, its spec, and the stream that it reads."""
    spec, where = model.spec, [f"blocks.{stop}.hook_resid_{name}" for name in ("pre", "mid")]
    if stop == spec.n_layers:
        return spec.ln_final, model.ln_final, f"blocks.{stop - 1}.hook_resid_post"
    if not mlp_input:
        return spec.layers[stop].ln1, model.blocks[stop].ln1, where[0]
    return spec.layers[stop].ln2, model.blocks[stop].ln2, where[1] if where[1] in model.sites else where[0]


def entering(cache, spec, layer):
    return cache["resid_pre", layer] if layer < spec.n_layers else cache["resid_post", spec.n_layers - 1]


# The stream, watched and taken apart


@few
@given(specs(), st.data())
def test_accumulated_resid_is_the_stream_before_each_layer(spec, data):
    model = powered(spec)
    _, cache = model.run_with_cache(some_tokens())
    layer = data.draw(st.sampled_from([None, -1, *range(spec.n_layers + 1)]))
    incl_mid, mlp_input, apply_ln = (data.draw(st.booleans()) for _ in range(3))
    pos_slice = data.draw(pos_slices)
    assume(not mlp_input or layer in (None, -1, spec.n_layers) or spec.layers[layer].mlp is not None)
    got, labels = cache.accumulated_resid(
        layer, incl_mid, apply_ln, pos_slice=pos_slice, mlp_input=mlp_input, return_labels=True
    )
    stop = spec.n_layers if layer in (None, -1) else layer
    norm, module, read = reading(model, stop, mlp_input)
    expected = {}
    for index in range(stop):
        expected[f"{index}_pre"] = cache[f"blocks.{index}.hook_resid_pre"]
        if incl_mid and f"blocks.{index}.hook_resid_mid" in cache:
            expected[f"{index}_mid"] = cache[f"blocks.{index}.hook_resid_mid"]
    if stop == spec.n_layers:
        expected["final_post"] = cache[read]
    else:
        expected[f"{stop}_pre"] = cache[f"blocks.{stop}.hook_resid_pre"]
        if read.endswith("mid"):
            expected[f"{stop}_mid"] = cache[read]
    assert labels == list(expected)
    wanted = torch.stack([cut(value, pos_slice) for value in expected.values()])
    if apply_ln and norm is not None:
        wanted = center(norm, wanted) / cut(scale(norm, cache[read]), pos_slice) * gain(norm, module)
        assert close(got, wanted, 1e-5)
    else:
        assert torch.equal(got, wanted)
    assert torch.equal(
        got, cache.accumulated_resid(layer, incl_mid, apply_ln, pos_slice=pos_slice, mlp_input=mlp_input)
    )


@few
@given(specs(), st.data())
def test_decompose_resid_is_what_was_written(spec, data):
    model = powered(spec)
    _, cache = model.run_with_cache(some_tokens())
    layer = data.draw(st.sampled_from([None, *range(1, spec.n_layers + 1)]))
    mode, embeds = data.draw(st.sampled_from(["all", "attn", "mlp"])), data.draw(st.booleans())
    mlp_input, pos_slice = data.draw(st.booleans()), data.draw(pos_slices)
    stop = spec.n_layers if layer is None else layer
    assume(not mlp_input or stop == spec.n_layers or spec.layers[stop].mlp is not None)
    assume(embeds or mode != "mlp" or any(block.mlp for block in spec.layers[:stop]))
    got, labels = cache.decompose_resid(
        layer, mlp_input, mode, pos_slice=pos_slice, incl_embeds=embeds, return_labels=True
    )
    names = ["embed", *(["pos_embed"] if spec.pos_embed else [])] if embeds else []
    names += [
        f"{index}_{kind}_out"
        for index in range(stop)
        for kind in ("attn", "mlp")
        if mode in ("all", kind) and getattr(spec.layers[index], kind) is not None
    ]
    into_mlp = mlp_input and f"blocks.{stop}.hook_resid_mid" in cache and mode != "mlp"
    names += [f"{stop}_attn_out"] if into_mlp else []
    assert labels == names
    for part, name in zip(got, names, strict=True):
        index, _, kind = name.partition("_")
        full = f"blocks.{index}.hook_{kind}" if index.isdigit() else f"hook_{name}"
        assert torch.equal(part, cut(cache[full], pos_slice))
    if mode == "all" and embeds:
        stream = cache["resid_mid", stop] if into_mlp else entering(cache, spec, stop)
        assert close(got.sum(0), cut(stream, pos_slice), 1e-5)


@few
@given(specs(), st.data())
def test_head_results_and_the_remainder_are_the_stream(spec, data):
    model = powered(spec)
    _, cache = model.run_with_cache(some_tokens())
    layer = data.draw(st.sampled_from([None, *range(1, spec.n_layers + 1)]))
    stop = spec.n_layers if layer is None else layer
    pos_slice = data.draw(pos_slices)
    got, labels = cache.stack_head_results(layer, return_labels=True, pos_slice=pos_slice)
    assert labels == [f"L{index}H{head}" for index in range(stop) for head in range(spec.layers[index].attn.n_heads)]
    for part, label in zip(got, labels, strict=True):
        index, head = map(int, label[1:].split("H"))
        z = cache[f"blocks.{index}.attn.hook_z"][:, :, head]
        columns = slice(head * z.shape[-1], (head + 1) * z.shape[-1])
        by_hand = z @ model.blocks[index].attn.o.weight[:, columns].T
        output, block = spec.layers[index].ln1_post, model.blocks[index]
        if isinstance(output, OutputScaleSpec):
            by_hand = by_hand * output.factor
        elif output is not None:
            written = cache.head_results(index).sum(-2) + block.attn.b_O
            by_hand = center(output, by_hand) / scale(output, written) * gain(output, block.ln1_post)
        assert close(part, cut(by_hand, pos_slice), 1e-5)
    whole, labels = cache.stack_head_results(layer, return_labels=True, incl_remainder=True, pos_slice=pos_slice)
    assert labels[-1] == "remainder"
    assert torch.equal(whole[:-1], got)
    assert close(whole.sum(0), cut(entering(cache, spec, stop), pos_slice), 1e-5)
    for index in range(spec.n_layers):
        results = cache.head_results(index)
        assert results.shape == (2, N_POS, spec.layers[index].attn.n_heads, spec.d_model)
        if spec.layers[index].ln1_post is None:
            assert close(results.sum(-2) + model.blocks[index].attn.b_O, cache["attn_out", index], 1e-5)


@few
@given(specs(), st.data())
def test_norms_of_the_parts_sum_to_what_the_reader_sees(spec, data):
    model = powered(spec)
    _, cache = model.run_with_cache(some_tokens())
    layer = data.draw(st.integers(0, spec.n_layers))
    mlp_input = data.draw(st.booleans()) and layer < spec.n_layers and spec.layers[layer].mlp is not None
    parts = cache.decompose_resid(layer, mlp_input, apply_ln=True)
    norm, module, read = reading(model, layer, mlp_input)
    out = cache[read] if norm is None else cache[module.hook_out]
    bias = getattr(module, "bias", None)
    assert close(parts.sum(0) + (0 if bias is None else bias), out, 1e-5)
    heads = cache.stack_head_results(apply_ln=True, incl_remainder=True, pos_slice=[1, 2])
    assert close(heads.sum(0), cache.decompose_resid(apply_ln=True, pos_slice=[1, 2]).sum(0), 1e-5)


@few
@given(specs())
def test_recompute_ln_norms_each_part_by_itself(spec):
    model = powered(spec)
    _, cache = model.run_with_cache(some_tokens())
    parts = cache.decompose_resid(1)
    norm, module, _ = reading(model, 1, mlp_input=False)
    wanted = parts if norm is None else center(norm, parts) / scale(norm, parts) * gain(norm, module)
    assert close(cache.apply_ln_to_stack(parts, 1, recompute_ln=True), wanted, 1e-5)
    # of the stream itself, its own statistics are the recorded ones
    stream = entering(cache, spec, 1)[None]
    assert close(cache.apply_ln_to_stack(stream, 1, recompute_ln=True), cache.apply_ln_to_stack(stream, 1), 1e-6)


def test_the_arithmetic_of_a_bfloat16_cache_is_float32(model):
    half = powered(plain_spec()).to(torch.bfloat16)
    _, cache = half.run_with_cache(some_tokens())
    parts = cache.decompose_resid()
    assert parts.dtype == torch.bfloat16
    x = parts.float()
    by_hand = (x - x.mean(-1, keepdim=True)) / cache["ln_final.scale"] * half.ln_final.weight.float()
    assert close(cache.apply_ln_to_stack(parts), by_hand, 1e-6)


@given(specs(), st.data())
def test_parts_of_a_logit_sum_to_it(spec, data):
    model, tokens = powered(spec), some_tokens()
    logits, cache = model.run_with_cache(tokens)
    token, other = data.draw(st.integers(0, VOCAB - 1)), data.draw(st.integers(0, VOCAB - 1))
    pos_slice = data.draw(pos_slices)
    cap = spec.unembed.softcap
    logits = (
        logits
        if cap is None
        else model.unembedding.uncapped(cache["ln_final.out"] if spec.ln_final else cache["resid_post", -1])
    )
    bias = model.b_U + model.W_U.T @ getattr(model.ln_final, "bias", torch.zeros(spec.d_model))
    parts = cache.decompose_resid(pos_slice=pos_slice)
    wanted = cut(logits - bias, pos_slice)
    assert close(cache.logit_attrs(parts, token, pos_slice=pos_slice).sum(0), wanted[..., token], 1e-4)
    heads = cache.stack_head_results(incl_remainder=True, pos_slice=pos_slice)
    difference = cache.logit_attrs(heads, token, other, pos_slice=pos_slice).sum(0)
    size = logits.abs().max()
    assert (difference - (wanted[..., token] - wanted[..., other])).abs().max() <= 1e-4 * size
    # one per example
    pair = torch.tensor([token, other])
    by_example = cache.logit_attrs(parts, pair, pos_slice=pos_slice)
    assert close(by_example.sum(0), torch.stack([wanted[0, ..., token], wanted[1, ..., other]]), 1e-4)
    assert torch.equal(cache.logit_attrs(parts, pair.tolist(), pos_slice=pos_slice), by_example)
    # one per example and position: what comes next
    following = tokens.roll(-1, 1)
    each = cache.logit_attrs(cache.decompose_resid(), following).sum(0)
    assert close(each, (logits - bias).gather(2, following[..., None])[..., 0], 1e-4)
    each_less = cache.logit_attrs(cache.decompose_resid(), following, pair).sum(0)
    assert (each_less[1] - (each[1] - (logits - bias)[1, :, other])).abs().max() <= 1e-4 * size


def test_one_example_of_a_batch(model):
    tokens = some_tokens(3)
    _, cache = model.run_with_cache(tokens)
    parts, ids = cache.decompose_resid(), [4, 5, 6]
    whole = cache.logit_attrs(parts, ids)
    assert torch.equal(cache.logit_attrs(parts, ids, batch_slice=[2, 0]), whole[:, [2, 0]])
    assert torch.equal(cache.logit_attrs(parts, ids, batch_slice=1), whole[:, 1])
    assert torch.equal(cache.logit_attrs(parts[:, 1], ids, batch_slice=1, has_batch_dim=False), whole[:, 1])
    last = cache.decompose_resid(pos_slice=-1)
    assert torch.equal(cache.logit_attrs(last[:, 2], ids, None, -1, 2, has_batch_dim=False), whole[:, 2, -1])
    assert torch.equal(cache.logit_attrs(parts, tokens, batch_slice=1), cache.logit_attrs(parts, tokens)[:, 1])
    with pytest.raises(errors.InputError, match="batch_slice"):
        cache.apply_ln_to_stack(parts[:, 1], has_batch_dim=False)
    _, single = model.run_with_cache(tokens[:1])
    assert close(
        single.apply_ln_to_stack(parts[:, 0], has_batch_dim=False), single.apply_ln_to_stack(parts[:, :1])[:, 0], 1e-6
    )


def test_attributions_know_texts(model, cache):
    parts = cache.decompose_resid()
    with pytest.raises(errors.KindError, match="no tokenizer"):
        cache.logit_attrs(parts, "d")
    spoken = powered(plain_spec())
    spoken.tokenizer = word_tokenizer()
    _, cache = spoken.run_with_cache(some_tokens())
    assert torch.equal(cache.logit_attrs(parts, " d"), cache.logit_attrs(parts, 3))
    assert torch.equal(cache.logit_attrs(parts, ["d", "e"], "f"), cache.logit_attrs(parts, [3, 4], 5))
    with pytest.raises(errors.MetricError, match="not one token"):
        cache.logit_attrs(parts, "d e")


def test_stack_activation(model, cache):
    for name, sublayer, full in (
        ("q", None, "attn.hook_q"),
        ("hook_pattern", None, "attn.hook_pattern"),
        ("scale", "ln2", "ln2.hook_scale"),
        ("post", "mlp", "mlp.hook_post"),
        ("resid_mid", None, "hook_resid_mid"),
    ):
        for layer, n in ((None, 3), (-1, 3), (2, 2)):
            wanted = torch.stack([cache[f"blocks.{index}.{full}"] for index in range(n)])
            assert torch.equal(cache.stack_activation(name, layer, sublayer), wanted)
    with pytest.raises(errors.SiteError, match=r"ln1\.scale, ln2\.scale"):
        cache.stack_activation("scale")


def test_a_tuple_is_a_slice_as_in_transformer_lens(model, cache):
    assert torch.equal(cache.accumulated_resid(pos_slice=(1, 4)), cache.accumulated_resid(pos_slice=slice(1, 4)))
    _, kept = model.run_with_cache(some_tokens(), "z", pos_slice=(0, 6, 2))
    assert torch.equal(kept["z", 0], cache["z", 0][:, [0, 2, 4]])


WRONG = {
    "layer beyond": (errors.InputError, "layer is 4", lambda c: c.accumulated_resid(4)),
    "layer before": (errors.InputError, "layer is -2", lambda c: c.decompose_resid(-2)),
    "heads before any": (errors.InputError, "before layer 0", lambda c: c.stack_head_results(0)),
    "nothing to stack": (errors.InputError, "nothing", lambda c: c.decompose_resid(0, incl_embeds=False)),
    "no layer to stack": (errors.InputError, "nothing", lambda c: c.stack_activation("q", 0)),
    "mode": (errors.InputError, "'heads'", lambda c: c.decompose_resid(mode="heads")),
    "position": (errors.InputError, "outside the 7", lambda c: c.accumulated_resid(pos_slice=7)),
    "positions": (errors.InputError, "outside the 7", lambda c: c.accumulated_resid(pos_slice=[0, -8])),
    "no position": (errors.InputError, "none of the 7", lambda c: c.accumulated_resid(pos_slice=slice(9, 12))),
    "empty positions": (errors.InputError, "none of the 7", lambda c: c.accumulated_resid(pos_slice=[])),
    "position bool": (errors.KindError, "True", lambda c: c.accumulated_resid(pos_slice=True)),
    "head layer": (errors.SiteError, "layers 0 to 2", lambda c: c.head_results(3)),
    "width": (errors.InputError, r"\[component ... 12\]", lambda c: c.apply_ln_to_stack(torch.ones(2, 2, 7, 5))),
    "rows": (errors.InputError, "pos_slice", lambda c: c.apply_ln_to_stack(c.decompose_resid(pos_slice=-1))),
    "no batch": (errors.InputError, "pos_slice and batch_slice", lambda c: c.apply_ln_to_stack(torch.ones(4, 7, 12))),
    "token beyond": (errors.InputError, "0 to 22", lambda c: c.logit_attrs(c.decompose_resid(), VOCAB)),
    "token below": (errors.InputError, "0 to 22", lambda c: c.logit_attrs(c.decompose_resid(), -1)),
    "incorrect beyond": (errors.InputError, "0 to 22", lambda c: c.logit_attrs(c.decompose_resid(), 1, [0, 99])),
    "tokens": (errors.InputError, "3 tokens", lambda c: c.logit_attrs(c.decompose_resid(), [1, 2, 3])),
    "tokens, positions": (
        errors.InputError,
        "per example and position",
        lambda c: c.logit_attrs(c.decompose_resid(pos_slice=-1), torch.zeros(2, 7, dtype=torch.long), pos_slice=-1),
    ),
    "several examples": (errors.InputError, "2", lambda c: c.remove_batch_dim()),
    "dtype": (errors.KindError, "torch.int64", lambda c: c.to(dtype=torch.int64)),
    "dtype as device": (errors.KindError, "dtype=torch.float16", lambda c: c.to(torch.float16)),
    "experts": (
        errors.InputError,
        "layer 0 has one feed-forward, a MLP, and no experts",
        lambda c: c.expert_outputs(0),
    ),
    "attribute": (AttributeError, "accumulated_residual", lambda c: c.accumulated_residual()),
    "keyword": (TypeError, "postion_slice", lambda c: c.accumulated_resid(postion_slice=1)),
    "keyword of attrs": (TypeError, "token", lambda c: c.logit_attrs(c.decompose_resid(), token=1)),
    "keyword of to": (TypeError, "type", lambda c: c.to(type=torch.float16)),
}


@pytest.mark.parametrize(("kind", "says", "wrong"), WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_is_said_in_one_sentence(cache, kind, says, wrong):
    with pytest.raises(kind, match=says) as caught:
        wrong(cache)
    assert "\n" not in str(caught.value)


def test_no_batch_axis_no_batch_arguments(model):
    cache = model.run_with_cache(some_tokens(1))[1].remove_batch_dim()
    for wrong in ({"has_batch_dim": True}, {"batch_slice": 0}):
        with pytest.raises(errors.InputError, match="no batch axis"):
            cache.apply_ln_to_stack(cache.decompose_resid(), **wrong)


# Without a batch axis, elsewhere, in another dtype


@few
@given(specs())
def test_removing_the_batch_axis_changes_no_method(spec):
    model, tokens = powered(spec), some_tokens(1)
    _, cache = model.run_with_cache(tokens)
    flat = cache.remove_batch_dim()
    assert not flat.has_batch_dim
    assert flat.remove_batch_dim() is flat
    for name in cache:
        assert torch.equal(flat[name], cache[name][0]), name
    for method, arguments in (
        ("accumulated_resid", {"incl_mid": True, "apply_ln": True, "pos_slice": -1}),
        ("decompose_resid", {"apply_ln": True, "pos_slice": slice(2, 5)}),
        ("stack_head_results", {"incl_remainder": True, "apply_ln": True}),
    ):
        assert torch.equal(getattr(flat, method)(**arguments), getattr(cache, method)(**arguments)[:, 0])
    for token in (3, [3], torch.tensor([3]), tokens):
        ours = flat.logit_attrs(flat.decompose_resid(), token[0] if token is tokens else token)
        assert torch.equal(ours, cache.logit_attrs(cache.decompose_resid(), token)[:, 0])
    assert torch.equal(flat.head_results(0), cache.head_results(0)[0])


def test_another_dtype(model, cache):
    double = cache.to(dtype=torch.float64)
    assert list(double) == list(cache)
    for name in cache:
        assert torch.equal(double[name], cache[name].double()), name
    assert torch.equal(double.positions, cache.positions)
    half = cache.to("cpu", torch.bfloat16)
    assert half["pattern", 1].dtype == half["z", 1].dtype == torch.bfloat16
    assert cache["pattern", 1].dtype == torch.float32


def test_another_device(model, cache):
    away = cache.to("meta")
    assert {away["z", 0].device.type, away["pattern", 0].device.type, away.positions.device.type} == {"meta"}
    assert cache["z", 0].device.type == "cpu"
    _, kept = model.run_with_cache(some_tokens(), ["z", "pattern"], device="meta")
    assert {kept[name].device.type for name in kept} == {"meta"}


# Files


@few
@given(spec=specs(), single=st.booleans())
def test_a_saved_cache_comes_back(spec, single, tmp_path_factory):
    path = tmp_path_factory.mktemp("cache") / "run.cache"
    model = powered(spec)
    tokens, mask = some_tokens(2), torch.ones(2, N_POS, dtype=torch.long)
    mask[0, :3] = 0
    _, cache = model.run_with_cache(tokens[1:] if single else tokens, attention_mask=mask[1:] if single else mask)
    cache = cache.remove_batch_dim() if single else cache
    cache.save(path)
    for again in (wb.ActivationCache.load(path), wb.ActivationCache.load(str(path), model)):
        assert list(again) == list(cache)
        assert again.has_batch_dim == cache.has_batch_dim
        assert torch.equal(again.positions, cache.positions)
        for site in cache.sites:
            assert again.sites.one(site.name) == site
            assert torch.equal(again[site.name], cache[site.name]), site.name
            assert again[site.name].dtype == cache[site.name].dtype
    wanted, got = cache.stack_head_results(apply_ln=True), again.stack_head_results(apply_ln=True)
    assert close(got, wanted, 1e-6)
    with pytest.raises(errors.InputError, match="load"):
        wb.ActivationCache.load(path).head_results(0)


def test_a_saved_slice_comes_back_sliced(model, tmp_path):
    _, cache = model.run_with_cache(some_tokens(), ["pattern", "z"], pos_slice=[5, 1])
    cache.save(tmp_path / "deep" / "er" / "c")
    again = wb.ActivationCache.load(tmp_path / "deep" / "er" / "c")
    assert torch.equal(again["pattern", 1], cache["pattern", 1])
    assert again.positions.tolist() == [[5, 1]] * 2


def test_gradients_do_not_keep_a_cache_from_being_saved(model, tmp_path):
    _, cache = model.run_with_cache(some_tokens(), ["resid_pre", "pattern"], grad=True)
    cache.save(tmp_path / "c")
    assert torch.equal(wb.ActivationCache.load(tmp_path / "c")["pattern", 2], cache["pattern", 2].detach())


def test_files_that_are_no_cache(cache, tmp_path):
    path = tmp_path / "c"
    cache.save(path)
    whole = path.read_bytes()
    junk = {f"cut{n}": whole[:n] for n in (0, 1, 8, 9, 200, len(whole) // 2, len(whole) - 1)}
    junk |= {"text": b"not a cache at all", "zeros": bytes(100), "huge header": b"\xff" * 64}
    for name, content in junk.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(errors.LoadError, match=name) as caught:
            wb.ActivationCache.load(tmp_path / name)
        assert "\n" not in str(caught.value)


DESCRIBED = {
    "no description": None,
    "no JSON": "{",
    "a list": "[]",
    "no sites": json.dumps({"has_batch_dim": True}),
    "sites of another kind": json.dumps({"sites": 3, "has_batch_dim": True}),
    "a nameless site": json.dumps({"sites": [[3, 0, ["batch"], [None], 1]], "has_batch_dim": True}),
    "a short site": json.dumps({"sites": [["hook_embed"]], "has_batch_dim": True}),
    "a site without values": json.dumps({"sites": [["hook_z", None, ["batch"], [None], 1]], "has_batch_dim": True}),
    "no batch word": json.dumps({"sites": []}),
}


@pytest.mark.parametrize("described", DESCRIBED.values(), ids=DESCRIBED.keys())
def test_descriptions_that_are_none(described, tmp_path):
    metadata = None if described is None else {"workbench_cache": described}
    save_file({"positions": torch.zeros(1, 1)}, tmp_path / "c", metadata)
    with pytest.raises(errors.LoadError):
        wb.ActivationCache.load(tmp_path / "c")


def test_no_file_at_all(tmp_path):
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(errors.MissingError, match="no cache file"):
            wb.ActivationCache.load(path)


def test_a_failed_save_leaves_the_old_file_and_nothing_else(cache, tmp_path, monkeypatch):
    cache.save(tmp_path / "c")
    before = (tmp_path / "c").read_bytes()

    def full_disk(tensors, filename, metadata):
        filename.write_bytes(b"half of it")
        raise OSError("no space left")

    monkeypatch.setattr("workbench.cache.save_file", full_disk)
    for name in ("c", "new"):
        with pytest.raises(OSError, match="no space"):
            cache.save(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["c"]
    assert (tmp_path / "c").read_bytes() == before


# Names


def test_names_of_every_form(cache):
    full = "blocks.1.attn.hook_q"
    value = cache[full]
    for form in (("q", 1), ("attn.q", 1), ("hook_q", 1), ("attn.hook_q", -2), "*.1.attn.hook_q", lambda n: n == full):
        assert torch.equal(cache[form], value)
        assert form in cache
    assert torch.equal(cache["embed"], cache["hook_embed"])
    assert cache.keys() == set(cache)
    assert len(cache) == len(list(cache)) == len(cache.sites)
    assert dict(cache.items()).keys() == cache.keys()
    assert cache.get("nothing") is None
    for absent in ("blocks.3.hook_resid_pre", ("q", 3), ("q",), 7, None, ("scale", 0), "scale", "", ("q", True)):
        assert absent not in cache
    assert "q" in cache  # in some layer
    assert "*hook_q" in cache
    assert "*hook_qq" not in cache


NAMES = {
    "misspelt": ("blocks.0.hook_resid_prr", errors.SiteError, "nearest are: blocks.0.hook_resid_pre"),
    "misspelt short": (("resid_prr", 0), errors.SiteError, "nearest are: resid_pre"),
    "ambiguous": (("scale", 2), errors.SiteError, r"ln1\.scale, ln2\.scale"),
    "ambiguous everywhere": ("scale", errors.SiteError, r"ln1\.scale, ln2\.scale, ln_final\.scale"),
    "several": ("resid_pre", errors.SiteError, "names 3 sites"),
    "several by glob": ("*hook_q", errors.SiteError, "names 3 sites"),
    "layer": (("q", 3), errors.SiteError, "layers 0 to 2"),
    "no layer": (("resid_pre", None), errors.SiteError, "no site 'resid_pre'"),
    "number": (3, errors.KindError, "int 3"),
    "triple": (("q", 0, 1), errors.KindError, "short form"),
    "filter": (lambda name: False, errors.SiteError, "none of the"),
}


@pytest.mark.parametrize(("name", "kind", "says"), NAMES.values(), ids=NAMES.keys())
def test_names_that_fit_nothing_or_too_much(cache, name, kind, says):
    with pytest.raises(kind, match=says) as caught:
        cache[name]
    assert isinstance(caught.value, KeyError if kind is errors.SiteError else TypeError)


def test_a_site_that_was_not_recorded_is_told_from_one_that_is_not_there(model):
    _, cache = model.run_with_cache(some_tokens(), "resid_pre")
    with pytest.raises(errors.SiteError, match="of the 3 sites that this cache recorded"):
        cache["resid_post", 0]
    with pytest.raises(errors.SiteError, match="recorded"):
        cache.accumulated_resid()
    with pytest.raises(errors.SiteError, match="recorded"):
        cache.decompose_resid()
