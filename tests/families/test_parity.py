"""Every family against transformers on small models with power, and the power itself: perturbing any tensor or any
value of the config, alone, must break parity."""

import copy
import json

import pytest
import torch
from families_at_hand import CONFIGS, VOCAB, parity, tiny
from transformers import AutoModelForCausalLM

import workbench as wb
from workbench.families import family
from workbench.families._config import Config

cases = pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())


@cases
@pytest.mark.parametrize("side", ["left", "right"])
def test_logits_and_attention_are_those_of_transformers(config, side):
    theirs = tiny(config)
    errors = parity(wb.from_huggingface(theirs), theirs, side)
    assert errors.holds, errors


@cases
def test_attention_is_sharp(config):
    """Without this, parity would say little."""
    theirs = tiny(config)
    weights = theirs(torch.arange(17)[None], output_attentions=True).attentions
    uniform = (1 / torch.arange(1, 18)).mean()
    assert weights[0].amax(-1).mean() > 1.5 * uniform
    assert all(layer.amax(-1).mean() > 1.2 * uniform for layer in weights)


@cases
def test_a_folder_gives_the_same_model(config, tmp_path):
    theirs = tiny(config)
    theirs.save_pretrained(tmp_path)
    ours = wb.load(tmp_path)
    assert parity(ours, theirs).holds
    theirs.save_pretrained(tmp_path / "sharded", max_shard_size="10KB")
    assert len(list((tmp_path / "sharded").glob("*.safetensors"))) > 1
    assert parity(wb.load(tmp_path / "sharded"), theirs).holds


@cases
def test_the_users_model_is_left_untouched(config):
    theirs = tiny(config)
    before = copy.deepcopy(theirs.state_dict())
    ours = wb.from_huggingface(theirs)
    for parameter in ours.parameters():
        parameter.zero_()
    assert all(torch.equal(before[name], tensor) for name, tensor in theirs.state_dict().items())
    assert not theirs.training
    assert all(parameter.requires_grad for parameter in theirs.parameters())


@cases
def test_every_tensor_matters(config):
    theirs = tiny(config)
    ours = wb.from_huggingface(theirs)
    for name, parameter in theirs.named_parameters():
        kept = parameter.detach().clone()
        with torch.no_grad():
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
        errors = parity(ours, theirs)
        # A bias of all keys moves every score of a query alike, so softmax does not see it.
        if not name.endswith("k_proj.bias"):
            assert not errors.holds, name
        with torch.no_grad():
            parameter.copy_(kept)
    assert parity(ours, theirs).holds


# Every value of a config that is read, and another value for it.
OTHER = {
    "n_head": 6,
    "activation_function": "silu",
    "layer_norm_epsilon": 0.3,
    "scale_attn_weights": "flip",
    "scale_attn_by_inverse_layer_idx": "flip",
    "hidden_act": "relu",
    "rms_norm_eps": 0.3,
    "rope_parameters": {"rope_type": "default", "rope_theta": 20.0},
}
# These decide the shape of a tensor or whether there is one, so that the file of another value does not fit.
OF_SHAPES = {
    *("n_embd", "n_layer", "n_inner", "vocab_size", "hidden_size", "intermediate_size", "mlp_bias", "head_dim"),
    *("num_hidden_layers", "num_attention_heads", "num_key_value_heads", "attention_bias", "tie_word_embeddings"),
}
# How long a text may be; the family itself; the shards of a training run.
ELSEWHERE = {"n_positions", "max_position_embeddings", "model_type", "pretraining_tp", "add_cross_attention"}


@cases
def test_every_value_that_a_family_reads_is_one_of_these(config):
    reader = Config(config.to_dict(), "the config")
    family(config.model_type).spec(reader)
    read = {key for key in reader.seen if key in config.to_dict()}
    assert read <= OTHER.keys() | OF_SHAPES | ELSEWHERE


@cases
def test_a_value_that_sets_shapes_must_fit_the_tensors(config, tmp_path):
    tiny(config).save_pretrained(tmp_path)
    written = json.loads((tmp_path / "config.json").read_text())
    for key in written.keys() & OF_SHAPES:
        value = written[key]
        other = (not value) if isinstance(value, bool) else 10 if value is None else value * 2
        (tmp_path / "config.json").write_text(json.dumps(written | {key: other}))
        with pytest.raises(wb.errors.WorkbenchError):
            wb.load(tmp_path)


@cases
def test_every_other_value_of_the_config_matters(config):
    theirs = tiny(config)
    for key in config.to_dict().keys() & OTHER.keys():
        other = copy.deepcopy(config)
        value = not getattr(config, key) if OTHER[key] == "flip" else OTHER[key]
        setattr(other, key, value)
        changed = AutoModelForCausalLM.from_config(other, attn_implementation="eager").eval()
        changed.load_state_dict(theirs.state_dict())
        assert parity(wb.from_huggingface(changed), changed).holds, key
        assert not parity(wb.from_huggingface(changed), theirs).holds, key


@cases
def test_a_key_that_could_change_the_mathematics_is_refused_by_name(config, tmp_path):
    tiny(config).save_pretrained(tmp_path)
    written = json.loads((tmp_path / "config.json").read_text())
    for key in ("attn_logit_softcapping", "a_key_of_tomorrow"):
        (tmp_path / "config.json").write_text(json.dumps(written | {key: 30.0}))
        with pytest.raises(wb.errors.FamilyError, match=key):
            wb.load(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(written | {"a_key_of_tomorrow": None}))
    wb.load(tmp_path)


def test_a_rotary_scaling_is_refused(tmp_path):
    config = copy.deepcopy(CONFIGS["llama grouped, untied"])
    config.rope_parameters = {"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0}
    with pytest.raises(wb.errors.FamilyError, match="linear"):
        wb.from_huggingface(AutoModelForCausalLM.from_config(config))


@cases
def test_bfloat16_errs_no_more_than_transformers(config):
    """The mean error against float32, over 2,400 positions."""
    exact = tiny(config)
    rounded = tiny(config).to(torch.bfloat16)
    exact.load_state_dict({name: tensor.float() for name, tensor in rounded.state_dict().items()})
    ours = wb.from_huggingface(rounded)
    tokens = torch.randint(0, VOCAB, (60, 40), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        wanted = exact(tokens).logits
        error = [(logits.float() - wanted).abs().mean() for logits in (ours(tokens)[0], rounded(tokens).logits)]
    assert ours(tokens)[0].dtype == torch.bfloat16
    assert error[0] <= 1.1 * error[1], error


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("use_rope", False),
        ("is_causal", False),
        ("logit_scale", 0.0),
        ("partial_rotary_factor", 0),
        ("partial_rotary_factor", 0.5),
        ("sliding_window", 4096),
        ("layer_types", ["sliding_attention"]),
        ("rope_interleaved", True),
        ("quantization_config", {"bits": 4}),
        ("rope_scaling", {"rope_type": "llama3", "factor": 8.0}),
        ("rope_scaling", {"rope_type": "default", "rope_theta": 300.0}),
        ("rope_scaling", "linear"),
        ("rope_parameters", [1]),
        ("rope_theta", 500.0),
        ("hidden_act", ["silu"]),
        ("num_hidden_layers", 100_000_000),
        ("hidden_size", "24000"),
        ("embedding_multiplier", 0),
    ],
)
def test_a_value_is_not_harmless_for_being_false_or_zero(tmp_path, key, value):
    tiny(CONFIGS["llama grouped, untied"]).save_pretrained(tmp_path)
    written = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(written | {key: value}))
    with pytest.raises(wb.errors.FamilyError, match=key):
        wb.load(tmp_path)


def test_what_published_configs_hold_besides_loads(tmp_path):
    """As in the files of SmolLM2 and TinyLlama, which were written by older releases."""
    config = CONFIGS["llama grouped, untied"]
    theirs = tiny(config)
    theirs.save_pretrained(tmp_path)
    written = json.loads((tmp_path / "config.json").read_text())
    del written["rope_parameters"], written["head_dim"]
    written |= {
        "is_llama_config": True,
        "rope_interleaved": False,
        "rope_theta": 10000.0,
        "rope_scaling": None,
        "torch_dtype": "float32",
        "transformers.js_config": {"kv_cache_dtype": {"q4f16": "float16"}},
        "pretraining_tp": 1,
        "max_sequence_length": 2048,
        "unsloth_fixed": True,
        "layerdrop": 0.0,
        "sliding_window": None,
    }
    (tmp_path / "config.json").write_text(json.dumps(written))
    assert parity(wb.load(tmp_path), theirs).holds
