from transformers import DeepseekV2Config

SIZES = {"hidden_size": 24, "intermediate_size": 40, "vocab_size": 53, "max_position_embeddings": 40}
LATENT = {"kv_lora_rank": 8, "qk_nope_head_dim": 6, "qk_rope_head_dim": 8, "v_head_dim": 10}
EXPERTS = {"moe_intermediate_size": 14, "n_routed_experts": 6, "num_experts_per_tok": 2}
CONFIGS = {
    "queries without a latent, greedy": DeepseekV2Config(
        num_hidden_layers=2,
        num_attention_heads=3,
        q_lora_rank=None,
        first_k_dense_replace=1,
        n_shared_experts=2,
        rope_parameters={"rope_type": "default", "rope_theta": 100.0},
        **LATENT,
        **EXPERTS,
        **SIZES,
    ),
    "queries with one, the best groups, biases, yarn": DeepseekV2Config(
        num_hidden_layers=3,
        num_attention_heads=4,
        q_lora_rank=7,
        first_k_dense_replace=2,
        n_shared_experts=1,
        topk_method="group_limited_greedy",
        n_group=3,
        topk_group=2,
        routed_scaling_factor=2.5,
        attention_bias=True,
        mlp_bias=True,
        hidden_act="gelu",
        rms_norm_eps=1e-2,
        rope_parameters={
            "rope_type": "yarn",
            "rope_theta": 100.0,
            "factor": 4.0,
            "original_max_position_embeddings": 10,
            "beta_fast": 4.0,
            "beta_slow": 0.5,
            "mscale": 0.7,
            "mscale_all_dim": 0.4,
        },
        **LATENT,
        **EXPERTS,
        **SIZES,
    ),
    "sparse everywhere, tied, yarn as in the paper": DeepseekV2Config(
        num_hidden_layers=2,
        num_attention_heads=3,
        q_lora_rank=7,
        first_k_dense_replace=0,
        tie_word_embeddings=True,
        rope_parameters={
            "rope_type": "yarn",
            "rope_theta": 100.0,
            "factor": 4.0,
            "original_max_position_embeddings": 10,
            "truncate": False,
        },
        **LATENT,
        **EXPERTS | {"num_experts_per_tok": 3},
        **SIZES,
    ),
}
