"""The laws of the stream, of runs, of attention and of padding, over random specs."""

import json

import pytest
import torch
from hypothesis import assume, given, settings
from random_models import VOCAB, close, powered, some_tokens, specs

import workbench as wb
from workbench.model.block import PostNorm
from workbench.model.latent_attention import LatentAttentionSpec
from workbench.model.masks import visible
from workbench.model.moe import MixtureOfExpertsSpec
from workbench.model.norms import LayerNormSpec
from workbench.model.pass_ import Pass

LOOKED_AT = ("hook_attn_scores", "hook_pattern")
EXPLICIT = (*LOOKED_AT, "hook_sink")


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
        if ("resid_mid", layer) in cache:
            assert torch.equal(stream, cache["resid_mid", layer])
        if ("mlp_out", layer) in cache:
            stream = stream + cache["mlp_out", layer]
        assert torch.equal(stream, cache["resid_post", layer])
    assert close(cache.decompose_resid().sum(0), stream, 1e-5)


@given(specs(adds=False))
def test_a_post_norm_block_norms_the_stream_itself(spec):
    model = powered(spec)
    _, cache = model.run_with_cache(some_tokens())
    layers = [layer for layer, block in enumerate(spec.layers) if isinstance(block, PostNorm)]
    assume(layers)
    for layer in layers:
        block, silent = model.blocks[layer], Pass(cache.positions)
        mid = block.ln1(cache["resid_pre", layer] + cache["attn_out", layer], silent)
        assert torch.equal(cache["resid_mid", layer], mid)
        assert torch.equal(cache["resid_post", layer], block.ln2(mid + cache["mlp_out", layer], silent))
        assert torch.equal(cache["attn_in", layer], cache["resid_pre", layer])
        assert torch.equal(cache["mlp_in", layer], cache["resid_mid", layer])
    for taken_apart in (cache.decompose_resid, cache.stack_head_results):
        with pytest.raises(wb.errors.InputError, match="not a sum of writes"):
            taken_apart()
    if layers[0] > 0:
        assert len(cache.decompose_resid(layers[0]))
    assert len(cache.accumulated_resid()) == spec.n_layers + 1


@given(specs())
def test_without_writes_the_model_is_its_embedding(spec):
    model, tokens = powered(spec), some_tokens()
    zeroed = model.run_with_hooks(tokens, [(lambda name: name.endswith(("attn_out", "mlp_out")), lambda v, at: v * 0)])
    embedded, _ = model.run_with_cache(tokens, stop_at_layer=0)
    unembedded, _ = model.resume(embedded, start_at_layer=spec.n_layers)
    assert torch.equal(zeroed, unembedded)


@given(specs())
def test_editing_a_read_changes_its_component_and_not_the_stream(spec):
    model, tokens = powered(spec), some_tokens()
    _, plain = model.run_with_cache(tokens)
    after = "resid_mid" if ("resid_mid", 0) in plain else "resid_post"
    for read, write in (("attn_in", "attn_out"), ("mlp_in", "mlp_out")):
        if (read, 0) not in plain:
            continue
        _, edited = model.run_with_cache(tokens, hooks=[((read, 0), lambda v, at: v.flip(-1))])
        assert torch.equal(edited["resid_pre", 0], plain["resid_pre", 0])
        assert not torch.equal(edited[write, 0], plain[write, 0])
        if read == "mlp_in":
            assert torch.equal(edited["attn_out", 0], plain["attn_out", 0])
    _, edited = model.run_with_cache(tokens, hooks=[(("attn_in", 0), lambda v, at: v * 3)])
    stream = plain["resid_pre", 0] + edited["attn_out", 0]
    if after == "resid_post" and ("mlp_out", 0) in plain:
        stream = stream + plain["mlp_out", 0]
    assert torch.equal(edited[after, 0], stream)


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
    exact = powered(spec).to(torch.float64)  # the explicit kernel rounds otherwise, and sharp models amplify it
    assert close(exact.run_with_hooks(tokens, [(lambda name: True, nothing)]), exact(tokens)[0], 1e-9)


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
        model.run_with_hooks(tokens, [(("attn_in", 0), explode)])
    assert "blocks.0.hook_attn_in" in "".join(caught.value.__notes__)
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
        if name.endswith(LOOKED_AT):
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
        if site.name.endswith("hook_expert_weights"):  # experts of weight 0 do not run, so nothing is known of them
            step = step * (cache[site.name] != 0)
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
    _, cache = model.run_with_cache(tokens)
    for layer, weights in enumerate(attention):
        share = cache["sink", layer] if ("sink", layer) in cache else torch.zeros(())
        assert torch.allclose(weights.sum(-1), 1 - share, atol=1e-6)
        assert (share >= 0).all()
        assert (share < 1).all()
        seen = visible(positions, positions, model.blocks[layer].attn.window)[:, None]
        assert (weights.masked_select(~seen) == 0).all()
        assert (weights.masked_select(seen.expand_as(weights)) > 0).any()


def keys_and_values(model, cache, layer):
    """Of every query head, written out from the sites."""
    attn = model.spec.layers[layer].attn
    if isinstance(attn, LatentAttentionSpec):
        own = model.blocks[layer].attn
        latent, rope = cache["kv_latent", layer], cache["k_rope", layer][:, :, None]
        turned = own.rotation.turn(rope, *own.rotation.table(Pass(cache.positions)))
        nope = torch.einsum("bpl,hld->bphd", latent, own.W_UK)
        values = torch.einsum("bpl,hld->bphd", latent, own.W_UV)
        return torch.cat([nope, turned.expand(*nope.shape[:3], -1)], -1), values
    name = "rot_k" if attn.rotary else "k_normed" if attn.qk_norm else "k"
    group = attn.n_heads // attn.n_kv_heads
    return (cache[site, layer].repeat_interleave(group, dim=2) for site in (name, "v"))


@given(specs())
def test_attention_reads_the_key_value_head_of_its_group(spec):
    model, tokens = powered(spec), some_tokens()
    attn = spec.layers[0].attn
    _, cache = model.run_with_cache(tokens)
    keys, values = keys_and_values(model, cache, 0)
    queries = cache[next(name for name in ("rot_q", "q_normed", "q") if (name, 0) in cache), 0]
    scores = torch.einsum("bqhd,bkhd->bhqk", queries, keys) * (attn.d_head**-0.5 if attn.scale is None else attn.scale)
    if cap := getattr(attn, "softcap", None):
        scores = cap * torch.tanh(scores / cap)
    recorded = cache["attn_scores", 0]
    finite = recorded.isfinite()
    assert close(recorded[finite], scores[finite], 1e-5)
    z = torch.einsum("bhqk,bkhd->bqhd", cache["pattern", 0], values)
    assert close(cache["z", 0], z, 1e-5)
    block = model.blocks[0]
    written = cache.head_results(0).sum(-2) + block.attn.b_O
    assert close(block.ln1_post(written, Pass(cache.positions)), cache["attn_out", 0], 1e-5)


@given(specs())
def test_heads_and_the_rest_sum_to_the_stream(spec):
    _, cache = powered(spec).run_with_cache(some_tokens())
    heads = cache.stack_head_results(incl_remainder=True)
    last = cache["resid_post", -1]
    assert close(heads.sum(0), last, 1e-5)
    without_bias = [
        cache["attn_out", layer] - cache.stack_head_results(layer + 1)[-n:].sum(0)
        for layer, n in enumerate(layer.attn.n_heads for layer in spec.layers)
    ]
    for layer, rest in enumerate(without_bias):  # what no head writes is a constant, scaled by the output norm at most
        attn = spec.layers[layer].attn
        bias = getattr(attn, "bias_out", False) or (isinstance(attn, LatentAttentionSpec) and attn.bias)
        output = spec.layers[layer].ln1_post
        if not bias and not isinstance(output, LayerNormSpec):
            assert rest.abs().max() <= 1e-5 * cache["attn_out", layer].abs().max()


def by_each_expert(mlp, read):
    n_experts = mlp.spec.router.n_experts
    return torch.stack([mlp.experts.written(read.flatten(0, 1), e).view(read.shape) for e in range(n_experts)], -2)


@given(specs())
def test_experts_and_shared_experts_sum_to_the_feed_forward(spec):
    model = powered(spec)
    _, cache = model.run_with_cache(some_tokens())
    layers = [layer for layer, block in enumerate(spec.layers) if isinstance(block.mlp, MixtureOfExpertsSpec)]
    assume(layers)
    for layer in layers:
        outputs, weights = cache.expert_outputs(layer), cache["expert_weights", layer]
        assert (outputs[weights == 0] == 0).all()
        assert ((weights != 0).sum(-1) == spec.layers[layer].mlp.router.top_k).all()
        block, read = model.blocks[layer], cache["ln2.out" if ("ln2.out", layer) in cache else "mlp_in", layer]
        by_hand = by_each_expert(block.mlp, read) * weights[..., None]
        assert close(outputs, by_hand, 1e-5)
        written = outputs.sum(-2) + cache.get(("shared_out", layer), 0)
        assert close(block.ln2_post(written, Pass(cache.positions)), cache["mlp_out", layer], 1e-5)


@given(specs())
def test_dispatch_follows_edited_expert_weights(spec):
    model, tokens = powered(spec), some_tokens()
    layers = [layer for layer, block in enumerate(spec.layers) if isinstance(block.mlp, MixtureOfExpertsSpec)]
    assume(layers)
    everyone = [(("expert_weights", layers[0]), lambda weights, at: torch.full_like(weights, 0.25))]
    _, cache = model.run_with_cache(tokens, hooks=everyone)
    read = cache["ln2.out" if ("ln2.out", layers[0]) in cache else "mlp_in", layers[0]]
    by_hand = 0.25 * by_each_expert(model.blocks[layers[0]].mlp, read)
    assert close(cache.expert_outputs(layers[0]), by_hand, 1e-5)
    _, cache = model.run_with_cache(tokens, hooks=[(("expert_weights", layers[0]), lambda w, at: w * 0)])
    assert (cache.expert_outputs(layers[0]) == 0).all()


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
    first_value = list(keys_and_values(model, cache, 0))[1][:, :1]
    assert close(cache["z", 0], first_value.expand_as(cache["z", 0]), 1e-6)


@given(specs())
def test_scores_are_masked_again_after_hooks(spec):
    model, tokens = powered(spec), some_tokens()
    _, attention = model(tokens, hooks=[("attn_scores", lambda scores, at: torch.zeros_like(scores))])
    _, cache = model.run_with_cache(tokens, hooks=[("attn_scores", lambda scores, at: torch.zeros_like(scores))])
    for layer, weights in enumerate(attention):
        assert (weights.triu(1) == 0).all()
        counts = torch.arange(1, 8).clamp(max=model.blocks[layer].attn.window or 7)
        left = 1 - cache["sink", layer][0, 0] if ("sink", layer) in cache else 1
        assert torch.allclose(weights[0, 0].max(-1).values, left / counts)
    assert cache["attn_scores", 0].isinf().equal(cache["pattern", 0] == 0)


@given(specs())
def test_an_edited_sink_leaves_the_rest_to_the_keys(spec):
    model, tokens = powered(spec), some_tokens()
    layers = [layer for layer, block in enumerate(spec.layers) if getattr(block.attn, "sink", False)]
    assume(layers)
    quarter = [(("sink", layers[0]), lambda share, at: torch.full_like(share, 0.25))]
    logits, attention = model(tokens, hooks=quarter)
    assert torch.allclose(attention[layers[0]].sum(-1), torch.tensor(0.75), atol=1e-6)
    none, without = model(tokens, hooks=[(("sink", layers[0]), lambda share, at: share * 0)])
    assert torch.allclose(attention[layers[0]], 0.75 * without[layers[0]], atol=1e-6)
    assert not torch.equal(logits, none)


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
