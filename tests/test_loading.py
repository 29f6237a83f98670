"""Loading: what is refused, in which words, and that nothing is half-written or half-read."""

import json
import os
import pickle

import pytest
import torch
from cases import ALL
from parity import tiny
from random_models import powered, some_tokens
from safetensors.torch import load_file, save_file

import workbench as wb
from workbench.errors import FamilyError, FetchError, InputError, KindError, LoadError, MissingError, TooLargeError

LLAMA = "llama: grouped, untied"


@pytest.fixture
def folder(tmp_path):
    tiny(ALL[LLAMA]).save_pretrained(tmp_path)
    return tmp_path


def rewrite(folder, change):
    path = folder / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path)


def configure(folder, **keys):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | keys))


def test_what_is_not_there(tmp_path):
    with pytest.raises(MissingError, match="smollm2-135m"):
        wb.load("smollm2-135")
    with pytest.raises(MissingError, match="no file, folder or model"):
        wb.load(tmp_path / "nothing.gguf")
    with pytest.raises(MissingError, match=r"has no config\.json"):
        wb.load(tmp_path)
    (tmp_path / "note.txt").write_text("hello")
    with pytest.raises(LoadError, match="unknown kind"):
        wb.load(tmp_path / "note.txt")
    with pytest.raises(KindError, match="from_huggingface"):
        wb.load(tiny(ALL[LLAMA]))
    with pytest.raises(KindError, match="transformers model"):
        wb.from_huggingface(tmp_path)


@pytest.mark.parametrize("dtype", ["float32", torch.int32, 1])
def test_a_dtype_that_is_none(folder, dtype):
    with pytest.raises(KindError, match="dtype"):
        wb.load(folder, dtype=dtype)


@pytest.mark.parametrize("device", ["nosuch", "cuda:99", 1.5])
def test_a_device_that_is_not_there(folder, device):
    with pytest.raises(InputError, match="device"):
        wb.load(folder, device=device)


def test_no_name_at_all():
    with pytest.raises(MissingError):
        wb.load("")


def test_a_hub_that_cannot_be_reached_is_one_sentence(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(FetchError, match="'nobody/no-model' is no folder here"):
        wb.load("nobody/no-model")


@pytest.mark.parametrize("model_type", ["bert", None, "../llama", "llama.spec", "_config", ["llama"]])
def test_an_unsupported_family_lists_the_supported(folder, model_type):
    configure(folder, model_type=model_type)
    with pytest.raises(FamilyError, match="llama"):
        wb.load(folder)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hidden_size", "24"),
        ("hidden_size", -3),
        ("hidden_size", 2.5),
        ("num_hidden_layers", True),
        ("rms_norm_eps", "small"),
        ("tie_word_embeddings", 1),
        ("hidden_act", "quick_gelu"),
        ("rope_parameters", {"rope_type": "yarn", "rope_theta": 1e4}),
        ("num_key_value_heads", 4),
        ("head_dim", 3),
    ],
)
def test_a_config_that_cannot_be_meant_names_the_key(folder, key, value):
    configure(folder, **{key: value})
    with pytest.raises(wb.errors.WorkbenchError) as caught:
        wb.load(folder)
    named = {"num_key_value_heads": "n_kv_heads", "head_dim": "d_head"}.get(key, key)
    assert key in str(caught.value) or named in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[1]", "\x00\xff"])
def test_a_broken_config(folder, text):
    (folder / "config.json").write_text(text)
    with pytest.raises(LoadError, match=r"config\.json"):
        wb.load(folder)


def test_tensors_missing_left_over_or_misshapen(folder):
    name = "model.layers.1.mlp.up_proj.weight"
    whole = load_file(folder / "model.safetensors")
    rewrite(folder, lambda tensors: tensors.pop(name))
    with pytest.raises(LoadError, match=f"lacks the tensor '{name}'"):
        wb.load(folder)
    save_file(whole | {"model.layers.1.mlp.extra": torch.zeros(2)}, folder / "model.safetensors")
    with pytest.raises(LoadError, match=r"no use for, first 'model\.layers\.1\.mlp\.extra'"):
        wb.load(folder)
    save_file(whole | {name: torch.zeros(3, 24)}, folder / "model.safetensors")
    with pytest.raises(LoadError, match=r"up_proj\.weight' of shape \[3, 24\]"):
        wb.load(folder)
    save_file(whole | {name: whole[name].to(torch.int8)}, folder / "model.safetensors")
    with pytest.raises(LoadError, match="I8"):
        wb.load(folder)


def test_a_tied_copy_that_differs_is_refused(tmp_path):
    theirs = tiny(ALL["gpt2: tied"])
    theirs.save_pretrained(tmp_path)
    embedding = theirs.transformer.wte.weight.detach()
    rewrite(tmp_path, lambda tensors: tensors.update({"lm_head.weight": embedding.clone()}))
    wb.load(tmp_path)
    rewrite(tmp_path, lambda tensors: tensors.update({"lm_head.weight": embedding + 1}))
    with pytest.raises(LoadError, match="different from its embedding"):
        wb.load(tmp_path)


def test_old_buffers_and_a_bare_backbone_load(tmp_path):
    theirs = tiny(ALL["gpt2: tied"])
    theirs.transformer.save_pretrained(tmp_path)
    rewrite(tmp_path, lambda tensors: tensors.update({"h.0.attn.bias": torch.ones(1, 1, 40, 40)}))
    ours = wb.load(tmp_path)
    assert torch.allclose(ours(torch.arange(9))[0], theirs(torch.arange(9)[None]).logits, atol=1e-4)


@pytest.mark.parametrize("share", [0.0, 0.0001, 0.3, 0.99, 0.99999])
def test_a_half_downloaded_file(folder, share):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(LoadError, match=r"model\.safetensors"):
        wb.load(folder)


def test_shards(folder, tmp_path):
    tiny(ALL[LLAMA]).save_pretrained(tmp_path / "s", max_shard_size="10KB")
    shards = sorted((tmp_path / "s").glob("*.safetensors"))
    held = shards[1].read_bytes()
    shards[1].unlink()
    with pytest.raises(MissingError, match=shards[1].name):
        wb.load(tmp_path / "s")
    shards[1].write_bytes(held)
    index = tmp_path / "s" / "model.safetensors.index.json"
    written = json.loads(index.read_text())
    name = min(written["weight_map"])
    other = next(shard for shard in shards if shard.name != written["weight_map"][name])
    right = wb.load(tmp_path / "s")(torch.arange(9))[0]
    save_file(load_file(other) | {name: torch.zeros(53, 24)}, other)
    assert torch.equal(wb.load(tmp_path / "s")(torch.arange(9))[0], right)  # the index says which copy counts
    index.write_text(json.dumps({"weight_map": written["weight_map"] | {name: "../../etc/passwd"}}))
    with pytest.raises(LoadError, match="outside its folder"):
        wb.load(tmp_path / "s")
    index.write_text(json.dumps({"weight_map": written["weight_map"] | {"model.more": shards[0].name}}))
    with pytest.raises(LoadError, match=r"model\.more"):
        wb.load(tmp_path / "s")


class Trap:
    def __reduce__(self):
        return os.mkdir, ("unpickled",)


def test_nothing_is_unpickled(folder, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Trap()))
    with pytest.raises(LoadError, match="pickled"):
        wb.load(folder)
    assert not (folder / "unpickled").exists()


def test_a_model_larger_than_memory_is_refused_before_anything_is_read(folder, monkeypatch):
    monkeypatch.setattr("workbench.formats.published.free_memory", lambda device: 1000)
    wb.load(folder)  # memory-mapped in the file's own dtype
    with pytest.raises(TooLargeError, match="1000 bytes are free"):
        wb.load(folder, dtype=torch.bfloat16)
    spec = wb.load(folder).spec
    monkeypatch.setattr("workbench.hooked.free_memory", lambda device: 1000)
    with pytest.raises(TooLargeError, match="1000 bytes are free"):
        wb.HookedTransformer(spec)


def test_dtypes(folder):
    assert wb.load(folder, dtype=torch.bfloat16).dtype == torch.bfloat16
    half = tiny(ALL[LLAMA], dtype=torch.float16)
    half.save_pretrained(folder)
    assert wb.load(folder).dtype == torch.float32
    assert wb.load(folder, dtype=None).dtype == torch.float16
    assert wb.from_huggingface(half).dtype == torch.float16


def test_loaded_weights_are_frozen_and_fresh_ones_train(folder):
    loaded = wb.load(folder)
    assert not any(parameter.requires_grad for parameter in loaded.parameters())
    assert not loaded.training
    assert not loaded(torch.arange(5))[0].requires_grad
    fresh = wb.HookedTransformer(loaded.spec)
    logits, attention = fresh(torch.arange(5))
    logits.logsumexp(-1).sum().backward()
    assert all(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in fresh.parameters())
    assert attention[0].requires_grad


def test_memory_does_not_depend_on_the_context(folder):
    configure(folder, max_position_embeddings=2**40)
    model = wb.load(folder)
    assert model.spec.n_ctx == 2**40
    model(torch.arange(5))


def test_training_a_loaded_model_leaves_its_file(folder):
    before = (folder / "model.safetensors").read_bytes()
    model = wb.load(folder).requires_grad_(True)
    model(torch.arange(5))[0].sum().backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    assert (folder / "model.safetensors").read_bytes() == before


def test_a_checkpoint_replaces_one_and_overwrites_nothing_else(folder, tmp_path):
    model = powered(wb.load(folder).spec)
    model.save(tmp_path / "saved")
    model.blocks[0].attn.q.weight.data.zero_()
    model.save(tmp_path / "saved")
    assert (wb.load(tmp_path / "saved").blocks[0].attn.q.weight == 0).all()
    assert sorted(os.listdir(tmp_path / "saved")) == ["model.safetensors", "workbench.json"]
    with pytest.raises(LoadError, match="not overwritten"):
        model.save(folder)


def test_a_save_that_fails_leaves_what_was_there(folder, tmp_path, monkeypatch):
    model = wb.load(folder)
    model.save(tmp_path / "saved")
    before = sorted(os.listdir(tmp_path))

    def full(*arguments):
        raise OSError("no space left")

    monkeypatch.setattr("workbench.formats.checkpoint.save_file", full)
    with pytest.raises(OSError, match="no space"):
        model.save(tmp_path / "saved")
    assert sorted(os.listdir(tmp_path)) == before
    assert torch.equal(wb.load(tmp_path / "saved")(torch.arange(4))[0], model(torch.arange(4))[0])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: d.update(format=9), "format 9"),
        (lambda d: d.pop("spec"), "no valid spec"),
        (lambda d: d["spec"].update(d_model="8"), r"ModelSpec\.d_model"),
        (lambda d: d["spec"].update(d_modle=8), "nearest are: d_model"),
        (lambda d: d["spec"]["embed"].update(kind="os.system"), "os.system"),
        (lambda d: d["spec"]["embed"].update(kind="attention.Attention"), "attention.Attention"),
        (lambda d: d["spec"]["embed"].update(kind=5), "kind is 5"),
        (lambda d: d["spec"]["layers"][0].update(repeat=-1), "repeat"),
        (lambda d: d["spec"]["layers"][0].update(repeat=2), "unknown tensor|lacks"),
        (lambda d: d["spec"]["embed"].update(vocab_size=54), "shape"),
    ],
)
def test_a_checkpoint_that_was_tampered_with(folder, tmp_path, change, says):
    wb.load(folder).save(tmp_path / "saved")
    path = tmp_path / "saved" / "workbench.json"
    described = json.loads(path.read_text())
    change(described)
    path.write_text(json.dumps(described))
    with pytest.raises(LoadError, match=says):
        wb.load(tmp_path / "saved")


def test_a_tokenizer_travels_with_the_checkpoint(smollm, tmp_path):
    small = powered(wb.load(_tiny_with_vocab(tmp_path / "hf", smollm.spec.vocab_size)).spec)
    small.tokenizer = smollm.tokenizer
    small.save(tmp_path / "saved")
    again = wb.load(tmp_path / "saved")
    text = " Mary's café <|im_start|>\n\t x"
    assert torch.equal(again.to_tokens(text), smollm.to_tokens(text))
    assert torch.equal(again(text)[0], small(text)[0])


def _tiny_with_vocab(folder, vocab_size):
    config = ALL[LLAMA].__class__(**ALL[LLAMA].to_dict() | {"vocab_size": vocab_size})
    tiny(config).save_pretrained(folder)
    return folder


def test_seeds_decide_fresh_weights(folder):
    spec = wb.load(folder).spec
    first, same, other = (wb.HookedTransformer(spec, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(first(some_tokens())[0], same(some_tokens())[0])
    assert not torch.equal(first(some_tokens())[0], other(some_tokens())[0])


def test_initialisation_is_that_of_gpt2():
    spec = wb.ModelSpec.preset("kamui-small")
    model = wb.HookedTransformer(spec)
    for name, parameter in model.named_parameters():
        if parameter.ndim == 2:
            residual = name.endswith(("attn.o.weight", "mlp.out.weight"))
            std = 0.02 / (2 * spec.n_layers) ** 0.5 if residual else 0.02
            assert abs(parameter.std().item() / std - 1) < 0.02, name
        else:
            wanted = (
                1.0 if name.startswith(("ln_final.weight",)) or name.endswith(("ln1.weight", "ln2.weight")) else 0.0
            )
            assert (parameter == wanted).all(), name


def test_presets_have_the_numbers_of_their_texts():
    small = wb.ModelSpec.preset("kamui-small")
    assert (small.n_layers, small.d_model, small.n_heads, small.d_head, small.d_mlp) == (6, 256, 8, 32, 1024)
    assert (small.vocab_size, small.n_ctx) == (8192, 256)
    # The text says "~12M"; its own numbers, tied, give this: 8192 * 256 + 256 * 256 of embeddings, then per layer
    # 4 * (256 * 256 + 256) of attention, 2 * 256 * 1024 + 1024 + 256 of feed-forward and 4 * 256 of norms; 512 at last.
    layer = 4 * (256 * 256 + 256) + 2 * 256 * 1024 + 1024 + 256 + 4 * 256
    assert small.n_params == 8192 * 256 + 256 * 256 + 6 * layer + 512 == 6_901_760
    assert small.n_active_params == small.n_params
    with pytest.raises(MissingError, match="kamui-small"):
        wb.ModelSpec.preset("kamui-smal")
