from transformers import Qwen3Config

SIZES = {"hidden_size": 24, "intermediate_size": 40, "vocab_size": 53, "max_position_embeddings": 40}
HEADS = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
CONFIGS = {
    "full, tied": Qwen3Config(head_dim=6, tie_word_embeddings=True, **HEADS, **SIZES),
    "a window in the second layer, wide heads, biases": Qwen3Config(
        head_dim=10,
        attention_bias=True,
        use_sliding_window=True,
        sliding_window=4,
        max_window_layers=1,
        rms_norm_eps=1e-2,
        **HEADS,
        **SIZES,
    ),
    "a window in the first layer, relu, yarn": Qwen3Config(
        head_dim=8,
        use_sliding_window=True,
        sliding_window=3,
        layer_types=["sliding_attention", "full_attention"],
        hidden_act="relu",
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
