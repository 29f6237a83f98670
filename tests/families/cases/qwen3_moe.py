from transformers import Qwen3MoeConfig

SIZES = {"hidden_size": 24, "intermediate_size": 40, "vocab_size": 53, "max_position_embeddings": 40}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2}
EXPERTS = {"moe_intermediate_size": 20, "num_experts": 5, "num_experts_per_tok": 2}
CONFIGS = {
    "sparse everywhere, weights as they are": Qwen3MoeConfig(num_hidden_layers=2, **HEADS, **EXPERTS, **SIZES),
    "every second layer, over their sum, sliding, biases": Qwen3MoeConfig(
        num_hidden_layers=3,
        decoder_sparse_step=2,
        norm_topk_prob=True,
        use_sliding_window=True,
        sliding_window=4,
        attention_bias=True,
        rope_parameters={"rope_type": "default", "rope_theta": 300.0},
        **HEADS,
        **EXPERTS,
        **SIZES,
    ),
    "a dense layer, wide heads, tied, yarn": Qwen3MoeConfig(
        num_hidden_layers=3,
        mlp_only_layers=[1],
        head_dim=10,
        tie_word_embeddings=True,
        rms_norm_eps=1e-2,
        hidden_act="gelu",
        rope_parameters={
            "rope_type": "yarn",
            "rope_theta": 100.0,
            "factor": 4.0,
            "original_max_position_embeddings": 10,
        },
        **HEADS,
        **EXPERTS | {"num_experts_per_tok": 3},
        **SIZES,
    ),
}
