from transformers import GptOssConfig

# Limits are low, since in so small a model little is ever clamped by the published 7.
SIZES = {"hidden_size": 24, "intermediate_size": 14, "vocab_size": 53, "max_position_embeddings": 40}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "sliding_window": 4}
YARN = {"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "original_max_position_embeddings": 10}
CONFIGS = {
    "windows in turn, yarn that is not truncated": GptOssConfig(
        num_hidden_layers=2,
        head_dim=8,
        num_local_experts=5,
        num_experts_per_tok=2,
        swiglu_limit=1.5,
        rope_parameters=YARN | {"beta_fast": 4.0, "beta_slow": 0.5, "truncate": False},
        **HEADS,
        **SIZES,
    ),
    "full first, no attention biases, tied, a steep gate": GptOssConfig(
        num_hidden_layers=3,
        head_dim=10,
        num_local_experts=4,
        num_experts_per_tok=3,
        layer_types=["full_attention", "sliding_attention", "full_attention"],
        attention_bias=False,
        tie_word_embeddings=True,
        swiglu_alpha=2.5,
        swiglu_limit=0.8,
        rms_norm_eps=1e-2,
        rope_parameters={"rope_type": "default", "rope_theta": 300.0},
        **HEADS,
        **SIZES,
    ),
}
