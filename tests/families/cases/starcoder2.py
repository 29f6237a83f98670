from transformers import Starcoder2Config

SIZES = {"hidden_size": 24, "intermediate_size": 40, "vocab_size": 53, "max_position_embeddings": 40}
CONFIGS = {
    "sliding, tied": Starcoder2Config(
        num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, sliding_window=4, **SIZES
    ),
    "full, no biases, relu, untied": Starcoder2Config(
        num_hidden_layers=3,
        num_attention_heads=3,
        num_key_value_heads=1,
        use_bias=False,
        hidden_act="relu",
        norm_epsilon=1e-2,
        tie_word_embeddings=False,
        **SIZES,
    ),
}
