"""Every family that llama.cpp writes, from small transformers models, through a file as its converter writes it."""

import pytest
from cases import ALL
from llama_cpp import convert
from parity import parity, tiny
from transformers import (
    Gemma2Config,
    Gemma3TextConfig,
    GPT2Config,
    LlamaConfig,
    MistralConfig,
    MixtralConfig,
    Phi3Config,
    Qwen2Config,
    Qwen3Config,
)

import workbench as wb

SIZES = {"hidden_size": 24, "intermediate_size": 40, "vocab_size": 53, "max_position_embeddings": 40}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2}
YARN = {"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "original_max_position_embeddings": 10}


def gemma3_rotations(**of_full):
    return {
        "sliding_attention": {"rope_type": "default", "rope_theta": 50.0},
        "full_attention": {"rope_type": "default", "rope_theta": 400.0, **of_full},
    }


def gemma3(n_layers: int, **more) -> Gemma3TextConfig:
    return Gemma3TextConfig(
        **SIZES | HEADS | {"num_hidden_layers": n_layers, "head_dim": 8, "query_pre_attn_scalar": 8} | more
    )


def gemma2(**more) -> Gemma2Config:
    of_2 = {"num_hidden_layers": 3, "head_dim": 10, "query_pre_attn_scalar": 10, "sliding_window": 4}
    caps = {"attn_logit_softcapping": 2.0, "final_logit_softcapping": 5.0}
    return Gemma2Config(**SIZES | HEADS | of_2 | caps | more)


CONFIGS = {
    **{
        f"llama: {name}": ALL[f"llama: {name}"]
        for name in (
            "grouped, untied",
            "one kv head, tied, wide heads, biases",
            "linear scaling",
            "yarn",
            "llama3 scaling",
        )
    },
    "llama: yarn, its own attention": LlamaConfig(
        **SIZES | HEADS, num_hidden_layers=2, rope_parameters=YARN | {"beta_fast": 4.0, "attention_factor": 1.4}
    ),
    "mistral": MistralConfig(**SIZES | HEADS, num_hidden_layers=2, head_dim=10, sliding_window=None),
    "mixtral: three of four, tied": ALL["mixtral: three of four"],
    "mixtral: two of five, llama3 scaling": MixtralConfig(
        **SIZES | HEADS | {"hidden_size": 32},
        num_hidden_layers=2,
        num_local_experts=5,
        rope_parameters=ALL["llama: llama3 scaling"].rope_parameters,
    ),
    "qwen2: tied": ALL["qwen2: full, tied"],
    "qwen2: yarn, wide heads": Qwen2Config(
        **SIZES | HEADS, num_hidden_layers=2, head_dim=10, rms_norm_eps=1e-2, rope_parameters=YARN
    ),
    "qwen3: tied": ALL["qwen3: full, tied"],
    "qwen3: yarn, wide heads": Qwen3Config(**SIZES | HEADS, num_hidden_layers=2, head_dim=10, rope_parameters=YARN),
    "gemma2: windows first": gemma2(),
    "gemma2: another base": gemma2(rms_norm_eps=1e-2, head_dim=6, query_pre_attn_scalar=6),
    "gemma3_text: every sixth full, scaled": gemma3(
        7, rope_parameters=gemma3_rotations(rope_type="linear", factor=8.0), sliding_window=4
    ),
    "gemma3_text: capped": gemma3(2, rope_parameters=gemma3_rotations(), sliding_window=4, final_logit_softcapping=5.0),
    **{
        f"phi3: {name}": ALL[f"phi3: {name}"]
        for name in (
            "sliding, every head its own",
            "longrope",
            "longrope of a part of each head, sliding",
        )
    },
    "phi3: tied, a part of each head": Phi3Config(
        **SIZES | HEADS | {"hidden_size": 32, "pad_token_id": None},
        num_hidden_layers=2,
        tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 0.5},
    ),
    "gpt2: tied": ALL["gpt2: tied"],
    "gpt2: untied": GPT2Config(
        n_layer=2,
        n_head=4,
        n_embd=24,
        n_positions=40,
        vocab_size=53,
        tie_word_embeddings=False,
        layer_norm_epsilon=1e-2,
    ),
}
cases = pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())


@cases
@pytest.mark.parametrize("side", ["left", "right"])
def test_logits_and_attention_are_those_of_transformers(config, side, tmp_path):
    theirs = tiny(config)
    ours = wb.load(convert(theirs, tmp_path / "published").write(tmp_path / "model.gguf"))
    errors = parity(ours, theirs, side)
    assert errors.holds, errors
