from transformers import GraniteConfig

SIZES = {"hidden_size": 24, "intermediate_size": 40, "vocab_size": 53, "max_position_embeddings": 40}
HEADS = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
CONFIGS = {
    "every multiplier, tied": GraniteConfig(
        embedding_multiplier=12.0,
        attention_multiplier=0.4,
        residual_multiplier=0.22,
        logits_scaling=8.0,
        tie_word_embeddings=True,
        **HEADS,
        **SIZES,
    ),
    "no multiplier, biases, wide heads, relu": GraniteConfig(
        attention_bias=True,
        mlp_bias=True,
        head_dim=10,
        hidden_act="relu",
        rms_norm_eps=1e-2,
        rope_parameters={"rope_type": "linear", "rope_theta": 100.0, "factor": 2.5},
        **HEADS,
        **SIZES,
    ),
}
