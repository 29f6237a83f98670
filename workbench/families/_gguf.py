"""What llama.cpp writes about a model, in the words of Hugging Face configs.

A key stands without the architecture in front, a tensor that holds numbers about the model by its name. On the right is
the config's key, `rope_scaling.factor` for one inside an object; None where nothing depends on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import nextafter
from typing import Any

from einops import rearrange
from torch import Tensor

from ..errors import FamilyError
from ..model.rotary_scaling import yarn_magnitude
from ..spec import ModelSpec
from ._config import Config
from ._decoder import heads_of

SIZES: dict[str, str | None] = {
    "embedding_length": "hidden_size",
    "block_count": "num_hidden_layers",
    "feed_forward_length": "intermediate_size",
    "context_length": "max_position_embeddings",
    "vocab_size": "vocab_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.value_length": "head_dim",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "tensor_data_layout": None,  # which files of 2023 name, and which has been the same ever since
}

ROTATION: dict[str, str | None] = {
    "rope.dimension_count": "head_dim",  # heads turn whole, unless a family says otherwise
    "rope.freq_base": "rope_theta",
    "rope.scaling.type": "rope_scaling.type",
    "rope.scaling.factor": "rope_scaling.factor",
    "rope.scale_linear": "rope_scaling.factor",  # what the factor was called before it had a type
    "rope.scaling.original_context_length": "original_max_position_embeddings",
    "rope.scaling.attn_factor": "rope_scaling.attn_factor",
    "rope.scaling.yarn_attn_factor": "rope_scaling.attention_factor",
    "rope.scaling.yarn_ext_factor": "rope_scaling.ext_factor",
    "rope.scaling.yarn_beta_fast": "rope_scaling.beta_fast",
    "rope.scaling.yarn_beta_slow": "rope_scaling.beta_slow",
    "rope.scaling.finetuned": None,  # says whether training saw the scaling
    "rope_freqs.weight": "rope_scaling.divisors",
    "rope_factors_long.weight": "rope_scaling.long_factor",
    "rope_factors_short.weight": "rope_scaling.short_factor",
}

DECODER = SIZES | ROTATION

_FACTORS = {"long_factor": "rope_factors_long.weight", "short_factor": "rope_factors_short.weight"}


def scaling(said: Config) -> dict[str, Any]:
    """`rope_scaling` as a Hugging Face config would have it, where the file says anything of the kind."""
    given: dict[str, Any] = dict(said.take("rope_scaling", {}))
    if not given:
        return {}
    kind = _kind(given.pop("type", None), given, said.where)
    entry = Config(given, f"{said.where}, of its rotation,")
    if kind == "yarn":
        given["factor"] = entry.number("factor", 1.0)
        entry.only("ext_factor", 1.0)
        if "attention_factor" in given:
            entry.only("attn_factor", 1.0)
        elif "attn_factor" in given:
            given["attention_factor"] = yarn_magnitude(given["factor"]) * entry.number("attn_factor")
    else:
        entry.only("ext_factor", None)
    if kind in ("longrope", "divisors"):
        entry.only("factor", 1.0)  # llama.cpp would divide positions by it as well
        given.pop("factor", None)
    if kind == "longrope":
        given["attention_factor"] = entry.number("attn_factor", 1.0)
    elif kind != "yarn":
        entry.only("attn_factor", 1.0)
    applied = {key: value for key, value in given.items() if key not in ("attn_factor", "ext_factor")}
    return {"rope_scaling": {"rope_type": kind} | applied}


def _kind(stated: Any, given: Mapping[str, Any], where: str) -> str:
    """The type of scaling. Lists of divisors apply whether or not a type is said with them."""
    if given.keys() & _FACTORS.keys() or stated == "longrope":
        implied = "longrope"
        for key, tensor in _FACTORS.items():
            if key not in given:
                raise FamilyError(f"{where} lacks the tensor {tensor!r}, without which its rotation is not known")
    elif "divisors" in given:
        implied = "divisors"
    elif stated in (None, "linear"):
        return "linear" if "factor" in given else "default"
    elif stated == "yarn":
        return "yarn"
    elif stated == "none":
        return "default"
    else:
        raise FamilyError(f"{where} says rope.scaling.type = {stated!r}; none, linear, yarn and longrope are known")
    if stated not in (None, "none", implied):
        raise FamilyError(f"{where} says rope.scaling.type = {stated!r} and has a tensor of divisors for each pair")
    return implied


def share_of_head(width: int, d_head: int) -> float:
    """The `partial_rotary_factor` that comes out at this width when it is multiplied and cut off to a whole number."""
    return width / d_head if int(width / d_head * d_head) == width else nextafter(width / d_head, 2.0)


def gemma_scalar(said: Config, n_layers_of_27b: int) -> int:
    """`query_pre_attn_scalar`, which no file holds. llama.cpp goes by the number of layers: it is d_head, and in the
    models of 27B the head's share of the stream."""
    heads = heads_of(said)
    of_27b = said.integer("num_hidden_layers") == n_layers_of_27b
    return said.integer("hidden_size") // heads.n_heads if of_27b else heads.d_head


def halves(name: str, tensor: Tensor, spec: ModelSpec) -> Tensor:
    """llama.cpp turns neighbouring rows of Llama's queries and keys; put them back as halves of a head."""
    heads = {"q_proj": spec.n_heads, "k_proj": spec.n_kv_heads}.get(name.split(".")[-2])
    if heads is None:
        return tensor
    return rearrange(tensor, "(head pair two) ... -> (head two pair) ...", head=heads, two=2)


def gain_above_one(name: str, tensor: Tensor, spec: ModelSpec) -> Tensor:
    """Gemma's norms multiply by 1 + w; llama.cpp keeps the sum."""
    return tensor - 1 if name.endswith("norm.weight") else tensor
