"""Every family that llama.cpp writes, from small transformers models, through a file as its converter writes it."""

import weakref
from dataclasses import replace
from math import log

import numpy as np
import pytest
import torch
from cases import ALL
from gguf import GGMLQuantizationType, quants
from llama_cpp import Converted, convert
from parity import TOLERANCE, VOCAB, parity, tiny
from random_models import close
from transformers import (
    AutoModelForCausalLM,
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
from workbench.families._gguf import share_of_head
from workbench.formats.gguf import GGUFFile
from workbench.model.rotary_scaling import DivisorsSpec, LinearScalingSpec, YaRNSpec

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
    "gemma3_text: every second full, capped": gemma3(
        2,
        layer_types=["sliding_attention", "full_attention"],
        rope_parameters=gemma3_rotations(),
        sliding_window=4,
        final_logit_softcapping=5.0,
    ),
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


def as_file(config, folder) -> Converted:
    """As converted; and a pattern of Gemma 3's layers that is not llama.cpp's own, which it reads and never writes."""
    file = convert(tiny(config), folder / "published")
    every_second = config.model_type == "gemma3_text" and config.layer_types[1] == "full_attention"
    return file.with_metadata(attention__sliding_window_pattern=2) if every_second else file


@cases
@pytest.mark.parametrize("side", ["left", "right"])
def test_logits_and_attention_are_those_of_transformers(config, side, tmp_path):
    theirs = tiny(config)
    ours = wb.load(as_file(config, tmp_path).write(tmp_path / "model.gguf"))
    errors = parity(ours, theirs, side)
    assert errors.holds, errors


# Of each architecture one in which nothing is particular that transformers does not read from GGUF: windows beyond the
# text, no scaling, and what no file says at the default of its config.
PLAIN = {
    "llama": ALL["llama: grouped, untied"],
    "qwen2": ALL["qwen2: full, tied"],
    "qwen3": Qwen3Config(**SIZES | HEADS, num_hidden_layers=2, head_dim=128),
    "gemma2": gemma2(
        head_dim=256,
        query_pre_attn_scalar=256,
        sliding_window=20,
        attn_logit_softcapping=50.0,
        final_logit_softcapping=30.0,
    ),
    "gemma3_text": gemma3(7, head_dim=256, query_pre_attn_scalar=256, sliding_window=20),
    "phi3": Phi3Config(**SIZES | HEADS | {"pad_token_id": None}, num_hidden_layers=2),
    "gpt2": GPT2Config(n_layer=2, n_head=4, n_embd=24, n_positions=1024, vocab_size=53),
}


@pytest.mark.parametrize("config", PLAIN.values(), ids=PLAIN.keys())
def test_transformers_reads_the_same_from_the_file(config, tmp_path):
    """So the file is one that others take for llama.cpp's, and not only what this reader expects."""
    path = convert(tiny(config), tmp_path / "published").write(tmp_path / "model.gguf")
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file=path.name, attn_implementation="eager").eval()
    errors = parity(wb.load(path), theirs)
    assert errors.holds, errors


# ---- quantised files -----------------------------------------------------------------------------------

OF_32 = {
    "llama": LlamaConfig(**SIZES | HEADS | {"hidden_size": 32, "intermediate_size": 64}, num_hidden_layers=2),
    "mixtral": MixtralConfig(
        **SIZES | HEADS | {"hidden_size": 32, "intermediate_size": 64}, num_hidden_layers=2, num_local_experts=4
    ),
    "gemma2": gemma2(hidden_size=32, intermediate_size=64, head_dim=16, query_pre_attn_scalar=16),
    "phi3": Phi3Config(
        **SIZES | HEADS | {"hidden_size": 32, "intermediate_size": 64, "pad_token_id": None}, num_hidden_layers=2
    ),
    "gpt2": GPT2Config(n_layer=2, n_head=4, n_embd=32, n_positions=40, vocab_size=53),
}


@pytest.mark.parametrize("config", OF_32.values(), ids=OF_32.keys())
def test_a_quantised_file_is_the_model_with_rounded_weights(config, tmp_path):
    """The weights of transformers' model are rounded first, so that the file keeps them exactly."""
    theirs = tiny(config)
    with torch.no_grad():
        for name, tensor in theirs.named_parameters():
            if tensor.ndim > 1:
                turned = config.model_type == "gpt2" and ".c_" in name
                tensor.copy_(rounded(tensor.T).T if turned else rounded(tensor))
    file = convert(theirs, tmp_path / "published")
    packed = {name for name, tensor in file.tensors.items() if tensor.ndim > 1}
    path = replace(file, quantised=packed).write(tmp_path / "model.gguf")
    assert path.stat().st_size < 0.6 * file.write(tmp_path / "whole.gguf").stat().st_size
    errors = parity(wb.load(path), theirs)
    assert errors.holds, errors


def rounded(tensor: torch.Tensor) -> torch.Tensor:
    q8 = GGMLQuantizationType.Q8_0
    return torch.from_numpy(quants.dequantize(quants.quantize(np.ascontiguousarray(tensor.detach()), q8), q8))


def test_what_a_file_takes_is_said_before_it_is_read(tmp_path, monkeypatch):
    """Plain tensors stay in the file; what is dequantised or put back in order takes memory."""
    monkeypatch.setattr("workbench.formats.published.free_memory", lambda device: 1000)
    qwen = convert(tiny(CONFIGS["qwen2: tied"]), tmp_path / "qwen")
    wb.load(qwen.write(tmp_path / "model.gguf"))
    gpt2 = convert(tiny(OF_32["gpt2"]), tmp_path / "gpt2")
    wb.load(gpt2.write(tmp_path / "model.gguf"))
    packed = replace(gpt2, quantised={"token_embd.weight"})
    llama = convert(tiny(OF_32["llama"]), tmp_path / "llama")
    for file, size in ((packed, 53 * 32 * 4), (llama, 2 * (32 + 16) * 32 * 4)):
        monkeypatch.setattr("workbench.formats.published.free_memory", lambda device, free=size - 1: free)
        with pytest.raises(wb.errors.TooLargeError):
            wb.load(file.write(tmp_path / "model.gguf"))
        monkeypatch.setattr("workbench.formats.published.free_memory", lambda device, free=size: free)
        wb.load(file.write(tmp_path / "model.gguf"))


@pytest.mark.parametrize("name", ["gpt2", "phi3", "mixtral"])
def test_what_was_dequantised_is_let_go_of(name, tmp_path, monkeypatch):
    """Another dtype is a copy, and then no more than a layer's tensors are there twice."""
    file = convert(tiny(OF_32[name]), tmp_path / "published")
    path = replace(file, quantised={key for key, tensor in file.tensors.items() if tensor.ndim > 1}).write(
        tmp_path / "model.gguf"
    )
    read, most, tensor_of = [], 0, GGUFFile.tensor

    def counted(self, *arguments):
        nonlocal most
        tensor = tensor_of(self, *arguments)
        read.append(weakref.ref(tensor))
        most = max(most, sum(other() is not None for other in read))
        return tensor

    monkeypatch.setattr(GGUFFile, "tensor", counted)
    model = wb.load(path, dtype=torch.bfloat16)
    assert len(read) > 12
    assert most <= 4
    assert model.dtype == torch.bfloat16


# ---- power ---------------------------------------------------------------------------------------------

TOKENS = torch.randint(0, VOCAB, (2, 12), generator=torch.Generator().manual_seed(3))

# How long a text may be, and of what length those in training were, where no scaling depends on it.
NOT_FELT = {"context_length"}


@cases
def test_every_key_is_felt_or_refused(config, tmp_path):
    """Each value changed alone gives other logits or an error."""
    file = as_file(config, tmp_path)
    before, unfelt = logits(file, tmp_path), set()
    for key, value in file.metadata.items():
        inside = key.removeprefix(f"{file.architecture}.")
        if inside == key or inside in NOT_FELT or (inside.endswith("original_context_length") and unscaled(file)):
            continue
        came = [logits(replace(file, metadata=file.metadata | {key: other}), tmp_path) for other in others(value)]
        if all(other is not None and close(other, before, 10 * TOLERANCE) for other in came):
            unfelt.add(inside)
        assert any(other is None for other in came), f"{key} may have any type"
    assert not unfelt


def unscaled(file) -> bool:
    return (
        f"{file.architecture}.rope.scaling.type" not in file.metadata and "rope_factors_long.weight" not in file.tensors
    )


def others(value):
    if isinstance(value, str):
        return [value + "_x", 7]
    return [1.7 * value + 0.1 if isinstance(value, float) else 2 * value or 3, "many"]


def logits(file, folder, n_tokens: int = 12) -> torch.Tensor | None:
    """None where the file is refused, by the workbench and not by chance."""
    try:
        return wb.load(file.write(folder / "model.gguf"))(TOKENS[:, :n_tokens])[0]
    except wb.errors.WorkbenchError:
        return None


@cases
def test_the_divisors_of_a_rotation_are_felt(config, tmp_path):
    """They are no parameters, so nothing would be missing without them. Of LongRoPE's lists each has its lengths."""
    file = as_file(config, tmp_path)
    for name, tensor in file.tensors.items():
        if name.startswith("rope_"):
            n_tokens = 6 if name == "rope_factors_short.weight" else 12
            came = logits(replace(file, tensors=file.tensors | {name: 1.5 * tensor}), tmp_path, n_tokens)
            assert not close(came, logits(file, tmp_path, n_tokens), 10 * TOLERANCE), name


@cases
def test_a_tensor_of_another_name_or_shape_is_named(config, tmp_path):
    file = as_file(config, tmp_path)
    for name, tensor in file.tensors.items():
        longer = torch.cat([tensor, tensor[:1]])
        without = {other: kept for other, kept in file.tensors.items() if other != name}
        broken = {
            "missing": without,
            "renamed": without | {f"{name}_x": tensor},
            "left over": file.tensors | {f"{name}_x": tensor},
            "longer": file.tensors | {name: longer},
        }
        for how, tensors in broken.items():
            if name == "output.weight" and how == "missing":  # then it is tied
                continue
            if name == "rope_freqs.weight" and how == "missing":  # then it is not scaled
                continue
            with pytest.raises(wb.errors.WorkbenchError) as caught:
                wb.load(replace(file, tensors=tensors).write(tmp_path / "model.gguf"))
            said = str(caught.value)
            pairs = "divisors" in said or "short_factor" in said or "long_factor" in said
            assert name in said or (how == "longer" and (pairs or name == "token_embd.weight")), (how, said)
            assert "\n" not in said


# ---- which family a file is of, and what its keys mean ---------------------------------------------------


@pytest.fixture
def refused(tmp_path):
    """refused(file, match): loading it is an error of that kind."""

    def refuse(file: Converted, match: str, kind: type = wb.errors.FamilyError) -> None:
        with pytest.raises(kind, match=match):
            wb.load(file.write(tmp_path / "model.gguf"))

    return refuse


def test_the_number_of_experts_tells_mixtral_from_llama(tmp_path, refused):
    llama, mixtral = (
        convert(tiny(CONFIGS[name]), tmp_path / name) for name in ("mistral", "mixtral: three of four, tied")
    )
    dense = llama.with_metadata(expert_count=0, expert_used_count=0)
    assert torch.equal(logits(dense, tmp_path), logits(llama, tmp_path))
    refused(llama.with_metadata(expert_count=4, expert_used_count=2), "ffn_gate_inp", wb.errors.LoadError)
    refused(mixtral.with_metadata(expert_count=0), "ffn_gate.weight", wb.errors.LoadError)
    refused(mixtral.with_metadata(expert_used_count=None), "num_experts_per_tok")


def test_an_architecture_that_is_not_read(tmp_path, refused):
    file = replace(convert(tiny(CONFIGS["qwen2: tied"]), tmp_path), architecture="qwen3next")
    refused(file, "'qwen3next', and those that are read are gemma2, gemma3, gpt2, llama, phi3, qwen2, qwen3; other")


@cases
def test_a_key_that_could_change_the_result_is_refused_by_name(config, tmp_path, refused):
    file = as_file(config, tmp_path)
    refused(
        file.with_metadata(attention__scale=0.5), rf"{file.architecture}\.attention\.scale = 0\.5, a key that is not"
    )
    refused(file.with_metadata(logit_scale=0.5), r"logit_scale = 0\.5")


def test_keys_that_change_nothing(tmp_path):
    file = convert(tiny(CONFIGS["llama: linear scaling"]), tmp_path)
    before = logits(file, tmp_path)
    for harmless in ({"tensor_data_layout": "Meta AI original pth"}, {"rope__scaling__finetuned": False}):
        assert torch.equal(logits(file.with_metadata(**harmless), tmp_path), before)


def scaling_of(file: Converted, folder):
    return wb.load(file.write(folder / "model.gguf")).spec.layers[0].attn.rotary.scaling


def test_scaling_as_llama_cpp_takes_it(tmp_path, refused):
    """Where it is not said, the type is linear; with "none", or without a factor, there is no scaling."""
    file = convert(tiny(CONFIGS["llama: grouped, untied"]), tmp_path)
    scaled = {"rope__scaling__factor": 2.0}
    linear = scaling_of(file.with_metadata(rope__scaling__type="linear", **scaled), tmp_path)
    assert linear == LinearScalingSpec(2.0)
    assert scaling_of(file.with_metadata(**scaled), tmp_path) == linear
    assert scaling_of(file.with_metadata(rope__scale_linear=2.0), tmp_path) == linear
    refused(
        file.with_metadata(rope__scale_linear=3.0, **scaled), "factor = 2.0 and elsewhere rope_scaling.factor = 3.0"
    )
    for kind in ("none", "linear"):
        assert scaling_of(file.with_metadata(rope__scaling__type=kind), tmp_path) is None
    refused(file.with_metadata(rope__scaling__type="none", **scaled), r"factor = 2\.0")
    refused(file.with_metadata(rope__scaling__type="llama3", **scaled), "'llama3'; none, linear, yarn and longrope")
    refused(file.with_metadata(rope__scaling__attn_factor=1.5, **scaled), r"attn_factor = 1\.5, which changes")
    assert scaling_of(file.with_metadata(rope__scaling__attn_factor=1.0, **scaled), tmp_path) == linear
    refused(file.with_metadata(rope__scaling__yarn_ext_factor=1.0, **scaled), r"ext_factor = 1\.0")
    refused(file.with_metadata(rope__scaling__yarn_log_multiplier=1.0, **scaled), "yarn_log_multiplier = 1.0, a key")


def test_yarn_of_a_file(tmp_path, refused):
    """`yarn_attn_factor` is the published attention_factor; `attn_factor` comes on top of the paper's."""
    file = convert(tiny(CONFIGS["llama: grouped, untied"]), tmp_path)
    file = file.with_metadata(rope__scaling__type="yarn", rope__scaling__factor=4.0)
    assert scaling_of(file, tmp_path) == YaRNSpec(4.0, 40)
    trained = file.with_metadata(rope__scaling__original_context_length=10)
    assert scaling_of(trained, tmp_path) == YaRNSpec(4.0, 10)
    betas = trained.with_metadata(rope__scaling__yarn_beta_fast=8.0, rope__scaling__yarn_beta_slow=0.5)
    assert scaling_of(betas, tmp_path) == YaRNSpec(4.0, 10, 8.0, 0.5)
    assert scaling_of(trained.with_metadata(rope__scaling__yarn_ext_factor=1.0), tmp_path) == YaRNSpec(4.0, 10)
    refused(trained.with_metadata(rope__scaling__yarn_ext_factor=0.5), r"ext_factor = 0\.5, which changes")
    in_all = trained.with_metadata(rope__scaling__yarn_attn_factor=1.5)
    assert scaling_of(in_all, tmp_path) == YaRNSpec(4.0, 10, attention_factor=1.5)
    more = trained.with_metadata(rope__scaling__attn_factor=1.5)
    assert scaling_of(more, tmp_path).attention_factor == pytest.approx(1.5 * (0.1 * log(4) + 1))
    refused(in_all.with_metadata(rope__scaling__attn_factor=1.25), r"attn_factor = 1\.25, which changes")


def test_divisors_of_a_file(tmp_path, refused):
    file = convert(tiny(CONFIGS["llama: llama3 scaling"]), tmp_path)
    divisors = tuple(file.tensors["rope_freqs.weight"].tolist())
    assert scaling_of(file, tmp_path) == DivisorsSpec(divisors)
    assert len(set(divisors)) > 1
    assert scaling_of(file.with_metadata(rope__scaling__type="none"), tmp_path) == DivisorsSpec(divisors)
    refused(file.with_metadata(rope__scaling__type="yarn"), "'yarn' and has a tensor of divisors for each pair")
    refused(file.with_metadata(rope__scaling__factor=2.0), r"factor = 2\.0, which changes")
    both = file.with_tensors(rope_factors_long__weight=torch.ones(4), rope_factors_short__weight=torch.ones(4))
    refused(both, "divisors")
    refused(file.with_tensors(rope_freqs__weight=torch.zeros(4)), "must be positive", wb.errors.SpecError)


def test_longrope_of_a_file(tmp_path, refused):
    file = convert(tiny(CONFIGS["phi3: longrope"]), tmp_path)
    found = scaling_of(file, tmp_path)
    assert (found.n_ctx, found.long_factor) == (8, (1.0, 2.0, 4.0, 8.0))
    assert found.attention_factor == pytest.approx((1 + log(5) / log(8)) ** 0.5)
    assert scaling_of(file.with_metadata(rope__scaling__attn_factor=None), tmp_path).attention_factor == 1.0
    assert scaling_of(file.with_metadata(rope__scaling__type="longrope"), tmp_path) == found
    refused(file.with_metadata(rope__scaling__factor=5.0), r"factor = 5\.0, which changes")
    refused(file.with_metadata(rope__scaling__original_context_length=None), "original_max_position_embeddings")
    plain = convert(tiny(CONFIGS["qwen2: tied"]), tmp_path / "qwen")
    refused(plain.with_metadata(rope__scaling__type="longrope"), r"lacks the tensor 'rope_factors_long\.weight'")


def test_a_rotation_where_there_is_none(tmp_path, refused):
    file = convert(tiny(CONFIGS["gpt2: tied"]), tmp_path)
    refused(file.with_tensors(rope_freqs__weight=torch.ones(4)), "no use for, first 'rope_freqs", wb.errors.LoadError)
    refused(file.with_metadata(rope__freq_base=100.0), r"rope\.freq_base")


def test_the_part_of_a_head_that_turns(tmp_path, refused):
    """Whatever the width, the part comes out as the file says it."""
    for d_head in range(2, 300, 2):
        assert all(int(d_head * share_of_head(width, d_head)) == width for width in range(2, d_head + 1, 2))
    file = convert(tiny(CONFIGS["phi3: tied, a part of each head"]), tmp_path)
    assert wb.load(file.write(tmp_path / "model.gguf")).spec.layers[0].attn.rotary.d_rotary == 4
    refused(file.with_metadata(rope__dimension_count=10), "partial_rotary_factor")
    refused(convert(tiny(CONFIGS["mistral"]), tmp_path).with_metadata(rope__dimension_count=8), "head_dim = 10|= 8 and")


@pytest.mark.parametrize(("make", "n_layers"), [(gemma2, 46), (gemma3, 62)])
def test_gemmas_of_27b_scale_queries_by_the_share_of_a_head(make, n_layers, tmp_path):
    """The share is 24 / 4 and the head 8 wide; llama.cpp tells those models by their layers alone."""
    for layers, wanted in ((n_layers, 6), (2, 8)):
        config = make(num_hidden_layers=layers, head_dim=8) if make is gemma2 else make(layers)
        spec = wb.load(convert(tiny(config), tmp_path).write(tmp_path / "model.gguf")).spec
        assert all(layer.attn.scale == wanted**-0.5 for layer in spec.layers)


def test_what_gemma_files_leave_out(tmp_path):
    """Windows, caps and bases are then those that llama.cpp has."""
    file = convert(tiny(CONFIGS["gemma2: windows first"]), tmp_path)
    keys = ("attention__sliding_window", "attn_logit_softcapping", "final_logit_softcapping")
    spec = wb.load(file.with_metadata(**dict.fromkeys(keys)).write(tmp_path / "model.gguf")).spec
    assert [layer.attn.window for layer in spec.layers] == [4096, None, 4096]
    assert {layer.attn.softcap for layer in spec.layers} == {50.0}
    assert spec.unembed.softcap == 30.0
    spec = wb.load(file.with_metadata(attention__sliding_window_pattern=3).write(tmp_path / "model.gguf")).spec
    assert [layer.attn.window for layer in spec.layers] == [4, 4, None]

    file = convert(tiny(CONFIGS["gemma3_text: every sixth full, scaled"]), tmp_path / "3")
    bare = file.with_metadata(rope__freq_base=None, rope__freq_base_swa=None)
    layers = wb.load(bare.write(tmp_path / "model.gguf")).spec.layers
    assert [layer.attn.window for layer in layers] == [4, 4, 4, 4, 4, None, 4]
    assert {layer.attn.rotary.base for layer in layers} == {10_000.0}
    assert [layer.attn.rotary.scaling for layer in layers[4:6]] == [None, LinearScalingSpec(8.0)]
    for none in (None, 0):
        full = file.with_metadata(attention__sliding_window=none, rope__freq_base_swa=None)
        layers = wb.load(full.write(tmp_path / "model.gguf")).spec.layers
        assert {(layer.attn.window, layer.attn.rotary.base) for layer in layers} == {(None, 400.0)}


def test_biases_of_llama_are_read_off_the_tensors(tmp_path, refused):
    file = convert(tiny(CONFIGS["llama: one kv head, tied, wide heads, biases"]), tmp_path)
    only = {name: tensor for name, tensor in file.tensors.items() if "ffn" not in name or not name.endswith("bias")}
    model = wb.load(replace(file, tensors=only).write(tmp_path / "model.gguf"))
    assert (model.spec.layers[0].attn.bias, model.spec.layers[0].mlp.bias) == (True, False)
    for name in ("blk.0.attn_output.bias", "blk.1.attn_q.bias"):
        without = {other: tensor for other, tensor in file.tensors.items() if other != name}
        refused(replace(file, tensors=without), f"lacks the tensor '{name}'", wb.errors.LoadError)


def test_an_output_that_a_tied_family_does_not_have(tmp_path, refused):
    file = convert(tiny(CONFIGS["gemma2: windows first"]), tmp_path)
    said = r"no use for, first 'output\.weight'"
    refused(file.with_tensors(output__weight=torch.ones(53, 24)), said, wb.errors.LoadError)


def test_biases_of_a_family_without_them(tmp_path, refused):
    file = convert(tiny(CONFIGS["qwen3: tied"]), tmp_path)
    said = r"1 tensors that this model has no use for, first 'blk\.0\.attn_q\.bias'"
    refused(file.with_tensors(blk__0__attn_q__bias=torch.ones(24)), said, wb.errors.LoadError)


def test_a_vocabulary_of_another_size(tmp_path, refused):
    file = convert(tiny(CONFIGS["qwen2: tied"]), tmp_path)
    longer = torch.cat([file.tensors["token_embd.weight"]] * 2)
    refused(file.with_tensors(token_embd__weight=longer), "number of tokens = 53 and elsewhere vocab_size = 106")


def test_a_gguf_package_too_old_for_a_family(tmp_path, refused, monkeypatch):
    file = convert(tiny(CONFIGS["qwen3: tied"]), tmp_path)
    monkeypatch.setattr("gguf.MODEL_ARCH_NAMES", {0: "llama"})
    refused(file, "gguf package that is installed knows no names of 'qwen3'", wb.errors.LoadError)
