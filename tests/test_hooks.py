"""Hooks against programs that misuse them."""

import pytest
import torch
from random_models import powered, some_tokens

import workbench as wb
from workbench.errors import HookError, InputError, KindError, SiteError
from workbench.model.attention import AttentionSpec
from workbench.model.block import PreNorm
from workbench.model.embedding import TokenEmbeddingSpec, UnembeddingSpec
from workbench.model.mlp import MLPSpec
from workbench.model.norms import LayerNormSpec
from workbench.model.positions import LearnedPositionsSpec
from workbench.spec import ModelSpec

SITE = ("resid_mid", 1)


@pytest.fixture(scope="module")
def model():
    norm = LayerNormSpec()
    layer = PreNorm(AttentionSpec(2, 2, 4, bias=True, bias_out=True), MLPSpec(12), norm, norm)
    embeddings = (TokenEmbeddingSpec(23), LearnedPositionsSpec(16))
    return powered(ModelSpec(8, 16, *embeddings, (layer,) * 3, norm, UnembeddingSpec(23)))


TOKENS = some_tokens(2, 5)


@pytest.mark.parametrize(
    "edit",
    [
        lambda value: value.zero_(),
        lambda value: value.data.add_(1),
        lambda value: value.numpy().fill(3),
        lambda value: value[0, 0, 0].mul_(2),
        lambda value: value.fill_(float("nan")),
    ],
    ids=["in place", "through data", "through numpy", "one number", "to nan"],
)
def test_editing_in_place_without_returning_is_an_error(model, edit):
    def hook(value, at):
        edit(value)

    with pytest.raises(HookError, match=r"blocks\.1\.hook_resid_mid edited its value in place"):
        model.run_with_hooks(TOKENS, [(SITE, hook)])


def test_a_nan_that_was_there_is_no_edit(model):
    def to_nan(value, at):
        return value.index_fill(1, torch.tensor([4]), float("nan"))

    last = ("resid_mid", 2)
    logits = model.run_with_hooks(TOKENS, [(last, to_nan), (last, lambda value, at: None)])
    assert logits[:, :4].isfinite().all()
    assert logits[:, 4].isnan().all()


@pytest.mark.parametrize(
    ("returned", "says"),
    [
        (lambda v: v[:, :2], r"shape \[2, 2, 8\]; shape \[2, 5, 8\]"),
        (lambda v: v[None], "shape"),
        (lambda v: v.double(), "dtype torch.float64; dtype torch.float32"),
        (lambda v: v.to("meta"), "device meta"),
        (lambda v: v.tolist(), "list; a tensor or None"),
        (lambda v: (v, v), "tuple"),
        (lambda v: 0.0, "float"),
    ],
)
def test_another_shape_dtype_device_or_type_names_the_site(model, returned, says):
    with pytest.raises(HookError, match=says) as caught:
        model.run_with_hooks(TOKENS, [(SITE, lambda value, at: returned(value))])
    assert "blocks.1.hook_resid_mid" in str(caught.value)


@pytest.mark.parametrize(
    ("hooks", "error"),
    [
        ([("resid_prr", lambda v, at: v)], SiteError),
        ([(("resid_pre", 7), lambda v, at: v)], SiteError),
        ([("blocks.*.hook_nothing", lambda v, at: v)], SiteError),
        ([(lambda name: False, lambda v, at: v)], SiteError),
        ([("resid_pre", "no function")], KindError),
        ([("resid_pre",)], KindError),
        ([None], KindError),
        ("resid_pre", KindError),
        ({"resid_pre": lambda v, at: v}, KindError),
        (("resid_pre", lambda v, at: v), KindError),
        (5, KindError),
    ],
)
def test_hooks_that_name_nothing_stop_the_run_before_it_starts(model, hooks, error):
    ran = []
    watch = [(lambda name: True, lambda v, at: ran.append(at.name))]
    with pytest.raises(error):
        model.with_hooks(watch)(TOKENS, hooks=hooks)
    assert ran == []


@pytest.mark.parametrize("method", ["forward", "run_with_cache", "run_with_hooks", "resume", "with_hooks", "to_tokens"])
def test_no_keyword_is_swallowed(model, method):
    with pytest.raises(KindError, match=f"{method} has no argument 'name_filter'"):
        getattr(model, method)(TOKENS, name_filter="resid_pre")


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: wb.load("x", dtypee=1), "the nearest are: dtype"),
        (lambda: wb.zero("z", head=1), "the nearest are: heads"),
        (lambda: wb.patch(None, "z", layer=1), "the nearest are: layers"),
        (lambda: wb.logit_diff(1, 2, position=3), "there are|nearest"),
        (lambda: wb.ablate(None, TOKENS, len, sites="z"), "the nearest are: site"),
        (lambda: wb.activation_patching(None, TOKENS, TOKENS, len, sites="z"), "the nearest are: site"),
        (lambda: wb.logit_lens(None, TOKENS, topk=3), "the nearest are: top_k"),
    ],
)
def test_a_keyword_that_does_not_exist_names_the_nearest(call, says):
    with pytest.raises(KindError, match=says) as caught:
        call()
    assert isinstance(caught.value, TypeError)


def test_a_hook_cannot_reach_the_run_through_its_positions(model):
    logits, _ = model(TOKENS)
    spoilt, cache = model.run_with_cache(TOKENS, hooks=[("embed", _spoil_positions)])
    assert torch.equal(spoilt, logits)
    assert cache.positions.tolist() == [[0, 1, 2, 3, 4]] * 2


def _spoil_positions(value, at):
    at.positions.zero_()


@pytest.mark.parametrize("edit", [lambda value: value.unsqueeze_(0), lambda value: value.transpose_(0, 1)])
def test_a_shape_edited_in_place_is_an_edit(model, edit):
    def hook(value, at):
        edit(value)

    with pytest.raises(HookError, match="in place"):
        model.run_with_hooks(TOKENS, [(SITE, hook)])


def test_no_gradients_in_inference_mode(model):
    with torch.inference_mode(), pytest.raises(InputError, match="inference_mode"):
        model.run_with_cache(TOKENS, grad=True)


def test_a_view_is_not_saved_without_its_hooks(model, tmp_path):
    with pytest.raises(InputError, match="view"):
        model.with_hooks([(SITE, lambda value, at: value)]).save(tmp_path / "m")
    assert not (tmp_path / "m").exists()


def test_hooks_run_in_order_and_a_view_before_those_of_the_run(model):
    called = []

    def note(word):
        return lambda value, at: called.append(word)

    view = model.with_hooks([(SITE, note("view"))]).with_hooks([("resid_mid", note("view of view"))])
    view.run_with_cache(TOKENS, hooks=[(SITE, note("first")), ("*.1.hook_resid_mid", note("second"))])
    assert called == ["view of view", "view", "view of view", "first", "second", "view of view"]


def test_a_view_is_a_model_and_leaves_the_model_alone(model):
    logits, _ = model(TOKENS)
    view = model.with_hooks([(SITE, lambda value, at: value * 2)])
    edited, _ = view(TOKENS)
    assert not torch.equal(edited, logits)
    assert torch.equal(model(TOKENS)[0], logits)
    assert torch.equal(view.run_with_cache(TOKENS)[0], edited)
    assert torch.equal(model.run_with_hooks(TOKENS, [(SITE, lambda value, at: value * 2)]), edited)
    assert view.spec == model.spec
    assert view.W_Q.data_ptr() != 0
    assert view.blocks is model.blocks


def test_a_hook_beyond_the_part_that_runs_is_an_error(model):
    stream, _ = model.run_with_cache(TOKENS, stop_at_layer=2)
    with pytest.raises(SiteError, match="never be called"):
        model.run_with_cache(TOKENS, hooks=[(("z", 2), lambda v, at: v)], stop_at_layer=2)
    with pytest.raises(SiteError, match="never be called"):
        model.resume(stream, 2, hooks=[(("z", 1), lambda v, at: v)])
    with pytest.raises(SiteError, match="never be called"):
        model.resume(stream, 2, hooks=[("embed", lambda v, at: v)])
    model.resume(stream, 2, hooks=[("z", lambda v, at: v)])


def test_only_the_blocks_asked_for_run(model):
    ran = []
    view = model.with_hooks([("resid_pre", lambda v, at: ran.append(at.layer))])
    stream, _ = view.run_with_cache(TOKENS, stop_at_layer=2)
    assert ran == [0, 1]
    ran.clear()
    _, attention = view.resume(stream, start_at_layer=2)
    assert ran == [2]
    with pytest.raises(SiteError, match="started at layer 2"):
        attention[1]
    assert attention[2].shape == (2, 2, 5, 5)


def test_attention_is_an_immutable_sequence(model):
    _, attention = model(TOKENS)
    assert len(attention) == 3
    assert len(list(attention)) == 3
    assert torch.equal(attention[-1], attention[2])
    assert [weights.shape for weights in attention[1:]] == [(2, 2, 5, 5)] * 2
    attention[0].zero_()
    assert attention[0].sum() > 0
    with pytest.raises(IndexError):
        attention[3]
    with pytest.raises(TypeError):
        attention[0] = 1


@pytest.mark.parametrize(
    ("layer", "error"), [(-1, InputError), (4, InputError), ("1", KindError), (1.0, KindError), (True, KindError)]
)
def test_layers_to_stop_and_start_at_are_checked(model, layer, error):
    with pytest.raises(error):
        model.run_with_cache(TOKENS, stop_at_layer=layer)
    with pytest.raises(error):
        model.resume(torch.zeros(1, 2, 8), start_at_layer=layer)


@pytest.mark.parametrize("stream", [torch.zeros(1, 2, 7), torch.zeros(2, 8), torch.zeros(1, 0, 8), [[1.0]], None])
def test_a_stream_to_resume_from_is_checked(model, stream):
    with pytest.raises(InputError, match="stream"):
        model.resume(stream, start_at_layer=1)
