from transformers import DeepseekV3Config

# Many experts, so that a bias a little different sends some token to another one.
SIZES = {"hidden_size": 24, "intermediate_size": 40, "vocab_size": 53, "max_position_embeddings": 40}
LATENT = {"kv_lora_rank": 8, "qk_nope_head_dim": 6, "qk_rope_head_dim": 8, "v_head_dim": 10}
HEADS = {"num_attention_heads": 3, "num_key_value_heads": 3}
EXPERTS = {"moe_intermediate_size": 14, "num_experts_per_tok": 2}
CONFIGS = {
    "neighbours turn, the best groups, yarn": DeepseekV3Config(
        num_hidden_layers=2,
        q_lora_rank=7,
        first_k_dense_replace=1,
        n_routed_experts=16,
        n_group=4,
        topk_group=2,
        rope_parameters={
            "rope_type": "yarn",
            "rope_theta": 100.0,
            "factor": 4.0,
            "original_max_position_embeddings": 10,
            "beta_fast": 4.0,
            "beta_slow": 0.5,
            "mscale": 1.0,
            "mscale_all_dim": 1.0,
        },
        **LATENT,
        **HEADS,
        **EXPERTS,
        **SIZES,
    ),
    "halves turn, one group, weights as they are, biases": DeepseekV3Config(
        num_hidden_layers=3,
        q_lora_rank=None,
        first_k_dense_replace=2,
        n_shared_experts=2,
        n_routed_experts=20,
        n_group=1,
        topk_group=1,
        norm_topk_prob=False,
        routed_scaling_factor=1.3,
        attention_bias=True,
        rope_interleave=False,
        rms_norm_eps=1e-2,
        hidden_act="gelu",
        num_mtp_layers=0,
        rope_parameters={"rope_type": "default", "rope_theta": 300.0},
        **LATENT,
        **HEADS,
        **EXPERTS | {"num_experts_per_tok": 5},
        **SIZES,
    ),
    "sparse everywhere, tied": DeepseekV3Config(
        num_hidden_layers=2,
        q_lora_rank=7,
        first_k_dense_replace=0,
        n_routed_experts=15,
        n_group=3,
        topk_group=1,
        tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 100.0},
        **LATENT,
        **HEADS,
        **EXPERTS,
        **SIZES,
    ),
}
