"""The laws of the stream, of runs, of attention and of padding, over random specs."""

import json

import pytest
import torch
from hypothesis import given, settings
from random_models import VOCAB, close, powered, some_tokens, specs

import workbench as wb
from workbench.model.masks import visible

EXPLICIT = ("hook_attn_scores", "hook_pattern")


def nothing(value, at):
    return value


# Stream


@given(specs())
def test_writes_sum_to_every_stream_bit_for_bit(spec):
    _, cache = powered(spec).run_with_cache(some_tokens())
    stream = cache["embed"]
    if "pos_embed" in cache:
        stream = stream + cache["pos_embed"]
    for layer in range(spec.n_layers):
        assert torch.equal(stream, cache["resid_pre", layer])
        stream = stream + cache["attn_out", layer]
        assert torch.equal(stream, cache["resid_mid", layer])
        stream = stream + cache["mlp_out", layer]
        assert torch.equal(stream, cache["resid_post", layer])
    assert close(cache.decompose_resid().sum(0), stream, 1e-5)


@given(specs())
def test_without_writes_the_model_is_its_embedding(spec):
    model, tokens = powered(spec), some_tokens()
    zeroed = model.run_with_hooks(tokens, [("attn_out", lambda v, at: v * 0), ("mlp_out", lambda v, at: v * 0)])
    embedded, _ = model.run_with_cache(tokens, stop_at_layer=0)
    unembedded, _ = model.resume(embedded, start_at_layer=spec.n_layers)
    assert torch.equal(zeroed, unembedded)


@given(specs())
def test_editing_a_read_changes_its_component_and_not_the_stream(spec):
    model, tokens = powered(spec), some_tokens()
    _, plain = model.run_with_cache(tokens)
    for read, write in (("attn_in", "attn_out"), ("mlp_in", "mlp_out")):
        _, edited = model.run_with_cache(tokens, hooks=[((read, 0), lambda v, at: v.flip(-1))])
        before = "resid_pre" if read == "attn_in" else "resid_mid"
        assert torch.equal(edited[before, 0], plain[before, 0])
        assert not torch.equal(edited[write, 0], plain[write, 0])
    _, edited = model.run_with_cache(tokens, hooks=[(("attn_in", 0), lambda v, at: v * 3)])
    assert torch.equal(edited["resid_mid", 0], plain["resid_pre", 0] + edited["attn_out", 0])


@given(specs())
def test_a_token_changes_nothing_before_it(spec):
    model, tokens = powered(spec), some_tokens()
    other = tokens.clone()
    other[:, 4] = (other[:, 4] + 1) % VOCAB
    before, after = model(tokens)[0], model(other)[0]
    assert close(after[:, :4], before[:, :4], 1e-6)
    assert not close(after[:, 4:], before[:, 4:], 1e-3)


# Runs


@given(specs())
def test_a_hook_that_returns_its_input_leaves_the_logits(spec):
    model, tokens = powered(spec), some_tokens()
    logits, _ = model(tokens)
    plain_sites = lambda name: not name.endswith(EXPLICIT)  # noqa: E731
    assert torch.equal(model.run_with_hooks(tokens, [(plain_sites, nothing)]), logits)
    assert close(model.run_with_hooks(tokens, [(lambda name: True, nothing)]), logits, 1e-5)


@given(specs())
def test_sites_fire_once_each_in_the_order_in_which_they_are_listed(spec):
    model, fired = powered(spec), []
    model.run_with_hooks(some_tokens(), [(lambda name: True, lambda v, at: fired.append(at.name))])
    assert fired == model.sites.names


@given(specs())
def test_values_have_the_axes_that_their_site_says(spec):
    model, tokens = powered(spec), some_tokens(2, 7)
    _, cache = model.run_with_cache(tokens)
    of_input = {"batch": 2, "pos": 7, "query": 7, "key": 7, "1": 1}
    for site in model.sites:
        sizes = [of_input.get(word, size) for word, size in zip(site.axes, site.sizes, strict=True)]
        assert list(cache[site.name].shape) == sizes


@settings(max_examples=10)
@given(specs())
def test_an_edit_at_every_site_changes_the_logits(spec):
    model, tokens = powered(spec), some_tokens()
    logits, _ = model(tokens)
    for site in model.sites:

        def disturb(value, at):
            value[:, :1] += 2 * torch.rand(value[:, :1].shape, generator=torch.Generator().manual_seed(1))
            return value.flip(-1) if at.axes[-1] != "1" and "key" not in at.axes else value

        edited = model.run_with_hooks(tokens, [(site.name, disturb)])
        assert not torch.equal(edited, logits), site.name


@given(specs())
def test_recording_changes_nothing(spec):
    model, tokens = powered(spec), some_tokens()
    logits, attention = model(tokens)
    recorded, cache = model.run_with_cache(tokens)
    assert torch.equal(recorded, logits)
    for layer in range(spec.n_layers):
        assert torch.equal(cache["pattern", layer], attention[layer])


@given(specs())
def test_an_exception_in_a_hook_leaves_the_next_run_unchanged(spec):
    model, tokens = powered(spec), some_tokens()
    logits, _ = model(tokens)

    def explode(value, at):
        value.zero_()
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no") as caught:
        model.run_with_hooks(tokens, [(("resid_mid", 0), explode)])
    assert "blocks.0.hook_resid_mid" in "".join(caught.value.__notes__)
    assert torch.equal(model(tokens)[0], logits)
    assert vars(model).keys() == vars(powered(spec)).keys()


@given(specs())
def test_nothing_that_happens_later_changes_a_cache(spec):
    model, tokens, seen = powered(spec), some_tokens(), []

    def meddle(value, at):
        for earlier in seen:
            earlier.zero_()
        seen.append(value)
        return value

    everywhere = [(lambda name: not name.endswith(EXPLICIT), meddle)]
    logits, cache = model.run_with_cache(tokens, hooks=everywhere)
    expected, plain = model.run_with_cache(tokens)
    assert torch.equal(logits, expected)
    kept = {name: cache[name].clone() for name in cache}
    for name in cache:
        assert torch.equal(kept[name], plain[name]), name
        cache[name].zero_()
    for name in cache:
        if name.endswith(EXPLICIT):
            assert torch.equal(cache[name], plain[name]), name


@given(specs())
def test_resuming_from_any_stream_is_the_run(spec):
    model, tokens = powered(spec), some_tokens()
    logits, cache = model.run_with_cache(tokens)
    for layer in range(spec.n_layers):
        resumed, attention = model.resume(cache["resid_pre", layer], start_at_layer=layer)
        assert torch.equal(resumed, logits)
        assert torch.equal(attention[-1], cache["pattern", -1])
        stopped, partial = model.run_with_cache(tokens, stop_at_layer=layer)
        assert torch.equal(stopped, cache["resid_pre", layer])
        assert all(site.layer is None or site.layer < layer for site in partial.sites)


@settings(max_examples=5)
@given(specs())
def test_gradients_at_cached_tensors_are_those_of_a_small_step(spec):
    model, tokens = powered(spec).to(torch.float64), some_tokens()
    logits, cache = model.run_with_cache(tokens, grad=True)
    metric = logits[:, -1].square().sum()
    for site in model.sites:
        gradient = torch.autograd.grad(metric, cache[site.name], retain_graph=True)[0]
        step = 1e-6 * torch.randn(gradient.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        step = step.masked_fill(cache[site.name].isinf(), 0)
        moved = [
            model.run_with_hooks(tokens, [(site.name, lambda v, at, by=by: v + by)])[:, -1].square().sum()
            for by in (step, -step)
        ]
        expected = (moved[0] - moved[1]) / 2
        assert torch.isclose((gradient * step).nansum(), expected, rtol=1e-3, atol=1e-9), site.name


# Attention


@given(specs())
def test_patterns_sum_to_one_and_are_zero_where_masked(spec):
    model, tokens = powered(spec), some_tokens()
    _, attention = model(tokens)
    positions = torch.arange(7)[None]
    for layer, weights in enumerate(attention):
        assert torch.allclose(weights.sum(-1), torch.ones(()), atol=1e-6)
        seen = visible(positions, positions, spec.layers[layer].attn.window)[:, None]
        assert (weights.masked_select(~seen) == 0).all()
        assert (weights.masked_select(seen.expand_as(weights)) > 0).any()


@given(specs())
def test_attention_reads_the_key_value_head_of_its_group(spec):
    model, tokens = powered(spec), some_tokens()
    attn = spec.layers[0].attn
    group = attn.n_heads // attn.n_kv_heads
    _, cache = model.run_with_cache(tokens)
    keys = cache["rot_k" if attn.rotary else "k", 0].repeat_interleave(group, dim=2)
    queries = cache["rot_q" if attn.rotary else "q", 0]
    scores = torch.einsum("bqhd,bkhd->bhqk", queries, keys) * (attn.d_head**-0.5 if attn.scale is None else attn.scale)
    recorded = cache["attn_scores", 0]
    finite = recorded.isfinite()
    assert close(recorded[finite], scores[finite], 1e-5)
    z = torch.einsum("bhqk,bkhd->bqhd", cache["pattern", 0], cache["v", 0].repeat_interleave(group, dim=2))
    assert close(cache["z", 0], z, 1e-5)
    results = cache.head_results(0).sum(-2) + model.b_O[0]
    assert close(results, cache["attn_out", 0], 1e-5)


@given(specs())
def test_a_hooked_pattern_is_what_attention_returns(spec):
    model, tokens = powered(spec), some_tokens()

    def first_only(pattern, at):
        pattern.zero_()
        pattern[..., 0] = 1.0
        return pattern

    _, attention = model(tokens, hooks=[(("pattern", 0), first_only)])
    _, cache = model.run_with_cache(tokens, hooks=[(("pattern", 0), first_only)])
    assert torch.equal(attention[0], cache["pattern", 0])
    assert (attention[0][..., 0] == 1).all()
    group = spec.n_heads // spec.n_kv_heads
    first_value = cache["v", 0][:, :1].repeat_interleave(group, dim=2)
    assert close(cache["z", 0], first_value.expand_as(cache["z", 0]), 1e-6)


@given(specs())
def test_scores_are_masked_again_after_hooks(spec):
    model, tokens = powered(spec), some_tokens()
    _, attention = model(tokens, hooks=[("attn_scores", lambda scores, at: torch.zeros_like(scores))])
    window = spec.layers[0].attn.window or 7
    for weights in attention:
        assert (weights.triu(1) == 0).all()
        counts = torch.arange(1, 8).clamp(max=window)
        assert torch.allclose(weights[0, 0, :, :].max(-1).values, 1 / counts)
    _, cache = model.run_with_cache(tokens, hooks=[("attn_scores", lambda scores, at: torch.zeros_like(scores))])
    assert cache["attn_scores", 0].isinf().equal(cache["pattern", 0] == 0)


# Padding


@pytest.mark.parametrize("side", ["left", "right"])
@given(spec=specs())
def test_a_padded_row_is_its_own_unpadded_run(side, spec):
    model = powered(spec)
    rows = [some_tokens(1, length, seed=length)[0] for length in (7, 4, 1)]
    tokens, mask = torch.zeros(3, 7, dtype=torch.long), torch.zeros(3, 7, dtype=torch.long)
    places = [slice(7 - len(row), 7) if side == "left" else slice(0, len(row)) for row in rows]
    for index, (row, place) in enumerate(zip(rows, places, strict=True)):
        tokens[index, place], mask[index, place] = row, 1
    logits, attention = model(tokens, attention_mask=mask)
    assert logits.isfinite().all()
    for index, (row, place) in enumerate(zip(rows, places, strict=True)):
        alone, alone_attention = model(row)
        assert close(logits[index, place], alone[0], 1e-5)
        for layer, weights in enumerate(attention):
            assert torch.allclose(weights[index, :, place, place], alone_attention[layer][0], atol=1e-5)
            assert (weights[index][:, mask[index] == 0] == 0).all()
            assert (weights[index][:, :, mask[index] == 0] == 0).all()


@given(specs())
def test_positions_that_hooks_see_count_real_tokens(spec):
    model, seen = powered(spec), []
    mask = torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1]])
    look = [(("resid_pre", 0), lambda v, at: seen.append((at.layer, at.axes, at.positions.tolist())))]
    model(some_tokens(2, 4), hooks=look, attention_mask=mask)
    assert seen == [(0, ("batch", "pos", "d_model"), [[-1, -1, 0, 1], [0, 1, 2, 3]])]


# Specs and files


@given(specs())
def test_a_spec_survives_json(spec):
    assert wb.ModelSpec.from_dict(json.loads(json.dumps(spec.to_dict()))) == spec


@given(spec=specs())
def test_a_checkpoint_gives_back_the_model(spec, tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved") / "model"
    model, tokens = powered(spec), some_tokens()
    model.save(folder)
    again = wb.load(folder)
    assert again.spec == spec
    assert torch.equal(again(tokens)[0], model(tokens)[0])
    assert sum(parameter.numel() for parameter in again.parameters()) == spec.n_params
