from transformers import OlmoConfig

SIZES = {"hidden_size": 24, "intermediate_size": 40, "vocab_size": 53, "max_position_embeddings": 40}
CONFIGS = {
    "every head its own": OlmoConfig(num_hidden_layers=2, num_attention_heads=4, **SIZES),
    "grouped, tied, wide heads, biases, gelu": OlmoConfig(
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=10,
        tie_word_embeddings=True,
        attention_bias=True,
        hidden_act="gelu",
        rope_parameters={"rope_type": "linear", "rope_theta": 100.0, "factor": 2.5},
        **SIZES,
    ),
}
