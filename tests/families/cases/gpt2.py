from transformers import GPT2Config

SIZES = {"n_embd": 24, "n_positions": 40, "vocab_size": 53, "bos_token_id": 0, "eos_token_id": 0}
CONFIGS = {
    "tied": GPT2Config(n_layer=3, n_head=3, **SIZES),
    "untied, narrow": GPT2Config(n_layer=2, n_head=4, n_inner=20, tie_word_embeddings=False, **SIZES),
    "relu, scaled by layer": GPT2Config(
        n_layer=3,
        n_head=3,
        activation_function="relu",
        scale_attn_by_inverse_layer_idx=True,
        layer_norm_epsilon=1e-2,
        **SIZES,
    ),
    "unscaled": GPT2Config(n_layer=2, n_head=3, scale_attn_weights=False, **SIZES),
}
