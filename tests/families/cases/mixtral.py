from transformers import MixtralConfig

SIZES = {"hidden_size": 24, "intermediate_size": 20, "vocab_size": 53, "max_position_embeddings": 40}
HEADS = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
CONFIGS = {
    "sliding": MixtralConfig(num_local_experts=5, sliding_window=4, **HEADS, **SIZES),
    "three of four": MixtralConfig(
        num_local_experts=4, num_experts_per_tok=3, tie_word_embeddings=True, **HEADS, **SIZES
    ),
}
