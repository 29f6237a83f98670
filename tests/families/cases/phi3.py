from transformers import Phi3Config

SIZES = {
    "hidden_size": 32,
    "intermediate_size": 40,
    "vocab_size": 53,
    "max_position_embeddings": 40,
    "pad_token_id": None,
}
HEADS = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
CONFIGS = {
    "sliding, every head its own": Phi3Config(num_hidden_layers=2, num_attention_heads=4, sliding_window=4, **SIZES),
    "full, tied, a part of each head turned, gelu": Phi3Config(
        tie_word_embeddings=True,
        hidden_act="gelu",
        rms_norm_eps=1e-2,
        rope_parameters={"rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 0.5},
        **HEADS,
        **SIZES,
    ),
    "longrope": Phi3Config(
        original_max_position_embeddings=8,
        rope_parameters={
            "rope_type": "longrope",
            "rope_theta": 100.0,
            "short_factor": [1.0, 1.2, 1.5, 2.0],
            "long_factor": [1.0, 2.0, 4.0, 8.0],
        },
        **HEADS,
        **SIZES,
    ),
    "longrope of a part of each head, sliding": Phi3Config(
        original_max_position_embeddings=8,
        sliding_window=5,
        rope_parameters={
            "rope_type": "longrope",
            "rope_theta": 100.0,
            "partial_rotary_factor": 0.75,
            "short_factor": [1.0, 1.2, 1.5],
            "long_factor": [1.0, 2.0, 4.0],
        },
        **HEADS,
        **SIZES,
    ),
}
