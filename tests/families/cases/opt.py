from transformers import OPTConfig

SIZES = {"hidden_size": 24, "ffn_dim": 40, "vocab_size": 53, "max_position_embeddings": 40, "word_embed_proj_dim": 24}
CONFIGS = {
    "pre-norm": OPTConfig(num_hidden_layers=2, num_attention_heads=3, **SIZES),
    "post-norm, projected": OPTConfig(
        num_hidden_layers=3,
        num_attention_heads=4,
        do_layer_norm_before=False,
        **SIZES | {"word_embed_proj_dim": 10},
    ),
    "pre-norm, wide embedding, gelu, no final norm": OPTConfig(
        num_hidden_layers=2,
        num_attention_heads=3,
        activation_function="gelu",
        _remove_final_layer_norm=True,
        **SIZES | {"word_embed_proj_dim": 30},
    ),
    "post-norm, no biases, plain norms, untied": OPTConfig(
        num_hidden_layers=2,
        num_attention_heads=3,
        do_layer_norm_before=False,
        enable_bias=False,
        layer_norm_elementwise_affine=False,
        tie_word_embeddings=False,
        **SIZES,
    ),
}
