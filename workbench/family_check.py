"""A family against transformers: how far logits, attention, stream, padding and greedy tokens are from the published
implementation, on a small random model of the family or on a model folder of one's own.

A fresh transformers model has zero biases, unit gains and near-uniform attention, so that a loader which drops any of
these would pass. The small models here are drawn so that every parameter matters.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from .errors import FamilyError, InputError
from .families import family, supported
from .hooked import HookedTransformer
from .loading import from_huggingface, load

TOLERANCE = 2e-5
LENGTHS = (3, 14, 24)  # short to long: in transformers a rotation that has grown with a text stays grown
NEW_TOKENS = 8
_PLAIN = {"attn_implementation": "eager", "experts_implementation": "eager"}

# What a config says of sizes, by the names that transformers' families use, made small. Windows and lengths of
# training are shorter than the longest text; a quarter of a head still holds pairs to turn.
_SMALL: dict[str, Any] = {
    **dict.fromkeys(("hidden_size", "n_embd", "word_embed_proj_dim"), 48),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "num_layers"), 4),
    **dict.fromkeys(("num_attention_heads", "n_head", "num_heads"), 6),
    **dict.fromkeys(("max_position_embeddings", "n_positions"), 64),
    **dict.fromkeys(("sliding_window", "window_size"), 6),
    **dict.fromkeys(("num_local_experts", "num_experts", "n_routed_experts"), 6),
    **dict.fromkeys(("kv_lora_rank", "q_lora_rank"), 16),
    **dict.fromkeys(("head_dim", "v_head_dim", "qk_nope_head_dim", "query_pre_attn_scalar"), 12),
    **dict.fromkeys(("intermediate_size", "ffn_dim"), 64),
    **dict.fromkeys(("num_key_value_heads", "num_experts_per_tok", "n_shared_experts"), 2),
    **dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"), 0),
    "vocab_size": 97,
    "qk_rope_head_dim": 8,
    "rotary_dim": 4,
    "moe_intermediate_size": 24,
    "n_group": 3,
    "topk_group": 2,
    "first_k_dense_replace": 1,
    "original_max_position_embeddings": 16,
    "attention_types": [[["global", "local"], 2]],
}


@dataclass(frozen=True)
class Finding:
    """One line of the report. error: a share of the largest value where said so; within: what it may be."""

    what: str
    error: float
    within: float

    @property
    def holds(self) -> bool:
        return self.error <= self.within


def check_family(name_or_folder: str, seed: int = 0) -> list[Finding]:
    """A family by its `model_type`, on a small random model; or the Hugging Face folder of a model of one's own."""
    if Path(name_or_folder).is_dir():
        theirs = _read(name_or_folder)
        return list(findings(load(name_or_folder), theirs, seed))
    family(name_or_folder)  # says what is supported where this is not
    theirs = small_model(name_or_folder, seed)
    return list(findings(from_huggingface(theirs), theirs, seed))


def small_model(model_type: str, seed: int = 0, **sizes: Any) -> Any:
    """A transformers model of a family, small, with power. sizes: other values of what its config says of sizes."""
    transformers = _transformers()
    config_class = transformers.models.auto.configuration_auto.CONFIG_MAPPING[model_type]
    usual = config_class().to_dict()
    sizes = {key: value for key, value in (_SMALL | sizes).items() if usual.get(key) is not None}
    if "kv_lora_rank" in usual:  # a latent is expanded to keys and values of every head
        sizes |= {"num_key_value_heads": sizes["num_attention_heads"], "num_experts_per_tok": 2}
        sizes["head_dim"] = sizes["qk_rope_head_dim"]
    config = config_class(**sizes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = transformers.AutoModelForCausalLM.from_config(config, **_PLAIN).eval()
    give_power(model, seed)
    return model


@torch.no_grad()
def give_power(model: torch.nn.Module, seed: int) -> None:
    """Draw every tensor anew: matrices large enough for sharp attention, gains and biases off where they start."""
    generator = torch.Generator().manual_seed(seed)
    for name, tensor in model.state_dict().items():
        drawn = torch.randn(tensor.shape, generator=generator)
        if tensor.ndim > 1:
            embedding = any(word in name for word in ("embed", "wte", "wpe"))
            tensor.copy_(drawn if embedding else drawn * (1.2 / tensor.shape[-1] ** 0.5))
        else:
            tensor.add_(0.3 + 0.4 * drawn)  # away from 1, and from 0 where a gain is kept as 1 + w


@torch.no_grad()
def findings(ours: HookedTransformer, theirs: Any, seed: int = 0) -> Iterator[Finding]:
    """What differs, the worst of each kind over texts of several lengths."""
    lengths = [length for length in LENGTHS if length <= ours.spec.n_ctx]
    if not lengths:
        raise InputError(
            f"texts of {LENGTHS[0]} tokens and more are compared; this model's context is {ours.spec.n_ctx}"
        )
    generator = torch.Generator().manual_seed(seed)
    texts = [torch.randint(0, ours.spec.vocab_size, (1, length), generator=generator) for length in lengths]
    wanted = [theirs(text, output_attentions=True, use_cache=False) for text in texts]
    came = [ours(text) for text in texts]
    yield Finding(
        "logits, of the largest", max(_apart(a[0], b.logits) for a, b in zip(came, wanted, strict=True)), TOLERANCE
    )
    pairs = [pair for a, b in zip(came, wanted, strict=True) for pair in zip(a[1], b.attentions, strict=True)]
    yield Finding("attention", max(float((a - b).abs().max()) for a, b in pairs), TOLERANCE)
    if all(block.adds for block in ours.blocks):
        _, cache = ours.run_with_cache(texts[-1])
        stream = cache["resid_post", -1]
        yield Finding(
            "stream less its writes, of the largest", _apart(cast(Tensor, cache.decompose_resid()).sum(0), stream), 1e-5
        )
    for side in ("left", "right"):
        yield Finding(f"padded {side}, of the largest logit", _padded(ours, texts, wanted, side), TOLERANCE)
    yield Finding(f"greedy tokens that differ, of {NEW_TOKENS}", _greedy_apart(ours, theirs, texts[-1]), 0)


def _apart(ours: Tensor, theirs: Tensor) -> float:
    return float((ours - theirs).abs().max() / theirs.abs().max())


def _padded(ours: HookedTransformer, texts: list[Tensor], wanted: list[Any], side: str) -> float:
    """Every row of a padded batch against the text's own run there."""
    longest = max(text.shape[1] for text in texts)
    tokens = torch.zeros(len(texts), longest, dtype=torch.long)
    mask = torch.zeros_like(tokens)
    for row, text in enumerate(texts):
        place = slice(longest - text.shape[1], longest) if side == "left" else slice(0, text.shape[1])
        tokens[row, place], mask[row, place] = text[0], 1
    logits, _ = ours(tokens, attention_mask=mask)
    return max(_apart(logits[row, mask[row].bool()], alone.logits[0]) for row, alone in enumerate(wanted))


def _greedy_apart(ours: HookedTransformer, theirs: Any, text: Tensor) -> float:
    """How many of the next tokens, each the most likely, are others than there, where the whole text is read each time;
    the larger number of two, with our memory and without."""
    room = min(NEW_TOKENS, ours.spec.n_ctx - text.shape[1])
    other = text
    for _ in range(room):
        other = torch.cat([other, theirs(other, use_cache=False).logits[:, -1:].argmax(-1)], dim=1)
    made = [cast(Tensor, ours.generate(text, room, stop=[], use_kv_cache=use)) for use in (True, False)]
    return float(max((mine != other).sum() for mine in made))


def _read(folder: str) -> Any:
    transformers = _transformers()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return transformers.AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, local_files_only=True, **_PLAIN
        ).eval()


def _transformers() -> Any:
    try:
        import transformers  # only compared with, so it is no dependency
    except ImportError:
        raise FamilyError(
            f"a check compares with transformers, which is not installed (pip install transformers); without it "
            f"{len(supported())} families load all the same"
        ) from None
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    return transformers
