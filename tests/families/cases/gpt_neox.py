from transformers import GPTNeoXConfig

SIZES = {"hidden_size": 24, "intermediate_size": 40, "vocab_size": 53, "max_position_embeddings": 40}
CONFIGS = {
    "parallel, a quarter turns": GPTNeoXConfig(num_hidden_layers=2, num_attention_heads=3, **SIZES),
    "sequential, all turns, no biases, tied": GPTNeoXConfig(
        num_hidden_layers=3,
        num_attention_heads=4,
        use_parallel_residual=False,
        attention_bias=False,
        hidden_act="gelu_fast",
        layer_norm_eps=1e-2,
        tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 300.0, "partial_rotary_factor": 1.0},
        **SIZES,
    ),
    "half turns, scaled": GPTNeoXConfig(
        num_hidden_layers=2,
        num_attention_heads=3,
        rope_parameters={"rope_type": "linear", "factor": 2.5, "rope_theta": 100.0, "partial_rotary_factor": 0.5},
        **SIZES,
    ),
}
