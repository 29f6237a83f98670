"""Presets: published numbers, what published configs give, and totals that anyone can look up."""

import json
import math
import time
from importlib import resources

import pytest
import torch

import workbench as wb
from workbench.families import family
from workbench.families._config import Config
from workbench.model.attention import AttentionSpec
from workbench.model.transformer import Transformer

# As NUMBERS lists them, None where layers differ; then parameters and active ones, in billions.
PUBLISHED = {
    "kamui-nano": (4, 128, 4, 4, 32, 512, 4096, 128, 0.001334, 0.001334),
    "kamui-small": (6, 256, 8, 8, 32, 1024, 8192, 256, 0.00690, 0.00690),
    "kamui-medium": (12, 512, 8, 8, 64, 2048, 50257, 512, 0.06382, 0.06382),
    "gpt2-small": (12, 768, 12, 12, 64, 3072, 50257, 1024, 0.12444, 0.12444),
    "gpt2-medium": (24, 1024, 16, 16, 64, 4096, 50257, 1024, 0.35482, 0.35482),
    "gpt2-large": (36, 1280, 20, 20, 64, 5120, 50257, 1024, 0.77403, 0.77403),
    "gpt2-xl": (48, 1600, 25, 25, 64, 6400, 50257, 1024, 1.5576, 1.5576),
    "gpt3-175b": (96, 12288, 96, 96, 128, 49152, 50257, 2048, 174.60, 174.60),
    "scratch-gpt": (24, 1024, 16, 16, 64, 4096, 50304, 1024, 0.4064, 0.4064),
    "original-transformer-decoder": (6, 512, 8, 8, 64, 2048, 37000, 512, 0.03785, 0.03785),
    "llama-2-7b": (32, 4096, 32, 32, 128, 11008, 32000, 4096, 6.74, 6.74),
    "llama-2-70b": (80, 8192, 64, 8, 128, 28672, 32000, 4096, 68.98, 68.98),
    "llama-3-8b": (32, 4096, 32, 8, 128, 14336, 128256, 8192, 8.03, 8.03),
    "llama-3-70b": (80, 8192, 64, 8, 128, 28672, 128256, 8192, 70.55, 70.55),
    "llama-3-405b": (126, 16384, 128, 8, 128, 53248, 128256, 131072, 405.85, 405.85),
    "mistral-7b": (32, 4096, 32, 8, 128, 14336, 32000, 32768, 7.24, 7.24),
    "mixtral-8x7b": (32, 4096, 32, 8, 128, 14336, 32000, 32768, 46.70, 12.88),
    "deepseek-v3": (61, 7168, 128, 128, 192, None, 129280, 163840, 671.03, 37.55),
}
NUMBERS = ("n_layers", "d_model", "n_heads", "n_kv_heads", "d_head", "d_mlp", "vocab_size", "n_ctx")


def test_these_there_are():
    assert wb.presets() == sorted(PUBLISHED)


def test_the_list_is_a_function_also_after_a_preset_was_read():
    wb.ModelSpec.preset("kamui-nano")
    assert wb.presets() == sorted(PUBLISHED)


@pytest.mark.parametrize("name", PUBLISHED)
def test_numbers(name):
    *numbers, n_params, n_active = PUBLISHED[name]
    spec = wb.ModelSpec.preset(name)
    assert [None if n is None else getattr(spec, which) for which, n in zip(NUMBERS, numbers, strict=True)] == numbers
    assert spec.n_params / 1e9 == pytest.approx(n_params, rel=1e-3)
    assert spec.n_active_params / 1e9 == pytest.approx(n_active, rel=1e-3)


@pytest.mark.parametrize("name", PUBLISHED)
def test_described_without_being_allocated(name):
    began = time.perf_counter()
    spec = wb.ModelSpec.preset(name)
    with torch.device("meta"):
        model = Transformer(spec)
    described = json.dumps(wb.costs(spec).to_dict() | spec.to_dict())
    assert time.perf_counter() - began < 2
    assert json.loads(described)["n_params"] == sum(p.numel() for p in model.parameters())
    assert len(model.sites) > 0


@pytest.mark.parametrize("name", PUBLISHED)
def test_files_say_every_field(name):
    data = json.loads((resources.files("workbench.presets") / f"{name}.json").read_text("utf-8"))
    spec = wb.ModelSpec.from_dict(data)
    assert spec == wb.ModelSpec.preset(name)
    assert json.loads(json.dumps(spec.to_dict())) == data


@pytest.mark.parametrize("name", [*(n for n in PUBLISHED if PUBLISHED[n][8] < 0.2), "scratch-gpt"])
def test_small_ones_run(name):
    """Of scratch-gpt two layers, which are enough to see that what is wired runs."""
    spec = wb.ModelSpec.preset(name)
    if name == "scratch-gpt":
        spec = wb.ModelSpec.from_dict(spec.to_dict() | {"layers": [layer.to_dict() for layer in spec.layers[:2]]})
    model = wb.HookedTransformer(spec).requires_grad_(False)
    tokens = torch.tensor([[5, 1, 4, 1, 5]])
    logits, attention = model(tokens)
    assert logits.shape == (1, 5, spec.vocab_size)
    assert logits.isfinite().all()
    assert len(attention) == spec.n_layers
    changed = model(torch.tensor([[5, 1, 4, 1, 6]]))[0]
    assert torch.allclose(changed[:, :4], logits[:, :4], atol=1e-5)
    assert not torch.allclose(changed[:, 4], logits[:, 4], atol=1e-3)


LLAMA = {
    "hidden_act": "silu",
    "num_key_value_heads": 8,
    "pretraining_tp": 1,
    "rms_norm_eps": 1e-05,
    "tie_word_embeddings": False,
    "use_cache": True,
}
CONFIGS = {
    "gpt2-xl": {
        "model_type": "gpt2",
        "activation_function": "gelu_new",
        "attn_pdrop": 0.1,
        "layer_norm_epsilon": 1e-05,
        "n_ctx": 1024,
        "n_embd": 1600,
        "n_head": 25,
        "n_layer": 48,
        "n_positions": 1024,
        "vocab_size": 50257,
    },
    "llama-2-70b": LLAMA
    | {
        "model_type": "llama",
        "hidden_size": 8192,
        "intermediate_size": 28672,
        "max_position_embeddings": 4096,
        "num_attention_heads": 64,
        "num_hidden_layers": 80,
        "rope_scaling": None,
        "vocab_size": 32000,
    },
    "llama-3-8b": LLAMA
    | {
        "model_type": "llama",
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "max_position_embeddings": 8192,
        "num_attention_heads": 32,
        "num_hidden_layers": 32,
        "rope_scaling": None,
        "rope_theta": 500000.0,
        "vocab_size": 128256,
    },
    "llama-3-405b": LLAMA
    | {
        "model_type": "llama",
        "hidden_size": 16384,
        "intermediate_size": 53248,
        "max_position_embeddings": 131072,
        "num_attention_heads": 128,
        "num_hidden_layers": 126,
        "rope_scaling": {
            "factor": 8.0,
            "high_freq_factor": 4.0,
            "low_freq_factor": 1.0,
            "original_max_position_embeddings": 8192,
            "rope_type": "llama3",
        },
        "rope_theta": 500000.0,
        "vocab_size": 128256,
    },
    "mistral-7b": LLAMA
    | {
        "model_type": "mistral",
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "max_position_embeddings": 32768,
        "num_attention_heads": 32,
        "num_hidden_layers": 32,
        "rope_theta": 10000.0,
        "sliding_window": 4096,
        "vocab_size": 32000,
    },
    "mixtral-8x7b": LLAMA
    | {
        "model_type": "mixtral",
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "max_position_embeddings": 32768,
        "num_attention_heads": 32,
        "num_experts_per_tok": 2,
        "num_hidden_layers": 32,
        "num_local_experts": 8,
        "rope_theta": 1000000.0,
        "sliding_window": None,
        "vocab_size": 32000,
    },
    "deepseek-v3": {
        "model_type": "deepseek_v3",
        "attention_bias": False,
        "first_k_dense_replace": 3,
        "hidden_act": "silu",
        "hidden_size": 7168,
        "intermediate_size": 18432,
        "kv_lora_rank": 512,
        "max_position_embeddings": 163840,
        "moe_intermediate_size": 2048,
        "moe_layer_freq": 1,
        "n_group": 8,
        "n_routed_experts": 256,
        "n_shared_experts": 1,
        "norm_topk_prob": True,
        "num_attention_heads": 128,
        "num_experts_per_tok": 8,
        "num_hidden_layers": 61,
        "num_key_value_heads": 128,
        "num_nextn_predict_layers": 1,
        "q_lora_rank": 1536,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "rms_norm_eps": 1e-06,
        "rope_scaling": {
            "beta_fast": 32,
            "beta_slow": 1,
            "factor": 40,
            "mscale": 1.0,
            "mscale_all_dim": 1.0,
            "original_max_position_embeddings": 4096,
            "type": "yarn",
        },
        "rope_theta": 10000,
        "routed_scaling_factor": 2.5,
        "scoring_func": "sigmoid",
        "tie_word_embeddings": False,
        "topk_group": 4,
        "topk_method": "noaux_tc",
        "v_head_dim": 128,
        "vocab_size": 129280,
    },
}


@pytest.mark.parametrize("name", CONFIGS)
def test_a_preset_is_what_the_published_config_gives(name):
    config = Config(CONFIGS[name], name)
    assert family(CONFIGS[name]["model_type"]).spec(config) == wb.ModelSpec.preset(name)
    config.finish()


def test_the_original_decoder():
    """Norms after each addition and none at the end; 37000 tokens at 512, in six layers 4 x 512^2 of attention without
    biases, a feed-forward with, and two norms."""
    spec = wb.ModelSpec.preset("original-transformer-decoder")
    assert spec.n_params == 37000 * 512 + 6 * (4 * 512**2 + 2 * 512 * 2048 + 2048 + 512 + 4 * 512)
    model = wb.HookedTransformer(spec).requires_grad_(False)
    tokens = torch.tensor([[3, 1, 4]])
    _, cache = model.run_with_cache(tokens)
    assert torch.allclose(cache["embed"], model.embedding.weight[tokens] * 512**0.5, rtol=1e-6)
    waves = cache["pos_embed"][0, 2]
    assert torch.allclose(waves[:2], torch.tensor([math.sin(2), math.cos(2)]))
    stream = cache["resid_pre", 0] + cache["attn_out", 0]
    assert torch.allclose(cache["resid_mid", 0], torch.layer_norm(stream, [512], eps=1e-6), atol=1e-5)
    assert torch.allclose(model(tokens)[0], cache["resid_post", 5] @ model.embedding.weight.T, atol=1e-4)


def test_the_second_texts_model():
    """ReLU, nothing tied, logits with a bias, and attention's only bias that of its output."""
    spec = wb.ModelSpec.preset("scratch-gpt")
    width, vocab = 1024, 50304
    a_layer = 4 * width**2 + width + 8 * width**2 + 5 * width + 4 * width
    assert spec.n_params == vocab * width + 1024 * width + 24 * a_layer + 2 * width + width * vocab + vocab
    assert {layer.mlp.label for layer in spec.layers} == {"ReLU"}


def test_labels():
    def labels(name):
        layers = wb.ModelSpec.preset(name).layers
        return layers[0].attn.label, layers[0].mlp.label, layers[-1].mlp.label

    assert labels("gpt3-175b") == ("MHA", "GELU", "GELU")
    assert labels("llama-2-70b") == ("GQA", "SwiGLU", "SwiGLU")
    assert labels("mistral-7b") == ("GQA, window 4096", "SwiGLU", "SwiGLU")
    assert labels("deepseek-v3") == ("MLA", "SwiGLU", "MoE 8 of 256 + shared")
    assert AttentionSpec(n_heads=8, n_kv_heads=1, d_head=32).label == "MQA"
    assert labels("mixtral-8x7b") == ("GQA", "MoE 2 of 8", "MoE 2 of 8")


@pytest.mark.parametrize(
    ("name", "says"), [("kamui-smal", "kamui-small"), ("llama-70b", "llama-3-70b"), ("../presets", ""), (7, "")]
)
def test_one_that_is_not_there(name, says):
    with pytest.raises(wb.errors.MissingError, match=f"no preset is called {name!r}.*{says}"):
        wb.ModelSpec.preset(name)
