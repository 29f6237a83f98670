from transformers import GPTJConfig

SIZES = {"n_embd": 24, "n_positions": 40, "vocab_size": 53, "bos_token_id": 0, "eos_token_id": 0}
CONFIGS = {
    "half turns": GPTJConfig(n_layer=2, n_head=3, rotary_dim=4, **SIZES),
    "all turns, narrow, relu, tied": GPTJConfig(
        n_layer=3,
        n_head=4,
        rotary_dim=6,
        n_inner=20,
        activation_function="relu",
        layer_norm_epsilon=1e-2,
        tie_word_embeddings=True,
        **SIZES,
    ),
}
