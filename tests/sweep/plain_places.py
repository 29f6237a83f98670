"""Where families of transformers have the sites: one table each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from plain_hooks import VECTORS, AfterSoftmax, BeforeSoftmax, Between, Input, Output, Places, Routing, Spot, View

OF_HEADS, OF_KV_HEADS = ("example", "pos", "head", "d"), ("example", "pos", "kv_head", "d")
NEURONS = View(("example", "pos", "d_mlp"), VECTORS.of)
EXPERTS = View(("example", "pos", "expert"), VECTORS.of)
PATTERN = View(("example", "head", "query", "key"), VECTORS.of)


def heads(n: int, axes: tuple[str, ...] = OF_HEADS) -> View:
    return View(axes, lambda value: value.unflatten(-1, (n, -1)))


def kv_heads(n: int) -> View:
    return heads(n, OF_KV_HEADS)


def qkv_of_equal_size(n: int) -> list[View]:
    """Queries of all heads, then keys, then values."""

    def part(which: int, axes: tuple[str, ...]) -> View:
        return View(axes, lambda value: value.unflatten(-1, (3, n, -1))[..., which, :, :])

    return [part(0, OF_HEADS), part(1, OF_KV_HEADS), part(2, OF_KV_HEADS)]


def qkv_by_head(n: int) -> list[View]:
    """Query, key and value of the first head, then those of the second."""

    def part(which: int, axes: tuple[str, ...]) -> View:
        return View(axes, lambda value: value.unflatten(-1, (n, 3, -1))[..., which, :])

    return [part(0, OF_HEADS), part(1, OF_KV_HEADS), part(2, OF_KV_HEADS)]


def columns(view: View, start: int | None, end: int | None) -> View:
    """Some of the numbers that a module gives, as the view has them."""
    return View(view.axes, lambda value: view.of(value[..., start:end]))


def attention(path: str, config: Any, **changed: Spot) -> dict[str, Spot]:
    """With a projection of its own for queries, keys and values."""
    n, n_kv = config.num_attention_heads, getattr(config, "num_key_value_heads", config.num_attention_heads)
    return {
        "q": Output(f"{path}.q_proj", heads(n)),
        "k": Output(f"{path}.k_proj", kv_heads(n_kv)),
        "v": Output(f"{path}.v_proj", kv_heads(n_kv)),
        "attn_scores": BeforeSoftmax(path, PATTERN),
        "pattern": AfterSoftmax(path, PATTERN),
        "z": Input(f"{path}.o_proj", heads(n)),
    } | changed


GATED = {
    "pre": Output("mlp.gate_proj", NEURONS),
    "pre_linear": Output("mlp.up_proj", NEURONS),
    "post": Input("mlp.down_proj", NEURONS),
}


def pre_norm(attn: str, ln1: str, ln2: str, mlp: str = "mlp") -> dict[str, Spot]:
    """Streams, reads and writes of a block whose parts read through a norm, one after the other."""
    return {
        "resid_pre": Input(""),
        "attn_in": Input(ln1),
        "ln1.out": Output(ln1),
        "attn_out": Output(attn),
        "resid_mid": Between(attn),
        "mlp_in": Input(ln2),
        "ln2.out": Output(ln2),
        "mlp_out": Output(mlp),
        "resid_post": Output(""),
    }


LLAMA_BLOCK = pre_norm("self_attn", "input_layernorm", "post_attention_layernorm")
LLAMA_OUTSIDE = {"embed": Output("model.embed_tokens"), "ln_final.out": Output("model.norm")}


def llama(config: Any, **changed: Spot) -> Places:
    inside = LLAMA_BLOCK | attention("self_attn", config) | GATED | changed
    return Places("model.layers", inside, LLAMA_OUTSIDE)


def gpt2(config: Any) -> Places:
    q, k, v = qkv_of_equal_size(config.n_head)
    inside = pre_norm("attn", "ln_1", "ln_2") | {
        "q": Output("attn.c_attn", q),
        "k": Output("attn.c_attn", k),
        "v": Output("attn.c_attn", v),
        "attn_scores": BeforeSoftmax("attn", PATTERN),
        "pattern": AfterSoftmax("attn", PATTERN),
        "z": Input("attn.c_proj", heads(config.n_head)),
        "pre": Output("mlp.c_fc", NEURONS),
        "post": Input("mlp.c_proj", NEURONS),
    }
    outside = {
        "embed": Output("transformer.wte"),
        "pos_embed": Output("transformer.wpe"),
        "ln_final.out": Output("transformer.ln_f"),
    }
    return Places("transformer.h", inside, outside)


def gpt_neox(config: Any) -> Places:
    """Both parts of a block read its input, and there is no stream between them."""
    q, k, v = qkv_by_head(config.num_attention_heads)
    inside = pre_norm("attention", "input_layernorm", "post_attention_layernorm") | {
        "q": Output("attention.query_key_value", q),
        "k": Output("attention.query_key_value", k),
        "v": Output("attention.query_key_value", v),
        "attn_scores": BeforeSoftmax("attention", PATTERN),
        "pattern": AfterSoftmax("attention", PATTERN),
        "z": Input("attention.dense", heads(config.num_attention_heads)),
        "pre": Output("mlp.dense_h_to_4h", NEURONS),
        "post": Input("mlp.dense_4h_to_h", NEURONS),
    }
    del inside["resid_mid"]
    outside = {"embed": Output("gpt_neox.embed_in"), "ln_final.out": Output("gpt_neox.final_layer_norm")}
    return Places("gpt_neox.layers", inside, outside)


def gptj(config: Any) -> Places:
    """Both parts of a block read its input, through one norm: what goes into that is not of one reader alone."""
    inside = {
        "resid_pre": Input(""),
        "ln1.out": Input("attn"),
        "attn_out": Output("attn"),
        "ln2.out": Input("mlp"),
        "mlp_out": Output("mlp"),
        "resid_post": Output(""),
        **attention("attn", config, z=Input("attn.out_proj", heads(config.n_head))),
        "pre": Output("mlp.fc_in", NEURONS),
        "post": Input("mlp.fc_out", NEURONS),
    }
    outside = {"embed": Output("transformer.wte"), "ln_final.out": Output("transformer.ln_f")}
    return Places("transformer.h", inside, outside)


def phi3(config: Any) -> Places:
    n, n_kv = config.num_attention_heads, config.num_key_value_heads
    d_head, d_mlp = config.hidden_size // n, config.intermediate_size
    ends = [n * d_head, (n + n_kv) * d_head]
    return llama(
        config,
        q=Output("self_attn.qkv_proj", columns(heads(n), None, ends[0])),
        k=Output("self_attn.qkv_proj", columns(kv_heads(n_kv), *ends)),
        v=Output("self_attn.qkv_proj", columns(kv_heads(n_kv), ends[1], None)),
        pre=Output("mlp.gate_up_proj", columns(NEURONS, None, d_mlp)),
        pre_linear=Output("mlp.gate_up_proj", columns(NEURONS, d_mlp, None)),
    )


def gemma(config: Any) -> Places:
    """What is written passes through a norm."""
    inside = pre_norm("post_attention_layernorm", "input_layernorm", "pre_feedforward_layernorm")
    wrote = {"mlp_out": Output("post_feedforward_layernorm")}
    through = {"ln1_post.out": inside["attn_out"], "ln2_post.out": wrote["mlp_out"]}
    return llama(config, **inside | wrote | through)


def gemma3(config: Any) -> Places:
    """Every head of queries and keys is normed, of which heads are the second axis."""
    normed = {
        "q_normed": Output("self_attn.q_norm", View(OF_HEADS, lambda value: value.transpose(1, 2))),
        "k_normed": Output("self_attn.k_norm", View(OF_KV_HEADS, lambda value: value.transpose(1, 2))),
    }
    places = gemma(config)
    return Places(places.blocks, {**places.inside, **normed}, places.outside)


def olmo2(config: Any) -> Places:
    """Norms stand behind the parts of a block only, and one norms the queries of all heads together."""
    inside = pre_norm("post_attention_layernorm", "self_attn", "mlp", "post_feedforward_layernorm")
    del inside["ln1.out"], inside["ln2.out"]
    return Places(
        "model.layers",
        inside
        | attention("self_attn", config)
        | GATED
        | {
            "q_normed": Output("self_attn.q_norm", heads(config.num_attention_heads)),
            "k_normed": Output("self_attn.k_norm", kv_heads(config.num_key_value_heads)),
            "ln1_post.out": inside["attn_out"],
            "ln2_post.out": inside["mlp_out"],
        },
        LLAMA_OUTSIDE,
    )


def mixtral(config: Any, **changed: Spot) -> Places:
    inside = LLAMA_BLOCK | attention("self_attn", config) | changed
    routing = {
        "router_logits": BeforeSoftmax("mlp.gate", EXPERTS),
        "expert_weights": Routing("mlp.gate", EXPERTS),
    }
    return Places("model.layers", inside | routing, LLAMA_OUTSIDE)


def qwen3_moe(config: Any) -> Places:
    """Every head of queries and keys is normed; some layers are dense."""
    normed = {
        "q_normed": Output("self_attn.q_norm", View(OF_HEADS, VECTORS.of)),
        "k_normed": Output("self_attn.k_norm", View(OF_KV_HEADS, VECTORS.of)),
    }
    return mixtral(config, **normed, **GATED)


def gpt_oss(config: Any) -> Places:
    """A learned sink is the last key; its score is taken from the others' before the softmax."""
    inside = LLAMA_BLOCK | attention("self_attn", config)
    del inside["attn_scores"]
    return Places(
        "model.layers",
        inside
        | {
            "pattern": AfterSoftmax("self_attn", columns(PATTERN, None, -1)),
            "expert_weights": Routing("mlp.router", EXPERTS),
        },
        LLAMA_OUTSIDE,
    )


def deepseek(config: Any) -> Places:
    n, direct = config.num_attention_heads, config.q_lora_rank is None
    inside = LLAMA_BLOCK | attention("self_attn", config) | GATED
    del inside["k"], inside["v"]
    inside |= {
        "q": Output("self_attn.q_proj" if direct else "self_attn.q_b_proj", heads(n)),
        "kv_latent": Output("self_attn.kv_a_layernorm"),
        "k_rope": Output("self_attn.kv_a_proj_with_mqa", columns(VECTORS, config.kv_lora_rank, None)),
        "expert_weights": Routing("mlp.gate", EXPERTS),
        "shared_out": Output("mlp.shared_experts"),
    }
    if not direct:
        inside["q_latent"] = Output("self_attn.q_a_layernorm")
    return Places("model.layers", inside, LLAMA_OUTSIDE)


def opt(config: Any) -> Places:
    """Post-norm as in OPT-350m: norms stand on the stream, and the embedding is narrow and projected."""
    inside = {
        "resid_pre": Input(""),
        "attn_in": Input("self_attn"),
        "attn_out": Output("self_attn"),
        "ln1.out": Output("self_attn_layer_norm"),
        "resid_mid": Output("self_attn_layer_norm"),
        "mlp_in": Input("fc1"),
        "pre": Output("fc1", NEURONS),
        "post": Input("fc2", NEURONS),
        "mlp_out": Output("fc2"),
        "ln2.out": Output("final_layer_norm"),
        "resid_post": Output(""),
        **attention("self_attn", config, z=Input("self_attn.out_proj", heads(config.num_attention_heads))),
    }
    outside = {
        "embed": Output("model.decoder.project_in"),
        "pos_embed": Output("model.decoder.embed_positions"),
    }
    return Places("model.decoder.layers", inside, outside)


# By the names of small models in `cases`. Windows are shorter than the texts.
FAMILIES: dict[str, Callable[[Any], Places]] = {
    "gpt2: tied": gpt2,
    "llama: grouped, untied": llama,
    "mistral: sliding": llama,
    "gemma2: capped, a window in the first of two layers": gemma,
    "gemma3_text: a window in the first layer, wide heads, untied": gemma3,
    "olmo2: grouped, tied, wide heads, biases, gelu": olmo2,
    "gpt_neox: parallel, a quarter turns": gpt_neox,
    "gptj: half turns": gptj,
    "phi3: full, tied, a part of each head turned, gelu": phi3,
    "mixtral: sliding": mixtral,
    "qwen3_moe: every second layer, over their sum, sliding, biases": qwen3_moe,
    "gpt_oss: windows in turn, yarn that is not truncated": gpt_oss,
    "deepseek_v2: queries without a latent, greedy": deepseek,
    "deepseek_v3: neighbours turn, the best groups, yarn": deepseek,
    "opt: post-norm, projected": opt,
}
