"""Every family against transformers on small models with power, and the power itself: perturbing any tensor or any
value of the config, alone, must be felt as it is there.

The configs are those in `cases`; what is done to them is generated.
"""

import copy
import json
from collections.abc import Iterator

import pytest
import torch
from cases import ALL, WITHOUT
from knobs import changed, knobs, read_by_family
from parity import EAGER, N_CTX, TOLERANCE, VOCAB, Parity, parity, tiny
from random_models import close
from transformers import AutoModelForCausalLM

import workbench as wb

cases = pytest.mark.parametrize("config", ALL.values(), ids=ALL.keys())


def test_every_family_has_its_cases():
    assert not WITHOUT


@cases
@pytest.mark.parametrize("side", ["left", "right"])
def test_logits_and_attention_are_those_of_transformers(config, side):
    theirs = tiny(config)
    errors = parity(wb.from_huggingface(theirs), theirs, side)
    assert errors.holds, errors


@cases
def test_attention_is_sharp(config):
    """Without this, parity would say little."""
    theirs = tiny(config)
    weights = theirs(torch.arange(17)[None], output_attentions=True, use_cache=False).attentions
    uniform = (1 / torch.arange(1, 18)).mean()
    assert sum(layer.amax(-1).mean() for layer in weights) > 1.2 * uniform * len(weights)


@cases
def test_a_folder_gives_the_same_model(config, tmp_path):
    theirs = tiny(config)
    theirs.save_pretrained(tmp_path)
    assert parity(wb.load(tmp_path), theirs).holds
    theirs.save_pretrained(tmp_path / "sharded", max_shard_size="10KB")
    assert len(list((tmp_path / "sharded").glob("*.safetensors"))) > 1
    assert parity(wb.load(tmp_path / "sharded"), theirs).holds


@cases
def test_a_bare_backbone_in_memory_is_refused_or_the_same(config):
    """The tensors of a model without its head have no prefix; a head that is missing is named."""
    theirs = tiny(config)
    if config.tie_word_embeddings and theirs.get_output_embeddings().bias is None:
        assert parity(wb.from_huggingface(theirs.base_model), theirs).holds
    else:
        with pytest.raises(wb.errors.LoadError, match=r"lm_head|embed_out"):
            wb.from_huggingface(theirs.base_model)


@cases
def test_the_users_model_is_left_untouched(config):
    theirs = tiny(config)
    before = copy.deepcopy(theirs.state_dict())
    ours = wb.from_huggingface(theirs)
    for parameter in ours.parameters():
        parameter.zero_()
    assert all(torch.equal(before[name], tensor) for name, tensor in theirs.state_dict().items())
    assert not theirs.training
    assert all(parameter.requires_grad for parameter in theirs.parameters())


@cases
def test_the_stream_is_its_writes_and_every_site_matters(config):
    model = wb.from_huggingface(tiny(config))
    tokens, fired = torch.arange(9)[None] % VOCAB, []
    logits, cache = model.run_with_cache(tokens, hooks=[(lambda name: True, lambda v, at: fired.append(at.name))])
    assert fired == model.sites.names
    if all(block.adds for block in model.blocks):
        total = cache.decompose_resid().sum(0)
        assert close(total, cache["resid_post", -1], 1e-5)
    for site in model.sites:

        def disturb(value, at):
            value[:, :1] += 2 * torch.rand(value[:, :1].shape, generator=torch.Generator().manual_seed(1))
            return value.flip(-1) if at.axes[-1] != "1" and "key" not in at.axes else value

        assert not torch.equal(model.run_with_hooks(tokens, [(site.name, disturb)]), logits), site.name


@cases
def test_every_tensor_matters(config):
    theirs = tiny(config)
    ours = wb.from_huggingface(theirs)
    for name, tensor in theirs.state_dict().items():
        kept = tensor.detach().clone()
        tensor.add_(0.05 * torch.randn(tensor.shape, generator=torch.Generator().manual_seed(1)))
        # A bias of all keys moves every score of a query alike, so that softmax does not see it, unless keys turn.
        if not (name.endswith("k_proj.bias") and not any("rot_k" in site.name for site in ours.sites)):
            assert not parity(ours, theirs).holds, name
        tensor.copy_(kept)
    assert parity(ours, theirs).holds


@cases
def test_every_value_of_the_config_acts_as_it_does_in_transformers(config, tmp_path):
    """The tensors stay and one value changes: ours must follow transformers, or refuse."""
    theirs = tiny(config)
    theirs.save_pretrained(tmp_path)
    tokens = torch.randint(0, VOCAB, (2, 12), generator=torch.Generator().manual_seed(3))
    before, felt = logits_of(theirs, tokens), set()
    for path, value in knobs(config):
        wanted = logits_with(config, path, value, theirs, tokens)
        try:
            (tmp_path / "config.json").write_text(json.dumps(changed(written(config), path, value)))
            came = wb.load(tmp_path)(tokens)[0]
        except wb.errors.WorkbenchError:
            felt.add(path[0])
            continue
        if wanted is None and type(value) is int:  # for transformers 3 is no number where 3.0 is
            wanted = logits_with(config, path, float(value), theirs, tokens)
        if wanted is None:  # transformers refuses: then it may change nothing here
            assert close(came, before, TOLERANCE), f"{path} = {value!r} is taken, and transformers refuses it"
            continue
        assert close(came, wanted, TOLERANCE), f"{path} = {value!r}"
        if not close(came, before, 10 * TOLERANCE):
            felt.add(path[0])
    unfelt = read_by_family(config) - felt
    assert not unfelt, f"{sorted(unfelt)} are read, and changing them changes nothing"


def written(config) -> dict:
    return json.loads(config.to_json_string(use_diff=False))


def logits_of(model, tokens) -> torch.Tensor:
    with torch.no_grad():
        return model(tokens, use_cache=False).logits


def logits_with(config, path, value, theirs, tokens) -> torch.Tensor | None:
    """What transformers makes of the changed config with the same tensors; None where it refuses."""
    try:
        other = type(config)(**changed(written(config), path, value))
        model = AutoModelForCausalLM.from_config(other, **EAGER).eval()
        model.load_state_dict(theirs.state_dict())
        logits = logits_of(model, tokens)
    except Exception:
        return None
    return logits if logits.isfinite().all() else None


@cases
def test_a_key_that_could_change_the_mathematics_is_refused_by_name(config, tmp_path):
    tiny(config).save_pretrained(tmp_path)
    values = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(values | {"a_key_of_tomorrow": 30.0}))
    with pytest.raises(wb.errors.FamilyError, match="a_key_of_tomorrow"):
        wb.load(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(values | {"a_key_of_tomorrow": None}))
    wb.load(tmp_path)


@cases
def test_a_tensor_of_another_name_or_shape_is_named(config, tmp_path):
    source = wb.formats.huggingface.StateDict(tiny(config).state_dict(), "the file")
    values = written(config)
    for name in list(source.names()):
        for broken in broken_files(source, name):
            with pytest.raises(wb.errors.LoadError) as caught:
                wb.formats.published.read_published(values, broken, None, torch.device("cpu"))
            assert name.split(".")[-2] in str(caught.value) or "wrong_name" in str(caught.value)


def broken_files(source, name: str) -> Iterator:
    tensors = {other: source.tensor(other) for other in source.names()}
    renamed = {("wrong_name" if other == name else other): tensor for other, tensor in tensors.items()}
    longer = tensors | {name: torch.cat([tensors[name], tensors[name][:1]])}
    for broken in (renamed, longer, tensors | {"wrong_name": tensors[name]}):
        yield wb.formats.huggingface.StateDict(broken, "the file")


@cases
def test_bfloat16_errs_no_more_than_transformers(config):
    """The mean error against float32, over 2,400 positions."""
    exact = tiny(config)
    rounded = tiny(config).to(torch.bfloat16)
    exact.load_state_dict({name: tensor.float() for name, tensor in rounded.state_dict().items()})
    ours = wb.from_huggingface(rounded)
    tokens = torch.randint(0, VOCAB, (2400 // N_CTX, N_CTX), generator=torch.Generator().manual_seed(0))
    tokens = tokens[:, : config.max_position_embeddings] if hasattr(config, "max_position_embeddings") else tokens
    wanted = logits_of(exact, tokens)
    error = [(logits.float() - wanted).abs().mean() for logits in (ours(tokens)[0], logits_of(rounded, tokens))]
    assert ours(tokens)[0].dtype == torch.bfloat16
    assert error[0] <= 1.1 * error[1], error


def test_parity_is_of_both():
    assert not Parity(1.0, 0.0).holds
    assert not Parity(0.0, 1.0).holds
