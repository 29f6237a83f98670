from transformers import StableLmConfig

SIZES = {"hidden_size": 24, "intermediate_size": 40, "vocab_size": 53, "max_position_embeddings": 40}
CONFIGS = {
    "a quarter turns": StableLmConfig(num_hidden_layers=2, num_attention_heads=3, num_key_value_heads=3, **SIZES),
    "half turns, grouped, biases, tied": StableLmConfig(
        num_hidden_layers=2,
        num_attention_heads=6,
        num_key_value_heads=2,
        use_qkv_bias=True,
        layer_norm_eps=1e-2,
        tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 300.0, "partial_rotary_factor": 0.5},
        **SIZES,
    ),
    "parallel, normed, gelu": StableLmConfig(
        num_hidden_layers=3,
        num_attention_heads=3,
        num_key_value_heads=1,
        use_parallel_residual=True,
        qk_layernorm=True,
        hidden_act="gelu",
        layer_norm_eps=1e-2,
        **SIZES,
    ),
}
