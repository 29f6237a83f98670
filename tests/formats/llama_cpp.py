"""What llama.cpp's converter makes of a Hugging Face folder, written down from its Python: conversion/base.py,
llama.py, qwen.py, gemma.py, phi.py and gpt2.py. Nothing here comes from the reader that is tested."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gguf import GGMLQuantizationType, GGUFWriter, quants
from safetensors.torch import load_file
from transformers import PreTrainedModel

ARCHITECTURES = {"mistral": "llama", "mixtral": "llama", "gemma3_text": "gemma3"}

AROUND = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
OF_LLAMA = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
OF_GEMMA = OF_LLAMA | {
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}
NORMED = {"self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm"}
IN_LAYERS = {
    "llama": OF_LLAMA,
    "mistral": OF_LLAMA,
    "mixtral": OF_LLAMA | {"block_sparse_moe.gate": "ffn_gate_inp"},
    "qwen2": OF_LLAMA,
    "qwen3": OF_LLAMA | NORMED,
    "gemma2": OF_GEMMA,
    "gemma3_text": OF_GEMMA | NORMED,
    "phi3": OF_LLAMA | {"self_attn.qkv_proj": "attn_qkv", "mlp.gate_up_proj": "ffn_up"},
    "gpt2": {
        "ln_1": "attn_norm",
        "attn.c_attn": "attn_qkv",
        "attn.c_proj": "attn_output",
        "ln_2": "ffn_norm",
        "mlp.c_fc": "ffn_up",
        "mlp.c_proj": "ffn_down",
    },
}
AROUND_GPT2 = {
    "transformer.wte": "token_embd",
    "transformer.wpe": "position_embd",
    "transformer.ln_f": "output_norm",
    "lm_head": "output",
}
EXPERTS = {"w1": "ffn_gate_exps", "w2": "ffn_down_exps", "w3": "ffn_up_exps"}
TRANSPOSED = (".c_attn.weight", ".c_proj.weight", ".c_fc.weight")


@dataclass
class Converted:
    """A file before it is written: metadata by full keys, tensors in torch's order."""

    architecture: str
    metadata: dict[str, Any]
    tensors: dict[str, torch.Tensor]
    quantised: set[str] = field(default_factory=set)

    def with_metadata(self, **changes: Any) -> Converted:
        """Keys without the architecture, dots as __; None takes one away."""
        named = {f"{self.architecture}.{key.replace('__', '.')}": value for key, value in changes.items()}
        return replace(self, metadata={k: v for k, v in (self.metadata | named).items() if v is not None})

    def with_tensors(self, **changes: torch.Tensor | None) -> Converted:
        changed = self.tensors | {name.replace("__", "."): tensor for name, tensor in changes.items()}
        return replace(self, tensors={name: tensor for name, tensor in changed.items() if tensor is not None})

    def write(self, path: Path) -> Path:
        writer = GGUFWriter(path, self.architecture)
        for key, value in self.metadata.items():
            add(writer, key, value)
        for name, tensor in self.tensors.items():
            array = tensor.float().numpy()
            if name in self.quantised:
                packed = quants.quantize(array, GGMLQuantizationType.Q8_0)
                writer.add_tensor(name, packed, raw_dtype=GGMLQuantizationType.Q8_0)
            else:
                writer.add_tensor(name, np.ascontiguousarray(array))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path


def add(writer: GGUFWriter, key: str, value: Any) -> None:
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    else:
        writer.add_array(key, value)


def convert(model: PreTrainedModel, folder: Path) -> Converted:
    model.save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    files = {name: tensor for path in folder.glob("*.safetensors") for name, tensor in load_file(path).items()}
    kind = config["model_type"]
    metadata = {"phi3": of_phi3, "gpt2": of_gpt2, "gemma2": of_gemma2, "gemma3_text": of_gemma3}.get(kind, of_others)
    architecture = ARCHITECTURES.get(kind, kind)
    said = {f"{architecture}.{key}": value for key, value in metadata(config).items() if value is not None}
    tensors = dict(named(kind, config, name, tensor) for name, tensor in files.items() if ".experts." not in name)
    if kind == "gemma2":
        tensors.pop("output.weight", None)
    return Converted(architecture, said | vocabulary(config), tensors | stacked(config, files) | divisors(kind, config))


# ---- tensors -------------------------------------------------------------------------------------------


def named(kind: str, config: dict, name: str, tensor: torch.Tensor) -> tuple[str, torch.Tensor]:
    stem, _, ending = name.rpartition(".")
    around = AROUND_GPT2 if kind == "gpt2" else AROUND
    if stem in around:
        new = f"{around[stem]}.{ending}"
    else:
        _, _, layer, inside = stem.split(".", 3)
        new = f"blk.{layer}.{IN_LAYERS[kind][inside]}.{ending}"
    if kind in ("llama", "mistral", "mixtral") and stem.endswith(("q_proj", "k_proj")):
        key = "num_attention_heads" if stem.endswith("q_proj") else "num_key_value_heads"
        tensor = permuted(tensor, config[key])
    if kind in ("gemma2", "gemma3_text") and name.endswith("norm.weight"):
        tensor = tensor + 1
    if kind == "gpt2" and name.endswith(TRANSPOSED):
        tensor = tensor.T
    return new, tensor


def permuted(tensor: torch.Tensor, n_heads: int) -> torch.Tensor:
    shape = tensor.shape
    return tensor.reshape(n_heads, 2, shape[0] // n_heads // 2, *shape[1:]).swapaxes(1, 2).reshape(shape)


def stacked(config: dict, files: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The experts of each layer in three tensors."""
    found = {}
    for layer in range(config.get("num_hidden_layers", 0) if "num_local_experts" in config else 0):
        for theirs, ours in EXPERTS.items():
            prefix = f"model.layers.{layer}.block_sparse_moe.experts"
            each = [files[f"{prefix}.{index}.{theirs}.weight"] for index in range(config["num_local_experts"])]
            found[f"blk.{layer}.{ours}.weight"] = torch.stack(each)
    return found


def divisors(kind: str, config: dict) -> dict[str, torch.Tensor]:
    rope = config.get("rope_parameters") or {}
    if kind == "phi3" and rope.get("long_factor"):
        lists = {"rope_factors_long.weight": "long_factor", "rope_factors_short.weight": "short_factor"}
        return {name: torch.tensor(rope[key]) for name, key in lists.items()}
    if kind not in ("llama", "mistral", "mixtral") or rope.get("rope_type") != "llama3":
        return {}
    width, found = d_head(config), []
    for pair in range(0, width, 2):
        wave = 2 * math.pi * rope["rope_theta"] ** (pair / width)
        # The converter takes this length from beside the rotation, where Llama 3's files do not have it, or 8192.
        trained = rope["original_max_position_embeddings"]
        if wave < trained / rope["high_freq_factor"]:
            found.append(1.0)
        elif wave > trained / rope["low_freq_factor"]:
            found.append(rope["factor"])
        else:
            smooth = trained / wave - rope["low_freq_factor"]
            smooth /= rope["high_freq_factor"] - rope["low_freq_factor"]
            found.append(1 / ((1 - smooth) / rope["factor"] + smooth))
    return {"rope_freqs.weight": torch.tensor(found)}


# ---- metadata ------------------------------------------------------------------------------------------


def d_head(config: dict) -> int:
    return config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]


def of_others(config: dict) -> dict[str, Any]:
    """TextModel.set_gguf_parameters, and what LlamaModel adds to it."""
    rope = config["rope_parameters"]
    of_full, of_sliding = rope.get("full_attention", rope), rope.get("sliding_attention", {})
    said = {
        "block_count": config["num_hidden_layers"],
        "context_length": config["max_position_embeddings"],
        "embedding_length": config["hidden_size"],
        "feed_forward_length": config["intermediate_size"],
        "attention.head_count": config["num_attention_heads"],
        "attention.head_count_kv": config.get("num_key_value_heads"),
        "rope.freq_base": float(of_full["rope_theta"]),
        "rope.freq_base_swa": of_sliding.get("rope_theta"),
        "attention.layer_norm_rms_epsilon": config["rms_norm_eps"],
        "expert_count": config.get("num_local_experts"),
        "expert_used_count": config.get("num_experts_per_tok"),
        "attention.key_length": config.get("head_dim"),
        "attention.value_length": config.get("head_dim"),
    } | scaled(of_full)
    if config["model_type"] in ("llama", "mistral", "mixtral"):
        said |= {"vocab_size": config["vocab_size"], "rope.dimension_count": d_head(config)}
    return said


def scaled(rope: dict) -> dict[str, Any]:
    kind = rope.get("rope_type")
    if kind == "linear":
        return {"rope.scaling.type": "linear", "rope.scaling.factor": float(rope["factor"])}
    if kind == "yarn":
        optional = {
            "yarn_ext_factor": rope.get("extrapolation_factor"),
            "yarn_attn_factor": rope.get("attention_factor"),
            "yarn_beta_fast": rope.get("beta_fast"),
            "yarn_beta_slow": rope.get("beta_slow"),
        }
        return {
            "rope.scaling.type": "yarn",
            "rope.scaling.factor": float(rope["factor"]),
            "rope.scaling.original_context_length": rope["original_max_position_embeddings"],
        } | {f"rope.scaling.{key}": None if value is None else float(value) for key, value in optional.items()}
    return {}


def of_gemma2(config: dict) -> dict[str, Any]:
    return {
        "context_length": config["max_position_embeddings"],
        "embedding_length": config["hidden_size"],
        "block_count": config["num_hidden_layers"],
        "feed_forward_length": config["intermediate_size"],
        "attention.head_count": config["num_attention_heads"],
        "attention.head_count_kv": config["num_key_value_heads"],
        "attention.layer_norm_rms_epsilon": config["rms_norm_eps"],
        "attention.key_length": config["head_dim"],
        "attention.value_length": config["head_dim"],
        "attn_logit_softcapping": config["attn_logit_softcapping"],
        "final_logit_softcapping": config["final_logit_softcapping"],
        "attention.sliding_window": config["sliding_window"],
    }


def of_gemma3(config: dict) -> dict[str, Any]:
    said = of_others(config)
    if config.get("final_logit_softcapping"):
        said["final_logit_softcapping"] = config["final_logit_softcapping"]
    if config.get("sliding_window_pattern") != 1:
        said["attention.sliding_window"] = config["sliding_window"]
    return said


def of_phi3(config: dict) -> dict[str, Any]:
    rope, longest = config["rope_parameters"], config["max_position_embeddings"]
    trained = rope.get("original_max_position_embeddings", config.get("original_max_position_embeddings", longest))
    ratio = longest / trained
    return {
        "context_length": longest,
        "rope.scaling.original_context_length": trained,
        "embedding_length": config["hidden_size"],
        "feed_forward_length": config["intermediate_size"],
        "block_count": config["num_hidden_layers"],
        "attention.head_count": config["num_attention_heads"],
        "attention.head_count_kv": config["num_key_value_heads"],
        "attention.layer_norm_rms_epsilon": config["rms_norm_eps"],
        "rope.dimension_count": int(rope.get("partial_rotary_factor", 1.0) * config["hidden_size"])
        // config["num_attention_heads"],
        "rope.freq_base": float(rope["rope_theta"]),
        "attention.sliding_window": config.get("sliding_window") or 0,
        "rope.scaling.attn_factor": math.sqrt(1 + math.log(ratio) / math.log(trained))
        if rope.get("long_factor")
        else None,
    }


def of_gpt2(config: dict) -> dict[str, Any]:
    return {
        "block_count": config["n_layer"],
        "context_length": config["n_positions"],
        "embedding_length": config["n_embd"],
        "feed_forward_length": 4 * config["n_embd"],
        "attention.head_count": config["n_head"],
        "attention.layer_norm_epsilon": config["layer_norm_epsilon"],
    }


def vocabulary(config: dict) -> dict[str, Any]:
    """Letters and one merge, with which the file is as whole as any."""
    letters = [chr(ord("A") + index) for index in range(config["vocab_size"] - 1)]
    words = {"model": "gpt2", "pre": "gpt-2", "tokens": [*letters, "AB"], "merges": ["A B"], "padding_token_id": 0}
    return {f"tokenizer.ggml.{key}": value for key, value in words.items()}
