from transformers import SmolLM3Config

SIZES = {
    "hidden_size": 24,
    "intermediate_size": 40,
    "vocab_size": 53,
    "max_position_embeddings": 40,
    "pad_token_id": None,
    "bos_token_id": 0,
    "eos_token_id": 0,
}
HEADS = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
CONFIGS = {
    "positions in the first of two layers": SmolLM3Config(no_rope_layer_interval=2, **HEADS, **SIZES),
    "positions in the second, untied, a window in the first, gelu": SmolLM3Config(
        no_rope_layers=[0, 1],
        use_sliding_window=True,
        sliding_window=4,
        tie_word_embeddings=False,
        hidden_act="gelu",
        **HEADS,
        **SIZES,
    ),
    "positions everywhere, a window in the second, biases, wide heads, yarn": SmolLM3Config(
        no_rope_layers=[1, 1],
        use_sliding_window=True,
        sliding_window=3,
        layer_types=["full_attention", "sliding_attention"],
        attention_bias=True,
        mlp_bias=True,
        head_dim=10,
        rms_norm_eps=1e-2,
        rope_parameters={
            "rope_type": "yarn",
            "rope_theta": 100.0,
            "factor": 4.0,
            "original_max_position_embeddings": 10,
        },
        **HEADS,
        **SIZES,
    ),
}
