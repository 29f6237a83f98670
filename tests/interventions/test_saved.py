"""Interventions in files: what is read back does the same, and nothing else is read."""

import json

import pytest
import torch
from random_models import powered, some_tokens
from safetensors.torch import save_file
from test_cache import plain_spec

import workbench as wb

errors = wb.errors
TOKENS = some_tokens(2, 5)


@pytest.fixture(scope="module")
def model():
    return powered(plain_spec())


@pytest.fixture(scope="module")
def every(model):
    """One of each kind."""
    _, cache = model.run_with_cache(some_tokens(2, 5, seed=3))
    direction = torch.arange(1.0, 1 + model.spec.d_model)
    return [
        wb.zero(("z", 0), heads=[1, 0], positions=torch.tensor([0, 3])),
        wb.patch(cache, "attn_out", layers=1, positions=-1),
        wb.freeze(cache, ("pattern", 2)),
        wb.mean(cache, "blocks.*.hook_mlp_out", layers=range(2)),
        wb.mean(cache, "q", layers=2, per_position=False, skip_first=True),
        wb.resample(cache, model.sites.one(("v", 0)), seed=3),
        wb.steer("resid_mid", direction, -0.1, layers=0),
        wb.project_out("resid_post", torch.stack([direction, direction.flip(0)]), layers=1),
        wb.scale("post", 0.3, layers=2, neurons=[0, 5]),
    ]


def test_what_is_read_back_does_the_same(model, every, tmp_path):
    path = tmp_path / "changes.safetensors"
    wb.save_interventions(path, every)
    again = wb.load_interventions(path)
    assert [type(change) for change in again] == [type(change) for change in every]
    assert torch.equal(model(TOKENS, hooks=again)[0], model(TOKENS, hooks=every)[0])
    for ours, theirs in zip(every, again, strict=True):
        alone = model(TOKENS, hooks=[theirs])[0]
        assert torch.equal(alone, model(TOKENS, hooks=[ours])[0])
        assert not torch.equal(alone, model(TOKENS)[0])
    wb.save_interventions(path, [])
    assert wb.load_interventions(path) == []


def test_of_a_cache_only_what_is_changed_is_kept(model, tmp_path):
    _, cache = model.run_with_cache(TOKENS)
    path = tmp_path / "changes.safetensors"
    wb.save_interventions(path, [wb.patch(cache, "z", layers=1)])
    assert path.stat().st_size < cache.n_bytes / 4
    assert set(wb.load_interventions(path)[0].cache) == {"blocks.1.attn.hook_z"}
    wb.save_interventions(path, [wb.patch(cache, "z", layers=-1), wb.patch(cache, "z")])
    last, every = wb.load_interventions(path)
    assert "blocks.2.attn.hook_z" in last.cache
    assert set(every.cache) == {site.name for site in model.sites.select("z")}
    with pytest.raises(errors.KindError, match="a list of interventions"):
        wb.save_interventions(path, wb.zero("z"))
    with pytest.raises(errors.KindError, match="not as a list"):
        wb.on_prompt([wb.zero("z")])


def test_what_cannot_be_saved(tmp_path):
    path = tmp_path / "changes.safetensors"
    for wrong in (("z", lambda value, at: None), wb.on_prompt(wb.zero("z")), "z"):
        with pytest.raises(errors.KindError, match="is none"):
            wb.save_interventions(path, [wb.zero("z"), wrong])
    with pytest.raises(errors.InterventionError, match="name its sites"):
        wb.save_interventions(path, [wb.zero(lambda name: "z" in name)])
    assert not path.exists()


def test_what_cannot_be_read(tmp_path, model):
    path = tmp_path / "changes.safetensors"
    with pytest.raises(errors.MissingError, match="no file"):
        wb.load_interventions(path)
    key = "workbench_interventions"
    some = {"t": torch.zeros(1)}
    for held in (
        {},
        {key: "["},
        {key: json.dumps([{"kind": "Intervention", "site": "z"}])},
        {key: json.dumps([{"kind": "ActivationCache", "site": "z"}])},
        {key: json.dumps([{"kind": "patch", "site": "z"}])},
        {key: json.dumps([{"kind": "Zero", "place": "z"}])},
        {key: json.dumps([{"kind": "Patch", "site": "z"}])},
        {key: json.dumps({"kind": "Zero"})},
        {key: json.dumps([{"kind": "Scale", "site": "z", "factor": "a"}])},
        {key: json.dumps([{"kind": "Zero", "site": "z", "layers": "a"}])},
    ):
        save_file(some, path, held)
        with pytest.raises(errors.LoadError, match=r"holds no saved interventions|not known here"):
            wb.load_interventions(path)
    path.write_bytes(b"\0" * 30)
    with pytest.raises(errors.LoadError):
        wb.load_interventions(path)
    model.run_with_cache(TOKENS, "z")[1].save(path)
    with pytest.raises(errors.LoadError):
        wb.load_interventions(path)
