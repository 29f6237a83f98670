"""Models whose weights are set by hand and whose answers are known."""

import torch

import workbench as wb
from workbench.model.attention import AttentionSpec
from workbench.model.block import PreNorm
from workbench.model.embedding import TokenEmbeddingSpec, UnembeddingSpec
from workbench.model.mlp import MLPSpec
from workbench.model.norms import RMSNormSpec
from workbench.model.positions import LearnedPositionsSpec


def test_one_head_on_paper():
    """One layer of width 2, one head of width 1, no final norm, no positions.

    Embeddings: token 0 = (1, 0), token 1 = (0, 1), token 2 = (3, 4). RMSNorm with gain 1 divides by the root mean
    square: (1, 0) becomes (s, 0) with s = sqrt 2, (0, 1) becomes (0, s), and (3, 4), whose root mean square is
    5 / sqrt 2, becomes (3, 4) s / 5.
    q = k = first coordinate, v = second coordinate, the output goes to the first coordinate. No feed-forward (zeros).

    Text 0 1 2. The last query is q = 0.6 s. Keys: s, 0, 0.6 s. Scores 0.6 s^2 = 1.2, 0, 0.36 s^2 = 0.72.
    Values: 0, s, 0.8 s. So z = (e^0 s + e^0.72 0.8 s) / (e^1.2 + e^0 + e^0.72).
    """
    norm = RMSNormSpec(eps=0.0)
    layer = PreNorm(AttentionSpec(1, 1, 1), MLPSpec(1, "relu", bias=False), norm, norm)
    spec = wb.ModelSpec(2, 3, TokenEmbeddingSpec(3), None, (layer,), None, UnembeddingSpec(2))
    one, zero = torch.ones(2), torch.zeros
    tensors = {
        "embedding.weight": torch.tensor([[1.0, 0.0], [0.0, 1.0], [3.0, 4.0]]),
        "blocks.0.ln1.weight": one,
        "blocks.0.ln2.weight": one,
        "blocks.0.attn.q.weight": torch.tensor([[1.0, 0.0]]),
        "blocks.0.attn.k.weight": torch.tensor([[1.0, 0.0]]),
        "blocks.0.attn.v.weight": torch.tensor([[0.0, 1.0]]),
        "blocks.0.attn.o.weight": torch.tensor([[1.0], [0.0]]),
        "blocks.0.mlp.in_.weight": zero(1, 2),
        "blocks.0.mlp.out.weight": zero(2, 1),
        "unembedding.weight": torch.eye(2),
    }
    model = wb.HookedTransformer(spec, tensors=tensors)
    logits, attention = model(torch.tensor([0, 1, 2]))
    e = torch.tensor([1.2, 0.0, 0.72]).exp()
    z = (e[1] + 0.8 * e[2]) * 2**0.5 / e.sum()
    assert torch.allclose(attention[0][0, 0, 2], e / e.sum(), atol=1e-6)
    assert torch.allclose(logits[0, 2], torch.tensor([3.0 + z, 4.0]), atol=1e-6)
    assert torch.allclose(logits[0, 0], torch.tensor([1.0, 0.0]), atol=1e-6)


def test_an_induction_head_set_by_hand():
    """Two layers without norms and with feed-forward at 0. The stream holds four one-hot registers: this token, this
    position, the token before (written by layer 0), the guess (written by layer 1).

    Layer 0's head looks from position p to p - 1 and copies the token there into the register of the token before.
    Layer 1's head looks for positions whose token before is this token, and copies the token there into the guess
    (Elhage et al. 2021; Olsson et al. 2022). On "start A B C A" the guess is B.
    """
    n, n_ctx, sharp = 6, 6, 40.0
    token, position, before, guess = (slice(i * n, (i + 1) * n) for i in range(4))
    width, eye = 4 * n, torch.eye(n)

    def reading(register: slice, matrix: torch.Tensor = eye) -> torch.Tensor:
        weight = torch.zeros(n, width)
        weight[:, register] = matrix
        return weight

    layer = PreNorm(AttentionSpec(1, 1, n, scale=sharp), MLPSpec(1, "relu", bias=False), None, None)
    spec = wb.ModelSpec(
        width, n_ctx, TokenEmbeddingSpec(n), LearnedPositionsSpec(n_ctx), (layer,) * 2, None, UnembeddingSpec(n)
    )
    previous = torch.diag(torch.ones(n - 1), 1)  # the one-hot of p to that of p - 1
    tensors = {
        "embedding.weight": reading(token),
        "pos_embedding.weight": reading(position),
        "blocks.0.attn.q.weight": reading(position, previous),
        "blocks.0.attn.k.weight": reading(position),
        "blocks.0.attn.v.weight": reading(token),
        "blocks.0.attn.o.weight": reading(before).T,
        "blocks.1.attn.q.weight": reading(token),
        "blocks.1.attn.k.weight": reading(before),
        "blocks.1.attn.v.weight": reading(token),
        "blocks.1.attn.o.weight": reading(guess).T,
        "unembedding.weight": reading(guess),
    }
    for index in range(2):
        tensors[f"blocks.{index}.mlp.in_.weight"] = torch.zeros(1, width)
        tensors[f"blocks.{index}.mlp.out.weight"] = torch.zeros(width, 1)
    model = wb.HookedTransformer(spec, tensors=tensors)
    text, other = torch.tensor([0, 3, 1, 4, 3]), torch.tensor([0, 3, 5, 4, 3])
    logits, attention = model(text)
    assert torch.allclose(logits[0, -1], eye[1], atol=1e-6)
    assert torch.allclose(attention[0][0, 0].diagonal(-1), torch.ones(4), atol=1e-6)
    assert attention[1][0, 0, 4, 2] > 0.999

    # The answer lies at B's position until layer 1 moves it to the end; layer 1's head is what moves it.
    stream = wb.activation_patching(model, text, other, wb.logit(1), progress=False)
    assert torch.allclose(stream.effect, torch.tensor([[0.0, 0, 1, 0, 0], [0, 0, 1, 0, 0]]), atol=1e-4)
    assert stream.unchanged[0].tolist() == [True, True, False, True, True]
    heads = wb.activation_patching(model, text, other, wb.logit(1), site="z", progress=False)
    assert torch.allclose(heads.effect, torch.tensor([[0.0], [1.0]]), atol=1e-4)
