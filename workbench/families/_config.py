"""Reading a published config so that nothing which could change the mathematics is overlooked.

Every key that a family reads is ticked off. What is left at the end must be known to be about something else
(training, files, generation); anything else is refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import FamilyError, nearest

_REQUIRED = object()
_MOST_LAYERS = 10_000

# Keys that do not touch a forward pass in evaluation mode; so are those with an underscore in front, which are
# transformers' own bookkeeping.
_ABOUT_SOMETHING_ELSE = frozenset(
    """
    activation_dropout architectures attention_dropout attention_probs_dropout_prob attn_pdrop auto_map aux_loss_alpha
    bad_words_ids begin_suppress_tokens bos_token_id cache_implementation chunk_size_feed_forward classifier_dropout
    decoder_start_token_id
    diversity_penalty do_sample dropout dtype early_stopping embd_pdrop embed_dropout embedding_dropout ep_size
    encoder_no_repeat_ngram_size eos_token_id exponential_decay_length_penalty finetuning_task forced_bos_token_id
    forced_eos_token_id gradient_checkpointing hidden_dropout hidden_dropout_prob id2label init_std initializer_range
    is_decoder is_encoder_decoder keys_to_ignore_at_inference label2id length_penalty max_length min_length model_type
    no_repeat_ngram_size num_beam_groups num_beams num_return_sequences output_attentions output_hidden_states
    output_router_logits router_aux_loss_coef router_jitter_noise output_scores pad_token_id prefix pretraining_tp
    problem_type remove_invalid_values reorder_and_upcast_attn repetition_penalty resid_dropout resid_pdrop
    residual_dropout return_dict return_dict_in_generate sep_token_id seq_aux summary_activation summary_first_dropout
    summary_proj_to_labels summary_type summary_use_proj suppress_tokens task_specific_params temperature
    tf_legacy_loss tie_encoder_decoder tokenizer_class top_k top_p torch_dtype torchscript transformers.js_config
    transformers_version typical_p unk_token_id unsloth_fixed unsloth_version use_bfloat16 use_cache layerdrop
    max_sequence_length n_special output_past predict_special_tokens
    """.split()
)

# Keys of other families' mathematics that some files write out with the value that switches them off.
_NEUTRAL: dict[str, Any] = {
    "add_cross_attention": False,
    "alibi": False,
    "embedding_multiplier": 1.0,
    "is_llama_config": True,
    "mlp_only_layers": [],
    "partial_rotary_factor": 1.0,
    "pruned_heads": {},
    "qk_layernorm": False,
    "rope_interleaved": False,
    "use_mrope": False,
    "use_parallel_residual": False,
    "use_qk_norm": False,
    "use_sliding_window": False,
}

_ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}


class Config:
    """A published config, each key read at most knowingly.

    where: what to call it in an error, e.g. the path of a config.json.
    seen:  the keys read so far that may have an effect.
    """

    def __init__(self, values: Mapping[str, Any], where: str):
        self._values, self.where = dict(values), where
        self.seen: set[str] = set()
        self._idle: set[str] = set()

    def take(self, key: str, default: Any = _REQUIRED) -> Any:
        """A value; the default also where the file says null."""
        self.seen.add(key)
        value = self._values.get(key)
        if value is None and default is _REQUIRED:
            raise FamilyError(f"{self.where} lacks {key!r}, which this family needs")
        return default if value is None else value

    def idle(self, *keys: str) -> None:
        """Keys on which nothing depends, given the others: the width of dense layers where every layer is sparse."""
        self._idle |= set(keys)
        self.seen -= set(keys)

    def named(self, *names: str) -> str:
        """Of the names that a key has had, the one that this file uses; where it uses several, they must agree."""
        self.seen |= set(names)
        used = [name for name in names if self._values.get(name) is not None] or [names[0]]
        for name in used[1:]:
            if self._values[name] != self._values[used[0]]:
                raise FamilyError(
                    f"{self.where} says {used[0]} = {self._values[used[0]]!r} and {name} = {self._values[name]!r}, "
                    "two names of one thing"
                )
        return used[0]

    def integer(self, key: str, default: Any = _REQUIRED, *, least: int = 1) -> int:
        value = self.take(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            wanted = "positive whole number" if least == 1 else f"whole number, at least {least},"
            raise FamilyError(f"{self.where} says {key} = {value!r}; a {wanted} is wanted")
        return value

    def n_layers(self, key: str, default: Any = _REQUIRED) -> int:
        """A number of layers, small enough to be meant."""
        value = self.integer(key, default)
        if value > _MOST_LAYERS:
            raise FamilyError(f"{self.where} says {key} = {value}; at most {_MOST_LAYERS} are built")
        return value

    def number(self, key: str, default: Any = _REQUIRED) -> float:
        value = self.take(key, default)
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise FamilyError(f"{self.where} says {key} = {value!r}; a number is wanted")
        return float(value)

    def positive(self, key: str, default: Any = _REQUIRED) -> float:
        value = self.number(key, default)
        if not value > 0:
            raise FamilyError(f"{self.where} says {key} = {value!r}; a number above 0 is wanted")
        return value

    def number_or_null(self, key: str, absent: float | None = None) -> float | None:
        """A number, or None where the file says null, which is not the same as saying nothing."""
        given = self.take(key, None if key in self._values else absent)
        return None if given is None else self.number(key, absent)

    def flag(self, key: str, default: Any = _REQUIRED) -> bool:
        value = self.take(key, default)
        if not isinstance(value, bool):
            raise FamilyError(f"{self.where} says {key} = {value!r}; true or false is wanted")
        return value

    def activation(self, key: str, default: Any = _REQUIRED) -> str:
        """The workbench's name of an activation function."""
        value = self.take(key, default)
        if not isinstance(value, str) or value not in _ACTIVATIONS:
            raise FamilyError(f"{self.where} says {key} = {value!r}; {nearest(str(value), _ACTIVATIONS)}")
        return _ACTIVATIONS[value]

    def only(self, key: str, *allowed: Any) -> None:
        """A key that must have one of these values, or be absent: the rest is mathematics that is not built."""
        value = self.take(key, allowed[0])
        if value not in allowed:
            raise FamilyError(
                f"{self.where} says {key} = {value!r}, which changes the result and is not accounted for; "
                f"only {' or '.join(map(repr, allowed))} is"
            )

    def numbers(self, key: str, default: Any = _REQUIRED) -> tuple[float, ...]:
        value = self.take(key, default)
        if not isinstance(value, (list, tuple)) or not all(type(item) in (int, float) for item in value):
            raise FamilyError(f"{self.where} says {key} = {value!r}; a list of numbers is wanted")
        return tuple(map(float, value))

    def d_head(self, d_model: int, n_heads: int, key: str = "head_dim") -> int:
        """The width of a head: what the file says, or its share of the stream, which must come out even."""
        value = self.take(key, None)
        if value is None and d_model % n_heads:
            raise FamilyError(f"{self.where} says a width of {d_model} and {n_heads} heads, which do not divide it")
        return d_model // n_heads if value is None else self.integer(key)

    def window(self, key: str = "sliding_window") -> int | None:
        """How many positions back a query sees; None for all."""
        return None if self.take(key, None) is None else self.integer(key)

    def _is_neutral(self, key: str) -> bool:
        """Whether a key stands there with the value that leaves the mathematics alone."""
        value = self._values[key]
        return value is None or (key in _NEUTRAL and type(value) is type(_NEUTRAL[key]) and value == _NEUTRAL[key])

    def finish(self) -> None:
        """Refuse what nobody read and nobody knows to be harmless. Call it last."""
        if (quantized := self.take("quantization_config", None)) is not None:
            method = quantized.get("quant_method") if isinstance(quantized, Mapping) else quantized
            raise FamilyError(
                f"{self.where} says quantization_config with quant_method = {method!r}: its weights are packed into "
                "fewer bits, and only float32, float16 and bfloat16 are read; a copy in one of these is wanted"
            )
        left = sorted(self._values.keys() - self.seen - self._idle - _ABOUT_SOMETHING_ELSE)
        left = [key for key in left if not key.startswith("_") and not self._is_neutral(key)]
        if left:
            raise FamilyError(
                f"{self.where} says {left[0]} = {self._values[left[0]]!r}, a key that is not accounted for and "
                "could change the result"
            )
