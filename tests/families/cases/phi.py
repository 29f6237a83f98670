from transformers import PhiConfig

SIZES = {"hidden_size": 24, "intermediate_size": 40, "vocab_size": 53, "max_position_embeddings": 40}
CONFIGS = {
    "half turns": PhiConfig(num_hidden_layers=2, num_attention_heads=3, **SIZES),
    "all turns, grouped, normed, gelu, tied": PhiConfig(
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        qk_layernorm=True,
        hidden_act="gelu",
        layer_norm_eps=1e-2,
        tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 300.0, "partial_rotary_factor": 1.0},
        **SIZES,
    ),
}
