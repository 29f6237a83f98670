from transformers import GPTNeoConfig

SIZES = {"hidden_size": 24, "vocab_size": 53, "max_position_embeddings": 40, "bos_token_id": 0, "eos_token_id": 0}
CONFIGS = {
    "in turn": GPTNeoConfig(
        num_layers=2, num_heads=3, attention_types=[[["global", "local"], 1]], window_size=4, **SIZES
    ),
    "local first, narrow, relu, untied": GPTNeoConfig(
        num_layers=3,
        num_heads=4,
        attention_types=[[["local"], 1], [["global"], 2]],
        window_size=5,
        intermediate_size=20,
        activation_function="relu",
        layer_norm_epsilon=1e-2,
        tie_word_embeddings=False,
        **SIZES,
    ),
    "all positions": GPTNeoConfig(num_layers=2, num_heads=3, attention_types=[[["global"], 2]], **SIZES),
}
