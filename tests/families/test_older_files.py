"""Config files as they were published before transformers 5, small: read here as transformers reads them."""

import json
import math

import pytest
import torch
from parity import parity, tiny
from safetensors.torch import load_file, save_file
from transformers import AutoConfig

import workbench as wb

SIZES = {
    "hidden_size": 32,
    "intermediate_size": 40,
    "vocab_size": 53,
    "max_position_embeddings": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "bos_token_id": 0,
    "eos_token_id": [0, 1],
    "attention_dropout": 0.0,
    "initializer_range": 0.02,
    "torch_dtype": "float32",
    "transformers_version": "4.40.1",
    "use_cache": True,
}


def assert_read_as_by_transformers(folder, values: dict, tensors_of: dict | None = None) -> wb.ModelSpec:
    """tensors_of: a config that says the same, where transformers no longer takes the older one."""
    (folder / "config.json").write_text(json.dumps(SIZES | (tensors_of or values)))
    theirs = tiny(AutoConfig.from_pretrained(folder))
    theirs.save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps(SIZES | values))
    ours = wb.load(folder)
    errors = parity(ours, theirs)
    assert errors.holds, errors
    return ours.spec


def refused(values: dict, match: str) -> None:
    """By name, before any tensor is looked at."""
    reader = wb.families._config.Config(SIZES | values, "the file")
    with pytest.raises(wb.errors.FamilyError, match=match):
        wb.families.family(values["model_type"]).spec(reader)


QWEN2 = {
    "architectures": ["Qwen2ForCausalLM"],
    "hidden_act": "silu",
    "max_window_layers": 1,
    "model_type": "qwen2",
    "rms_norm_eps": 1e-06,
    "rope_theta": 1000000.0,
    "sliding_window": 3,
    "tie_word_embeddings": False,
    "use_mrope": False,
    "use_sliding_window": False,
}


def test_qwen2_has_a_width_of_windows_that_are_off(tmp_path):
    spec = assert_read_as_by_transformers(tmp_path, QWEN2)
    assert [layer.attn.window for layer in spec.layers] == [None, None]


@pytest.mark.parametrize(("first", "windows"), [(0, [3, 3]), (1, [None, 3]), (2, [None, None])])
def test_qwen2_has_windows_from_a_layer_on(tmp_path, first, windows):
    values = QWEN2 | {"use_sliding_window": True, "max_window_layers": first}
    spec = assert_read_as_by_transformers(tmp_path, values)
    assert [layer.attn.window for layer in spec.layers] == windows


def test_qwen2_is_scaled_by_yarn_as_its_page_advises(tmp_path):
    scaling = {"factor": 4.0, "original_max_position_embeddings": 10, "type": "yarn"}
    assert_read_as_by_transformers(tmp_path, QWEN2 | {"rope_scaling": scaling, "rope_theta": 100.0})


def test_qwen2_turns_whole_heads():
    refused(QWEN2 | {"partial_rotary_factor": 0.5}, "partial_rotary_factor")
    refused(QWEN2 | {"rope_scaling": {"rope_type": "default", "partial_rotary_factor": 0.5}}, "partial_rotary_factor")


QWEN3 = {
    "architectures": ["Qwen3ForCausalLM"],
    "attention_bias": False,
    "head_dim": 10,
    "hidden_act": "silu",
    "max_window_layers": 2,
    "model_type": "qwen3",
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "rope_theta": 1000000,
    "sliding_window": None,
    "tie_word_embeddings": True,
    "use_sliding_window": False,
}


def test_qwen3(tmp_path):
    assert_read_as_by_transformers(tmp_path, QWEN3)


SMOLLM3 = {
    "architectures": ["SmolLM3ForCausalLM"],
    "attention_bias": False,
    "hidden_act": "silu",
    "layer_types": ["full_attention", "full_attention"],
    "max_window_layers": 28,
    "mlp_bias": False,
    "model_type": "smollm3",
    "no_rope_layer_interval": 4,
    "no_rope_layers": [1, 0],
    "pad_token_id": 2,
    "pretraining_tp": 2,
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "rope_theta": 5000000.0,
    "sliding_window": None,
    "use_sliding_window": False,
}


def test_smollm3(tmp_path):
    assert_read_as_by_transformers(tmp_path, SMOLLM3)


def test_smollm3_without_lists_of_layers(tmp_path):
    lists = ("layer_types", "no_rope_layers")
    values = {key: value for key, value in SMOLLM3.items() if key not in lists} | {
        "no_rope_layer_interval": 2,
        "use_sliding_window": True,
        "sliding_window": 3,
    }
    spec = assert_read_as_by_transformers(tmp_path, values)
    assert [layer.attn.window for layer in spec.layers] == [None, 3]


def test_granite(tmp_path):
    assert_read_as_by_transformers(
        tmp_path,
        {
            "architectures": ["GraniteForCausalLM"],
            "attention_bias": False,
            "attention_multiplier": 0.015625,
            "embedding_multiplier": 12.0,
            "hidden_act": "silu",
            "logits_scaling": 8.0,
            "mlp_bias": False,
            "model_type": "granite",
            "pad_token_id": 0,
            "residual_multiplier": 0.22,
            "rms_norm_eps": 1e-05,
            "rope_scaling": None,
            "rope_theta": 10000000.0,
            "tie_word_embeddings": True,
        },
    )


OLMO = {  # OLMo-1B-hf
    "architectures": ["OlmoForCausalLM"],
    "attention_bias": False,
    "clip_qkv": None,
    "hidden_act": "silu",
    "model_type": "olmo",
    "pad_token_id": 1,
    "pretraining_tp": 1,
    "rope_scaling": None,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
}


@pytest.mark.parametrize("more", [{}, {"tie_word_embeddings": False}], ids=["1B", "7B"])
def test_olmo(tmp_path, more):
    assert_read_as_by_transformers(tmp_path, OLMO | more)


def test_olmo_that_clamps_queries_keys_and_values_is_refused():
    refused(OLMO | {"clip_qkv": 8.0}, "clip_qkv = 8.0")  # OLMo-1.7-7B-hf


def test_olmo2(tmp_path):
    assert_read_as_by_transformers(
        tmp_path,
        {
            "architectures": ["Olmo2ForCausalLM"],
            "attention_bias": False,
            "hidden_act": "silu",
            "model_type": "olmo2",
            "pad_token_id": 1,
            "rms_norm_eps": 1e-06,
            "rope_scaling": None,
            "rope_theta": 500000,
            "tie_word_embeddings": False,
        },
    )


PHI3 = {
    "architectures": ["Phi3ForCausalLM"],
    "attention_bias": False,
    "auto_map": {"AutoConfig": "configuration_phi3.Phi3Config"},
    "embd_pdrop": 0.0,
    "full_attn_mod": 1,
    "hidden_act": "silu",
    "interpolate_factor": 1,
    "lm_head_bias": False,
    "mlp_bias": False,
    "model_type": "phi3",
    "original_max_position_embeddings": 8,
    "pad_token_id": 2,
    "partial_rotary_factor": 0.75,
    "resid_pdrop": 0.0,
    "rms_norm_eps": 1e-05,
    "rope_scaling": {"long_factor": [1.0, 2.0, 4.0], "short_factor": [1.0, 1.2, 1.5], "type": "longrope"},
    "rope_theta": 100.0,
    "sliding_window": 5,
    "tie_word_embeddings": True,
}


@pytest.mark.parametrize("name", ["longrope", "su"])
def test_phi3_by_either_name_of_its_scaling(tmp_path, name):
    values = PHI3 | {"rope_scaling": PHI3["rope_scaling"] | {"type": name}}
    assert_read_as_by_transformers(tmp_path, values, tensors_of=PHI3)


def test_phi3_unscaled(tmp_path):
    unscaled = {"rope_scaling": None, "partial_rotary_factor": 1.0, "sliding_window": None}
    assert_read_as_by_transformers(tmp_path, PHI3 | unscaled)


def test_phi3_must_say_how_long_its_texts_were_in_training():
    refused(PHI3 | {"original_max_position_embeddings": None}, "original_max_position_embeddings")


GEMMA = {
    "architectures": ["GemmaForCausalLM"],
    "attention_bias": False,
    "head_dim": 10,
    "hidden_act": "gelu",
    "model_type": "gemma",
    "pad_token_id": 0,
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "rope_theta": 10000.0,
}


@pytest.mark.parametrize("more", [{}, {"hidden_activation": None}, {"hidden_activation": "gelu_pytorch_tanh"}])
def test_gemma_says_gelu_and_means_its_approximation(tmp_path, more):
    assert_read_as_by_transformers(tmp_path, GEMMA | more)


def test_gemma_with_two_activations_is_refused():
    refused(GEMMA | {"hidden_activation": "gelu"}, "hidden_activation")


GEMMA2 = {
    "architectures": ["Gemma2ForCausalLM"],
    "attention_bias": False,
    "attn_logit_softcapping": 2.0,
    "cache_implementation": "hybrid",
    "final_logit_softcapping": 5.0,
    "head_dim": 10,
    "hidden_act": "gelu_pytorch_tanh",
    "hidden_activation": "gelu_pytorch_tanh",
    "model_type": "gemma2",
    "pad_token_id": 0,
    "query_pre_attn_scalar": 6,
    "rms_norm_eps": 1e-06,
    "rope_theta": 10000.0,
    "sliding_window": 3,
    "sliding_window_size": 3,
}


def test_gemma2(tmp_path):
    spec = assert_read_as_by_transformers(tmp_path, GEMMA2)
    assert [layer.attn.window for layer in spec.layers] == [3, None]


def test_gemma2_that_says_nothing_of_softcaps_has_them(tmp_path):
    values = {key: value for key, value in GEMMA2.items() if "softcapping" not in key}
    spec = assert_read_as_by_transformers(tmp_path, values)
    assert (spec.layers[0].attn.softcap, spec.unembed.softcap) == (50.0, 30.0)


def test_gemma2_with_two_windows_is_refused():
    refused(GEMMA2 | {"sliding_window_size": 4}, "sliding_window_size")


GEMMA3 = {
    "architectures": ["Gemma3ForCausalLM"],
    "attention_bias": False,
    "attn_logit_softcapping": None,
    "cache_implementation": "hybrid",
    "final_logit_softcapping": None,
    "head_dim": 10,
    "hidden_activation": "gelu_pytorch_tanh",
    "model_type": "gemma3_text",
    "pad_token_id": 0,
    "query_pre_attn_scalar": 6,
    "rms_norm_eps": 1e-06,
    "rope_local_base_freq": 50,
    "rope_scaling": None,
    "rope_theta": 400,
    "sliding_window": 3,
    "sliding_window_pattern": 2,
}


@pytest.mark.parametrize("scaling", [None, {"factor": 8.0, "rope_type": "linear"}])
def test_gemma3_scales_the_layers_without_a_window_only(tmp_path, scaling):
    spec = assert_read_as_by_transformers(tmp_path, GEMMA3 | {"rope_scaling": scaling})
    assert [(layer.attn.window, layer.attn.rotary.base) for layer in spec.layers] == [(3, 50.0), (None, 400.0)]
    assert spec.layers[0].attn.rotary.scaling is None
    assert (spec.layers[1].attn.rotary.scaling is None) == (scaling is None)


def test_gemma3_with_the_bases_beside_the_scaling(tmp_path):
    """Some files of the time between."""
    rope = {"full_attention": {"factor": 8.0, "rope_type": "linear"}, "sliding_attention": {"rope_type": "default"}}
    assert_read_as_by_transformers(tmp_path, GEMMA3 | {"rope_parameters": rope})


def test_gemma3_that_would_be_something_else_is_refused():
    refused(GEMMA3 | {"use_bidirectional_attention": True}, "use_bidirectional_attention")  # EmbeddingGemma
    refused(GEMMA3 | {"attn_logit_softcapping": 50.0}, "attn_logit_softcapping")
    refused(GEMMA3 | {"rope_parameters": {"rope_type": "default", "rope_theta": 400.0}}, "rope_parameters")


QWEN3_MOE = {  # Qwen3-30B-A3B
    "architectures": ["Qwen3MoeForCausalLM"],
    "attention_bias": False,
    "decoder_sparse_step": 1,
    "head_dim": 10,
    "hidden_act": "silu",
    "max_window_layers": 2,
    "mlp_only_layers": [],
    "model_type": "qwen3_moe",
    "moe_intermediate_size": 12,
    "norm_topk_prob": True,
    "num_experts": 5,
    "num_experts_per_tok": 2,
    "output_router_logits": False,
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "rope_theta": 1000000.0,
    "router_aux_loss_coef": 0.001,
    "sliding_window": None,
    "tie_word_embeddings": False,
    "use_sliding_window": False,
}


@pytest.mark.parametrize("more", [{}, {"num_local_experts": 5}, {"sliding_window": 4096}])
def test_qwen3_moe_counts_experts_under_either_name(tmp_path, more):
    spec = assert_read_as_by_transformers(tmp_path, QWEN3_MOE | more)
    assert (spec.layers[0].mlp.router.n_experts, spec.layers[0].attn.window) == (5, None)


def test_qwen3_moe_that_contradicts_itself_is_refused():
    refused(QWEN3_MOE | {"num_local_experts": 6}, "num_local_experts = 6 and num_experts = 5")
    refused(QWEN3_MOE | {"use_sliding_window": True}, "sliding_window")


LATENT = {
    "attention_bias": False,
    "auto_map": {"AutoConfig": "configuration_deepseek.DeepseekV2Config"},
    "aux_loss_alpha": 0.001,
    "ep_size": 1,
    "first_k_dense_replace": 1,
    "hidden_act": "silu",
    "kv_lora_rank": 8,
    "moe_intermediate_size": 14,
    "moe_layer_freq": 1,
    "num_experts_per_tok": 2,
    "num_key_value_heads": 4,
    "pretraining_tp": 1,
    "qk_nope_head_dim": 6,
    "qk_rope_head_dim": 8,
    "rms_norm_eps": 1e-06,
    "rope_scaling": {
        "beta_fast": 32,
        "beta_slow": 1,
        "factor": 4,
        "mscale": 0.707,
        "mscale_all_dim": 0.707,
        "original_max_position_embeddings": 10,
        "type": "yarn",
    },
    "rope_theta": 100,
    "seq_aux": True,
    "tie_word_embeddings": False,
    "v_head_dim": 10,
}
DEEPSEEK_V2 = LATENT | {  # DeepSeek-V2-Lite
    "architectures": ["DeepseekV2ForCausalLM"],
    "model_type": "deepseek_v2",
    "n_group": 1,
    "n_routed_experts": 6,
    "n_shared_experts": 2,
    "norm_topk_prob": False,
    "q_lora_rank": None,
    "routed_scaling_factor": 1.0,
    "scoring_func": "softmax",
    "topk_group": 1,
    "topk_method": "greedy",
}
LARGE_DEEPSEEK_V2 = {  # DeepSeek-V2
    "n_group": 3,
    "q_lora_rank": 7,
    "routed_scaling_factor": 16.0,
    "topk_group": 2,
    "topk_method": "group_limited_greedy",
}


@pytest.mark.parametrize("more", [{}, LARGE_DEEPSEEK_V2], ids=["lite", "large"])
def test_deepseek_v2(tmp_path, more):
    spec = assert_read_as_by_transformers(tmp_path, DEEPSEEK_V2 | more)
    assert spec.layers[0].attn.scale == pytest.approx(14**-0.5 * (0.0707 * math.log(4) + 1) ** 2)


def test_deepseek_v2_with_weights_over_their_sum_is_refused():
    refused(DEEPSEEK_V2 | {"norm_topk_prob": True}, "norm_topk_prob")
    refused(DEEPSEEK_V2 | {"moe_layer_freq": 2}, "moe_layer_freq")


DEEPSEEK_V3 = LATENT | {  # DeepSeek-V3, in bfloat16
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    "n_group": 4,
    "n_routed_experts": 16,
    "n_shared_experts": 1,
    "norm_topk_prob": True,
    "num_nextn_predict_layers": 1,
    "q_lora_rank": 7,
    "routed_scaling_factor": 2.5,
    "scoring_func": "sigmoid",
    "topk_group": 2,
    "topk_method": "noaux_tc",
}


@pytest.mark.parametrize("more", [{}, {"n_group": 1, "topk_group": 1, "q_lora_rank": None}], ids=["V3", "Moonlight"])
def test_deepseek_v3(tmp_path, more):
    assert_read_as_by_transformers(tmp_path, DEEPSEEK_V3 | more)


def test_deepseek_v3_leaves_the_layer_that_predicts_a_further_token(tmp_path):
    spec = assert_read_as_by_transformers(tmp_path, DEEPSEEK_V3)
    file = tmp_path / "model.safetensors"
    tensors = {name: tensor.clone() for name, tensor in load_file(file).items()}
    names = ("eh_proj", "enorm", "hnorm", "shared_head.norm", "shared_head.head", "embed_tokens")
    further = {f"model.layers.2.{name}.weight": torch.ones(spec.d_model) for name in names}
    further |= {name.replace("layers.1.", "layers.2."): tensor.clone() for name, tensor in tensors.items()}
    save_file(tensors | further, file, metadata={"format": "pt"})
    assert wb.load(tmp_path).spec == spec
    del further["model.layers.2.eh_proj.weight"]  # by which such a layer is known
    save_file(tensors | further, file, metadata={"format": "pt"})
    with pytest.raises(wb.errors.LoadError, match=r"has \d+ tensors .* first 'model.layers.2"):
        wb.load(tmp_path)
    save_file(tensors | {"model.layers.1.eh_proj.weight": torch.ones(1)}, file, metadata={"format": "pt"})
    with pytest.raises(wb.errors.LoadError, match=r"has 1 tensors .* first 'model.layers.1.eh_proj"):
        wb.load(tmp_path)


GPT_OSS = {  # gpt-oss-20b, in bfloat16
    "architectures": ["GptOssForCausalLM"],
    "attention_bias": True,
    "experts_per_token": 2,
    "head_dim": 8,
    "hidden_act": "silu",
    "initial_context_length": 10,
    "layer_types": ["sliding_attention", "full_attention"],
    "model_type": "gpt_oss",
    "num_experts_per_tok": 2,
    "num_local_experts": 5,
    "output_router_logits": False,
    "pad_token_id": 2,
    "rms_norm_eps": 1e-05,
    "rope_scaling": {
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "factor": 4.0,
        "original_max_position_embeddings": 10,
        "rope_type": "yarn",
        "truncate": False,
    },
    "rope_theta": 150000,
    "router_aux_loss_coef": 0.9,
    "sliding_window": 4,
    "swiglu_limit": 7.0,
    "tie_word_embeddings": False,
}


def test_gpt_oss(tmp_path):
    spec = assert_read_as_by_transformers(tmp_path, GPT_OSS)
    assert [layer.attn.window for layer in spec.layers] == [4, None]
    assert (spec.layers[0].mlp.expert.alpha, spec.layers[0].mlp.expert.limit) == (1.702, 7.0)


def test_gpt_oss_copies_only_what_alternates_in_its_file_and_counts_it(tmp_path, monkeypatch):
    assert_read_as_by_transformers(tmp_path, GPT_OSS)
    experts = wb.load(tmp_path).blocks[0].mlp.experts
    assert all(branch.weight.is_contiguous() for branch in (experts.gate, experts.in_, experts.out))
    monkeypatch.setattr("workbench.formats.published.free_memory", lambda device: 1000)
    with pytest.raises(wb.errors.TooLargeError):
        wb.load(tmp_path)


def test_gpt_oss_that_contradicts_itself_or_says_no_rotation_is_refused():
    refused(GPT_OSS | {"experts_per_token": 4}, "experts_per_token = 4")
    refused(GPT_OSS | {"initial_context_length": 4096}, "initial_context_length")
    refused(GPT_OSS | {"rope_scaling": None}, "rope_type")


@pytest.mark.parametrize(
    ("values", "method"), [(GPT_OSS, "mxfp4"), (DEEPSEEK_V3, "fp8")], ids=["gpt-oss-20b", "DeepSeek-V3"]
)
def test_packed_weights_are_refused_as_such(tmp_path, values, method):
    assert_read_as_by_transformers(tmp_path, values)
    packed = SIZES | values | {"quantization_config": {"quant_method": method}}
    (tmp_path / "config.json").write_text(json.dumps(packed))
    with pytest.raises(wb.errors.FamilyError, match=f"quant_method = '{method}': its weights are packed"):
        wb.load(tmp_path)


def assert_read_with_its_buffers(folder, values: dict, buffers: dict | None = None, rename=str) -> wb.ModelSpec:
    """The file has buffers that are no parameters, and other names."""
    (folder / "config.json").write_text(json.dumps(OWN | values))
    theirs = tiny(AutoConfig.from_pretrained(folder))
    tensors = {rename(name): tensor.clone() for name, tensor in theirs.state_dict().items()}
    save_file(tensors | (buffers or {}), folder / "model.safetensors")
    ours = wb.load(folder)
    errors = parity(ours, theirs)
    assert errors.holds, errors
    return ours.spec


def in_both_layers(prefix: str, *names: str) -> dict[str, torch.Tensor]:
    """Causal masks, what masked scores were, frequencies."""
    kept = {
        "bias": torch.ones(1, 1, 40, 40).tril().bool(),
        "masked_bias": torch.tensor(-1e9),
        "inv_freq": torch.rand(2),
    }
    return {f"{prefix.format(at)}.{name}": kept[name.split(".")[-1]].clone() for at in range(2) for name in names}


OWN = {key: SIZES[key] for key in ("vocab_size", "bos_token_id", "torch_dtype", "transformers_version", "use_cache")}
GPT_SUMMARY = {
    "summary_activation": None,
    "summary_first_dropout": 0.1,
    "summary_proj_to_labels": True,
    "summary_type": "cls_index",
    "summary_use_proj": True,
}


def test_gpt_neo_with_its_masks(tmp_path):
    values = GPT_SUMMARY | {
        "activation_function": "gelu_new",
        "architectures": ["GPTNeoForCausalLM"],
        "attention_dropout": 0,
        "attention_layers": ["global", "local"],
        "attention_types": [[["global", "local"], 1]],
        "embed_dropout": 0,
        "gradient_checkpointing": False,
        "hidden_size": 24,
        "initializer_range": 0.02,
        "intermediate_size": None,
        "layer_norm_epsilon": 1e-05,
        "max_position_embeddings": 40,
        "model_type": "gpt_neo",
        "num_heads": 3,
        "num_layers": 2,
        "resid_dropout": 0,
        "window_size": 4,
    }
    masks = in_both_layers("transformer.h.{}.attn.attention", "bias", "masked_bias")
    spec = assert_read_with_its_buffers(tmp_path, values, masks)
    assert [layer.attn.window for layer in spec.layers] == [None, 4]


@pytest.mark.parametrize("types", [[[["local"], 2]], [[["global", "local"], 3]], [["global", "local"]], "global", 3])
def test_gpt_neo_says_of_each_layer_once_what_it_sees(types):
    sizes = {"hidden_size": 24, "num_heads": 3, "num_layers": 2, "model_type": "gpt_neo"}
    refused(sizes | {"attention_types": types, "attention_layers": ["global", "local"]}, "attention_")


PYTHIA = {
    "architectures": ["GPTNeoXForCausalLM"],
    "attention_probs_dropout_prob": 0,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0,
    "hidden_size": 24,
    "initializer_range": 0.02,
    "intermediate_size": 40,
    "layer_norm_eps": 1e-05,
    "max_position_embeddings": 40,
    "model_type": "gpt_neox",
    "num_attention_heads": 3,
    "num_hidden_layers": 2,
    "rotary_emb_base": 300,
    "rotary_pct": 0.5,
    "tie_word_embeddings": False,
    "use_parallel_residual": True,
}


@pytest.mark.parametrize("later", [{}, {"attention_bias": True, "partial_rotary_factor": 0.5, "rope_theta": 300}])
def test_pythia_with_its_masks_and_frequencies(tmp_path, later):
    buffers = in_both_layers("gpt_neox.layers.{}.attention", "bias", "masked_bias", "rotary_emb.inv_freq")
    values = PYTHIA | later
    spec = assert_read_with_its_buffers(tmp_path, values, buffers, lambda name: name.replace("lm_head", "embed_out"))
    assert (spec.layers[0].attn.rotary.base, spec.layers[0].attn.rotary.d_rotary) == (300.0, 4)


def test_pythia_with_two_shares_is_refused():
    refused(PYTHIA | {"partial_rotary_factor": 0.25}, "rotary_pct")


def test_gptj_with_its_masks(tmp_path):
    values = GPT_SUMMARY | {
        "activation_function": "gelu_new",
        "architectures": ["GPTJForCausalLM"],
        "attn_pdrop": 0.0,
        "embd_pdrop": 0.0,
        "gradient_checkpointing": False,
        "initializer_range": 0.02,
        "layer_norm_epsilon": 1e-05,
        "model_type": "gptj",
        "n_embd": 24,
        "n_head": 3,
        "n_inner": None,
        "n_layer": 2,
        "n_positions": 40,
        "resid_pdrop": 0.0,
        "rotary": True,
        "rotary_dim": 4,
        "scale_attn_weights": True,
        "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50, "temperature": 1.0}},
        "tie_word_embeddings": False,
        "tokenizer_class": "GPT2Tokenizer",
    }
    assert_read_with_its_buffers(tmp_path, values, in_both_layers("transformer.h.{}.attn", "bias", "masked_bias"))
    refused(values | {"rotary": False}, "rotary")


OPT = {
    "activation_dropout": 0.0,
    "activation_function": "relu",
    "architectures": ["OPTForCausalLM"],
    "attention_dropout": 0.0,
    "do_layer_norm_before": True,
    "dropout": 0.1,
    "ffn_dim": 40,
    "hidden_size": 24,
    "init_std": 0.02,
    "layerdrop": 0.0,
    "max_position_embeddings": 40,
    "model_type": "opt",
    "num_attention_heads": 3,
    "num_hidden_layers": 2,
    "pad_token_id": 1,
    "prefix": "</s>",
    "word_embed_proj_dim": 24,
}


@pytest.mark.parametrize(
    "more",
    [
        {"_remove_final_layer_norm": False, "output_projection": True},
        {"do_layer_norm_before": False, "word_embed_proj_dim": 10},
        {"activation_function": "gelu", "learned_embeddings": True, "scale_embeddings": False},
    ],
    ids=["13b", "350m", "galactica"],
)
def test_opt_under_the_names_of_its_backbone(tmp_path, more):
    assert_read_with_its_buffers(
        tmp_path, OPT | more, {"decoder.version": torch.tensor([3.0])}, lambda name: name.removeprefix("model.")
    )


def test_opt_with_a_projected_embedding_is_tied():
    narrow = OPT | {"word_embed_proj_dim": 10, "num_key_value_heads": None}
    refused(narrow | {"tie_word_embeddings": False}, "tie_word_embeddings")


def test_phi_2(tmp_path):
    values = {
        "architectures": ["PhiForCausalLM"],
        "embd_pdrop": 0.0,
        "hidden_act": "gelu_new",
        "layer_norm_eps": 1e-05,
        "model_type": "phi",
        "num_key_value_heads": 4,
        "partial_rotary_factor": 0.25,
        "qk_layernorm": False,
        "resid_pdrop": 0.1,
        "rope_scaling": None,
        "rope_theta": 300.0,
        "tie_word_embeddings": False,
    }
    spec = assert_read_as_by_transformers(tmp_path, values)
    assert (spec.layers[0].attn.rotary.base, spec.layers[0].attn.rotary.d_rotary) == (300.0, 2)


STABLELM = {
    "architectures": ["StableLmForCausalLM"],
    "hidden_act": "silu",
    "layer_norm_eps": 1e-05,
    "model_type": "stablelm",
    "partial_rotary_factor": 0.5,
    "rope_theta": 300,
    "tie_word_embeddings": False,
}


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"use_qkv_bias": True},
        {"hidden_dropout": 0.0, "qk_layernorm": True, "use_parallel_residual": True, "use_qkv_bias": False},
    ],
    ids=["3b-4e1t", "2-1_6b", "2-12b"],
)
def test_stablelm(tmp_path, more):
    spec = assert_read_as_by_transformers(tmp_path, STABLELM | more)
    assert (spec.layers[0].attn.rotary.base, spec.layers[0].attn.rotary.d_rotary) == (300.0, 4)


@pytest.mark.parametrize(
    "more",
    [
        {"embedding_dropout": 0.1, "residual_dropout": 0.1},
        {"norm_type": "layer_norm", "rms_norm_eps": 1e-05, "tie_word_embeddings": False},
    ],
    ids=["3b", "15b"],
)
def test_starcoder2(tmp_path, more):
    values = {
        "architectures": ["Starcoder2ForCausalLM"],
        "hidden_act": "gelu_pytorch_tanh",
        "mlp_type": "default",
        "model_type": "starcoder2",
        "norm_epsilon": 1e-05,
        "rope_theta": 999999.4420358813,
        "sliding_window": 3,
        "use_bias": True,
    }
    spec = assert_read_as_by_transformers(tmp_path, values | more)
    assert [layer.attn.window for layer in spec.layers] == [3, 3]
    refused(values | {"mlp_type": "gated"}, "mlp_type")
