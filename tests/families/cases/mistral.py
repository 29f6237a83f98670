from transformers import MistralConfig

SIZES = {"hidden_size": 24, "intermediate_size": 40, "vocab_size": 53, "max_position_embeddings": 40}
HEADS = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
CONFIGS = {
    "sliding": MistralConfig(sliding_window=4, **HEADS, **SIZES),
    "full, wide heads": MistralConfig(sliding_window=None, head_dim=10, **HEADS, **SIZES),
}
