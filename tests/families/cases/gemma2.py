from transformers import Gemma2Config

SIZES = {"hidden_size": 24, "intermediate_size": 40, "vocab_size": 53, "max_position_embeddings": 40}
HEADS = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
CONFIGS = {
    "capped, a window in the first of two layers": Gemma2Config(
        head_dim=10,
        query_pre_attn_scalar=8,
        sliding_window=4,
        attn_logit_softcapping=2.0,
        final_logit_softcapping=5.0,
        **HEADS,
        **SIZES,
    ),
    "a window in the second, scores capped, untied, biases, relu": Gemma2Config(
        head_dim=6,
        query_pre_attn_scalar=5,
        sliding_window=3,
        layer_types=["full_attention", "sliding_attention"],
        attn_logit_softcapping=3.0,
        final_logit_softcapping=None,
        tie_word_embeddings=False,
        attention_bias=True,
        hidden_activation="relu",
        rms_norm_eps=1e-2,
        rope_parameters={"rope_type": "linear", "rope_theta": 100.0, "factor": 2.5},
        **HEADS,
        **SIZES,
    ),
    "no window, logits capped": Gemma2Config(
        head_dim=6,
        query_pre_attn_scalar=5,
        sliding_window=4,
        layer_types=["full_attention", "full_attention"],
        attn_logit_softcapping=None,
        final_logit_softcapping=5.0,
        **HEADS,
        **SIZES,
    ),
}
