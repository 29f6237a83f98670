"""A real pretrained model from GGUF, against transformers' own dequantisation of the same file."""

import pytest
import torch
from transformers import AutoModelForCausalLM

import workbench as wb
from workbench.cli.demo import CLEAN as IOI_CLEAN
from workbench.cli.demo import CORRUPTED as IOI_CORRUPTED
from workbench.pretrained import fetch

TEXTS = [
    IOI_CLEAN,
    "  two spaces before, and one after ",
    "def f(x):\n\treturn x ** 2  # square\n\n\nprint(f(3))",
    "naïve café, Zürich, Σωκράτης, 東京, 🙂👍🏽",
    "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n",
    "It's 1234567 o'clock; we'll see, won't we?",
]


@pytest.fixture(scope="module")
def theirs():
    path = fetch("smollm2-135m")
    loaded = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, attn_implementation="eager")
    return loaded.eval()


@pytest.mark.parametrize("text", TEXTS)
def test_logits_and_attention(smollm, theirs, text):
    tokens = smollm.to_tokens(text)
    logits, attention = smollm(tokens)
    with torch.no_grad():
        wanted = theirs(tokens, output_attentions=True)
    assert (logits - wanted.logits).abs().max() <= 2e-4
    for ours, layer in zip(attention, wanted.attentions, strict=True):
        assert (ours - layer).abs().max() <= 1e-5


def test_it_solves_the_task(smollm):
    metric = wb.logit_diff(smollm.to_single_token(" Mary"), smollm.to_single_token(" John"))
    logits, _ = smollm([IOI_CLEAN, IOI_CORRUPTED])
    clean, corrupted = metric(logits).tolist()
    assert clean == pytest.approx(6.12, abs=0.01)
    assert corrupted == pytest.approx(-5.49, abs=0.01)
    assert smollm.to_string(logits[0, -1].argmax()) == " Mary"


def test_its_numbers(smollm):
    spec = smollm.spec
    assert (spec.n_layers, spec.d_model, spec.n_heads, spec.n_kv_heads, spec.d_head) == (30, 576, 9, 3, 64)
    assert (spec.d_mlp, spec.vocab_size, spec.n_ctx, spec.n_params) == (1536, 49152, 8192, 134_515_008)
    assert smollm.W_Q.shape == (30, 9, 576, 64)
    assert smollm.W_K.shape == (30, 3, 576, 64)
    assert smollm.W_O.shape == (30, 9, 64, 576)
    assert smollm.W_in.shape == smollm.W_gate.shape == (30, 576, 1536)
    assert smollm.W_out.shape == (30, 1536, 576)
    assert smollm.W_U.shape == (576, 49152)
    assert torch.equal(smollm.W_U, smollm.W_E.T)
    assert smollm.b_O.shape == (30, 576)


def test_the_stream_of_a_real_model_sums_in_spite_of_its_size(smollm):
    _, cache = smollm.run_with_cache(IOI_CLEAN)
    stream = cache["resid_post", -1]
    assert cache["resid_post", 20].abs().max() > 10_000
    error = (cache.decompose_resid().sum(0) - stream).abs().max()
    assert error <= 1e-5 * torch.stack([cache["resid_post", layer] for layer in range(30)]).abs().max()


def test_head_weights_are_views_that_make_the_cached_values(smollm):
    _, cache = smollm.run_with_cache(IOI_CLEAN)
    attn = smollm.blocks[5].attn
    assert attn.W_Q.data_ptr() == attn.q.weight.data_ptr()
    q = torch.einsum("bpm,hmd->bphd", cache["ln1.out", 5], attn.W_Q)
    assert torch.allclose(q, cache["q", 5], atol=1e-3)
    out = torch.einsum("bphd,hdm->bpm", cache["z", 5], attn.W_O)
    assert torch.allclose(out, cache["attn_out", 5], atol=1e-3)
