from transformers import LlamaConfig

SIZES = {"hidden_size": 24, "intermediate_size": 40, "vocab_size": 53, "max_position_embeddings": 40}


def scaled(**rope):
    """Two layers whose rotation is scaled."""
    rope = {"rope_theta": 100.0, **rope}
    return LlamaConfig(num_hidden_layers=2, num_attention_heads=3, num_key_value_heads=1, rope_parameters=rope, **SIZES)


CONFIGS = {
    "grouped, untied": LlamaConfig(num_hidden_layers=3, num_attention_heads=6, num_key_value_heads=2, **SIZES),
    "one kv head, tied, wide heads, biases": LlamaConfig(
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=1,
        head_dim=10,
        tie_word_embeddings=True,
        attention_bias=True,
        mlp_bias=True,
        rms_norm_eps=1e-2,
        rope_parameters={"rope_type": "default", "rope_theta": 300.0},
        **SIZES,
    ),
    "every head its own, gelu": LlamaConfig(num_hidden_layers=2, num_attention_heads=4, hidden_act="gelu", **SIZES),
    "linear scaling": scaled(rope_type="linear", factor=2.5),
    "dynamic NTK": LlamaConfig(
        num_hidden_layers=2,
        num_attention_heads=3,
        rope_parameters={"rope_theta": 100.0, "rope_type": "dynamic", "factor": 3.0},
        **SIZES | {"max_position_embeddings": 6},
    ),
    "yarn": scaled(rope_type="yarn", factor=4.0, original_max_position_embeddings=10),
    "yarn, its own attention": scaled(
        rope_type="yarn",
        factor=4.0,
        original_max_position_embeddings=10,
        beta_fast=4.0,
        beta_slow=0.5,
        attention_factor=1.4,
        truncate=False,
    ),
    "yarn, two magnitudes": scaled(
        rope_type="yarn", factor=4.0, original_max_position_embeddings=10, mscale=0.7, mscale_all_dim=0.3
    ),
    "longrope": scaled(
        rope_type="longrope",
        factor=4.0,
        original_max_position_embeddings=8,
        short_factor=[1.0, 1.2, 1.5, 2.0],
        long_factor=[1.0, 2.0, 4.0, 8.0],
    ),
    "llama3 scaling": scaled(
        rope_type="llama3",
        factor=4.0,
        low_freq_factor=1.0,
        high_freq_factor=4.0,
        original_max_position_embeddings=16,
    ),
}
