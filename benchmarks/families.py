"""Every family against transformers, and what experts cost.

python benchmarks/families.py [--threads 2] [--rounds 15] [--json out.json] [--only llama --only experts]

A model of each family with 4 layers and d_model 256, 2 x 128 tokens, against transformers' eager attention; and a
mixture of 64 experts against one of 8 at the same top-k, experts half as wide as the stream and as wide.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch
from side_by_side import Row, compare, report

import workbench as wb
from workbench.families import supported
from workbench.family_check import small_model
from workbench.model.attention import AttentionSpec
from workbench.model.block import PreNorm
from workbench.model.embedding import TokenEmbeddingSpec, UnembeddingSpec
from workbench.model.mlp import GatedMLPSpec
from workbench.model.moe import MixtureOfExpertsSpec
from workbench.model.norms import RMSNormSpec
from workbench.model.rotary import RotarySpec
from workbench.model.router import RouterSpec

VOCAB = 8192
WIDE = {
    **dict.fromkeys(("hidden_size", "n_embd", "word_embed_proj_dim"), 256),
    **dict.fromkeys(("num_attention_heads", "n_head", "num_heads"), 8),
    **dict.fromkeys(("head_dim", "v_head_dim", "qk_nope_head_dim", "query_pre_attn_scalar"), 32),
    **dict.fromkeys(("max_position_embeddings", "n_positions"), 512),
    **dict.fromkeys(("sliding_window", "window_size"), 64),
    **dict.fromkeys(("intermediate_size", "ffn_dim"), 1024),
    **dict.fromkeys(("kv_lora_rank", "q_lora_rank"), 64),
    **dict.fromkeys(("num_local_experts", "num_experts", "n_routed_experts"), 12),
    "qk_rope_head_dim": 16,
    "moe_intermediate_size": 256,
    "vocab_size": VOCAB,
    "original_max_position_embeddings": 256,
}


def some_tokens() -> torch.Tensor:
    return torch.randint(0, VOCAB, (2, 128), generator=torch.Generator().manual_seed(0))


def forward(model_type: str, rounds: int) -> Row:
    theirs = small_model(model_type, **WIDE)
    with tempfile.TemporaryDirectory() as folder:
        theirs.save_pretrained(folder)
        ours, tokens = wb.load(folder), some_tokens()
        return compare(
            f"{model_type}: forward, 2 x 128",
            "transformers, eager",
            lambda: ours(tokens),
            lambda: theirs(tokens, use_cache=False),
            1.15,
            rounds,
        )


def of_experts(n_experts: int, d_mlp: int) -> wb.HookedTransformer:
    """A model whose feed-forwards are mixtures, two experts to a token."""
    mlp = MixtureOfExpertsSpec(RouterSpec(n_experts, 2), GatedMLPSpec(d_mlp))
    attn = AttentionSpec(8, 8, 32, rotary=RotarySpec())
    layer = PreNorm(attn, mlp, RMSNormSpec(), RMSNormSpec())
    embed, unembed = TokenEmbeddingSpec(VOCAB), UnembeddingSpec(VOCAB)
    spec = wb.ModelSpec(256, 512, embed, None, (layer,) * 4, RMSNormSpec(), unembed)
    return wb.HookedTransformer(spec).requires_grad_(False)


def experts(rounds: int, d_mlp: int) -> Row:
    many, few, tokens = of_experts(64, d_mlp), of_experts(8, d_mlp), some_tokens()
    return compare(
        f"64 experts of {d_mlp}, top 2, 2 x 128",
        "our own of 8",
        lambda: many(tokens),
        lambda: few(tokens),
        1.5,
        rounds,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", choices=[*supported(), "experts"], action="append")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    with torch.no_grad():
        report(list(rows(arguments.only or [*supported(), "experts"], arguments.rounds)), arguments.json)


def rows(names: list[str], rounds: int) -> Iterator[Row]:
    for name in names:
        if name == "experts":
            yield from (experts(rounds, d_mlp) for d_mlp in (128, 256))
        else:
            yield forward(name, rounds)


if __name__ == "__main__":
    main()
