from transformers import Gemma3TextConfig

SIZES = {"hidden_size": 24, "intermediate_size": 40, "vocab_size": 53, "max_position_embeddings": 40}
HEADS = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}


def rotations(**of_full):
    """Two rotations that differ within a text of the tests."""
    return {
        "sliding_attention": {"rope_type": "default", "rope_theta": 50.0},
        "full_attention": {"rope_type": "default", "rope_theta": 400.0, **of_full},
    }


CONFIGS = {
    "a window in the first layer, wide heads, untied": Gemma3TextConfig(
        head_dim=10,
        query_pre_attn_scalar=8,
        sliding_window=4,
        layer_types=["sliding_attention", "full_attention"],
        rope_parameters=rotations(),
        tie_word_embeddings=False,
        **HEADS,
        **SIZES,
    ),
    "a window in the second, full layers scaled, capped, biases, relu": Gemma3TextConfig(
        head_dim=6,
        query_pre_attn_scalar=5,
        sliding_window=3,
        layer_types=["full_attention", "sliding_attention"],
        rope_parameters=rotations(rope_type="linear", factor=8.0),
        final_logit_softcapping=5.0,
        attention_bias=True,
        hidden_activation="relu",
        rms_norm_eps=1e-2,
        **HEADS,
        **SIZES,
    ),
    "every layer with a window, capped, one kv head": Gemma3TextConfig(
        num_hidden_layers=2,
        num_attention_heads=3,
        num_key_value_heads=1,
        head_dim=8,
        query_pre_attn_scalar=8,
        sliding_window=4,
        final_logit_softcapping=8.0,
        **SIZES,
    ),
}
