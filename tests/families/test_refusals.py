"""What a config cannot mean, what a family is not, and what does not fit: one sentence with the field, the value and
the rule."""

import json

import pytest
import torch
from cases import ALL
from parity import tiny

import workbench as wb
from workbench.families import supported
from workbench.model import block, embedding, latent_attention, mlp, norms, rotary, rotary_scaling, router
from workbench.model.attention import AttentionSpec

LLAMA, MIXTRAL = "llama: grouped, untied", "mixtral: sliding"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mixtral")
    tiny(ALL[MIXTRAL]).save_pretrained(folder)
    return folder


def loaded_with(folder, change):
    """The model of a config of which some values are others, or gone."""
    path = folder / "config.json"
    before = path.read_text()
    values = json.loads(before) | change
    path.write_text(json.dumps({key: value for key, value in values.items() if value != "gone"}))
    try:
        return wb.load(folder)
    finally:
        path.write_text(before)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"num_attention_heads": 5}, "a width of 24 and 5 heads, which do not divide it"),
        ({"num_key_value_heads": 3}, r"n_kv_heads is 3; it must divide n_heads, 4"),
        ({"head_dim": 5}, "d_head is 5; rotary embedding turns pairs"),
        ({"sliding_window": 0}, "sliding_window = 0; a positive whole number"),
        ({"sliding_window": -4}, "sliding_window = -4; a positive whole number"),
        ({"sliding_window": "4"}, "sliding_window = '4'; a positive whole number"),
        ({"num_experts_per_tok": 9}, r"top_k is 9; there are 5 experts"),
        ({"num_experts_per_tok": 0}, "num_experts_per_tok = 0"),
        ({"num_local_experts": "gone"}, "lacks 'num_local_experts'"),
        ({"rope_parameters": {"rope_type": "default"}}, "it must hold the base, rope_theta"),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 0}}, r"base is 0.0; it must be positive"),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": "10000"}}, "rope_theta = '10000'; a number"),
        ({"rope_parameters": {"rope_type": "linear", "rope_theta": 10.0}}, "lacks 'factor'"),
        ({"rope_parameters": {"rope_type": "yarm", "rope_theta": 10.0}}, "rope_type = 'yarm'.*nearest are: yarn"),
        (
            {"rope_parameters": {"rope_type": "default", "rope_theta": 9.0, "beta": 1.0}},
            "beta = 1.0, a key that is not",
        ),
        ({"rope_theta": 5.0}, "different things of rope_theta"),
        ({"hidden_act": "gelo"}, "nearest are: gelu"),
        ({"num_hidden_layers": 10**8}, "at most 10000"),
        ({"tie_word_embeddings": "no"}, "true or false"),
    ],
)
def test_a_config_that_contradicts_itself_names_field_value_and_rule(folder, change, says):
    with pytest.raises(wb.errors.WorkbenchError, match=says) as caught:
        loaded_with(folder, change)
    assert "\n" not in str(caught.value)


def test_an_unknown_family_lists_the_known_ones_and_the_way_to_add_it(folder):
    with pytest.raises(wb.errors.FamilyError) as caught:
        loaded_with(folder, {"model_type": "bloom"})
    said = str(caught.value)
    assert "'bloom'" in said
    assert "ADDING.md" in said
    assert all(name in said for name in supported())


def test_a_model_that_does_not_fit_says_so_before_it_allocates(monkeypatch, folder, tmp_path):
    theirs = tiny(ALL[MIXTRAL])
    for module in ("workbench.formats.published", "workbench.hooked"):
        monkeypatch.setattr(f"{module}.free_memory", lambda device: 10_000)
    for make in (
        lambda: wb.from_huggingface(theirs),
        lambda: wb.load(folder),  # experts are put together, which is a copy
        lambda: wb.load(folder, dtype=torch.float64),
        lambda: wb.HookedTransformer(wb.ModelSpec.preset("kamui-small")),
    ):
        with pytest.raises(wb.errors.TooLargeError, match=r"takes [\d.]+ [KMG]iB.* and 9.8 KiB are free"):
            make()
    tiny(ALL[LLAMA]).save_pretrained(tmp_path)
    wb.load(tmp_path)  # memory-mapped, so it takes nothing


scaled = rotary_scaling
head = {"n_heads": 2, "n_kv_heads": 2, "d_head": 8}


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: router.RouterSpec(4, 5), r"RouterSpec\.top_k is 5; there are 4 experts"),
        (lambda: router.RouterSpec(4, 0), "top_k is 0"),
        (lambda: router.RouterSpec(6, 2, n_groups=4), "n_groups is 4; it must divide n_experts, 6"),
        (lambda: router.RouterSpec(6, 3, n_groups=3, top_groups=1), "top_k is 3; the best 1 groups have 2 experts"),
        (lambda: router.RouterSpec(6, 2, n_groups=3, top_groups=4), "top_groups is 4; there are 3 groups"),
        (lambda: router.RouterSpec(6, 1, n_groups=6, top_groups=2, group_score="best_two"), "groups of one expert"),
        (lambda: router.RouterSpec(6, 2, score="softmx"), "nearest are: softmax"),
        (lambda: AttentionSpec(**head, softcap=0.0), "softcap is 0.0; it must be positive"),
        (lambda: AttentionSpec(**head, rotary=rotary.RotarySpec(d_rotary=10)), "d_rotary is 10; a head has 8 numbers"),
        (lambda: rotary.RotarySpec(d_rotary=3), "d_rotary is 3; rotary embedding turns pairs"),
        (lambda: scaled.LinearScalingSpec(0.5), "factor is 0.5; it must be at least 1"),
        (lambda: scaled.YaRNSpec(2.0, 8, beta_fast=1.0, beta_slow=2.0), "beta_slow is 2.0"),
        (lambda: scaled.LongRoPESpec((1.0,), (1.0, 2.0), 8), "as many as short_factor, 1"),
        (
            lambda: AttentionSpec(**head, rotary=rotary.RotarySpec(scaling=scaled.LongRoPESpec((1.0,), (2.0,), 8))),
            "one factor for each of the 4 pairs",
        ),
        (
            lambda: AttentionSpec(2, 2, 2, rotary=rotary.RotarySpec(scaling=scaled.DynamicNTKSpec(2.0, 8))),
            "stretches the slowest of at least 2",
        ),
        (lambda: latent_attention.LatentAttentionSpec(2, 0, 4, 4, 4, rotary.RotarySpec()), "d_latent is 0"),
        (lambda: latent_attention.LatentAttentionSpec(2, 4, 4, 3, 4, rotary.RotarySpec()), "d_head is 3; rotary"),
        (lambda: mlp.ClampedGatedMLPSpec(8, activation="relu"), "the clamped gate is silu's"),
        (lambda: embedding.TiedUnembeddingSpec(softcap=-1.0), "softcap is -1.0"),
        (
            lambda: block.SharedNormParallel(
                AttentionSpec(**head), mlp.MLPSpec(8), norms.RMSNormSpec(), norms.LayerNormSpec()
            ),
            "one norm is shared",
        ),
        (
            lambda: block.PostNorm(AttentionSpec(**head), mlp.MLPSpec(8), None, None, ln1_post=norms.RMSNormSpec()),
            "norms the stream, not its writes",
        ),
    ],
)
def test_a_spec_that_contradicts_itself_names_the_field(make, says):
    with pytest.raises(wb.errors.SpecError, match=says):
        make()
