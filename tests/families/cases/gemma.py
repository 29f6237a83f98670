from transformers import GemmaConfig

SIZES = {"hidden_size": 24, "intermediate_size": 40, "vocab_size": 53, "max_position_embeddings": 40}
CONFIGS = {
    "one kv head, wide heads": GemmaConfig(
        num_hidden_layers=2, num_attention_heads=3, num_key_value_heads=1, head_dim=10, **SIZES
    ),
    "every head its own, untied, biases, silu": GemmaConfig(
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        head_dim=6,
        tie_word_embeddings=False,
        attention_bias=True,
        hidden_act="silu",
        rms_norm_eps=1e-2,
        rope_parameters={"rope_type": "linear", "rope_theta": 100.0, "factor": 2.5},
        **SIZES,
    ),
}
