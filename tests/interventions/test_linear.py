"""Steering, scaling and projecting out, against arithmetic on the recorded values."""

import pytest
import torch
from random_models import close, powered, some_tokens
from test_cache import plain_spec

import workbench as wb

errors = wb.errors


def test_a_direction_through_neurons_is_all_of_them():
    model = powered(plain_spec())
    direction = torch.ones(width(model, ("post", 0)))
    for change in (wb.steer("post", direction, neurons=[1, 2]), wb.project_out("post", direction, neurons=1)):
        with pytest.raises(errors.InterventionError, match="leave neurons out"):
            model(TOKENS, hooks=[change])
    ablated = {"site": "post", "kind": "project", "reference": direction, "progress": False}
    for chosen in ({}, {"neurons": [1, 2], "over": ("layer",)}):
        with pytest.raises(errors.InputError, match="runs through all of 'post'"):
            wb.ablate(model, TOKENS, wb.logit(1), **ablated, **chosen)
    r = wb.ablate(model, TOKENS, wb.logit(1), over=("layer",), **ablated)
    logits, _ = model(TOKENS, hooks=[wb.project_out("post", direction, layers=1)])
    assert close(r.values[:, 1], logits[:, -1, 1], 1e-4)
    for empty in (torch.zeros(0, 4), torch.zeros(0)):
        with pytest.raises(errors.InterventionError, match="empty"):
            wb.project_out("z", empty)


TOKENS = some_tokens(2)
DIRECTIONS = torch.randn(3, 24, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def model():
    return powered(plain_spec())


def edited(model, change, site):
    """What a site holds with and without a change."""
    return model.run_with_cache(TOKENS, site)[1][site], model.run_with_cache(TOKENS, site, hooks=[change])[1][site]


def width(model, site):
    return model.sites.one(site).sizes[-1]


def test_steering_adds_a_direction(model):
    direction = DIRECTIONS[0, : width(model, ("resid_pre", 1))]
    before, after = edited(model, wb.steer("resid_pre", direction, -2.5, layers=1, positions=[0, -1]), ("resid_pre", 1))
    wanted = before.clone()
    wanted[:, [0, -1]] -= 2.5 * direction
    assert close(after, wanted, 1e-6)
    direction = DIRECTIONS[0, : width(model, ("z", 2))]
    before, after = edited(model, wb.steer("z", direction, layers=2, heads=1), ("z", 2))
    wanted = before.clone()
    wanted[:, :, 1] += direction
    assert close(after, wanted, 1e-6)


def test_scaling_multiplies(model):
    before, after = edited(model, wb.scale("pattern", 0.5, layers=0, heads=[0, 2], positions=3), ("pattern", 0))
    wanted = before.clone()
    wanted[:, [0, 2], 3] *= 0.5
    assert close(after, wanted, 1e-6)


def test_what_is_projected_out_is_gone_and_the_rest_is_as_it_was(model):
    """By least squares: what remains has no share in any of the directions, and the difference lies in their span."""
    d_model = width(model, ("resid_pre", 1))
    for directions in (DIRECTIONS[0, :d_model], DIRECTIONS[:, :d_model], DIRECTIONS[[0, 1, 0], :d_model]):
        before, after = edited(model, wb.project_out("resid_pre", directions, layers=1), ("resid_pre", 1))
        rows = directions.reshape(-1, d_model)
        assert (after @ rows.T).abs().max() < 1e-4 * before.abs().max()
        gone = (before - after).reshape(-1, d_model)
        share = torch.linalg.lstsq(rows.T.double(), gone.T.double(), driver="gelsd").solution
        assert torch.allclose(rows.T.double() @ share, gone.T.double(), atol=1e-4)
        assert gone.abs().max() > 0.1


def test_steering_while_generating(model):
    tokens, direction = some_tokens(1, 4), 3 * DIRECTIONS[1, : width(model, ("resid_post", 1))]
    change = wb.on_generated(wb.steer("resid_post", direction, 2.0, layers=1))
    by_hand = wb.on_generated((("resid_post", 1), lambda value, at: value + 2 * direction))
    varied = {"repetition_penalty": 4.0}
    out = model.generate(tokens, 8, hooks=[change], **varied)
    assert torch.equal(out, model.generate(tokens, 8, hooks=[by_hand], use_kv_cache=False, **varied))
    assert not torch.equal(out, model.generate(tokens, 8, **varied))


WRONG = {
    "width": (
        errors.InterventionError,
        r"the direction is \[3\] and blocks.0.hook_resid_pre",
        lambda: ("steer", torch.ones(3)),
    ),
    "no width": (
        errors.InterventionError,
        "a site with a fixed width is wanted",
        lambda: ("steer_pattern", torch.ones(3)),
    ),
    "kind": (errors.KindError, "list came", lambda: ("steer", [1.0])),
    "whole numbers": (errors.KindError, "int64", lambda: ("steer", torch.ones(3).long())),
    "axes": (errors.KindError, r"\[width\]; torch.float32 \[2, 3\] came", lambda: ("steer", torch.ones(2, 3))),
    "not finite": (errors.InterventionError, "not finite", lambda: ("steer", torch.tensor([float("nan")]))),
    "nothing": (errors.InterventionError, "is 0", lambda: ("project", torch.zeros(2, 24))),
    "factor": (errors.KindError, "'2' came", lambda: ("scale", "2")),
    "truth": (errors.KindError, "True came", lambda: ("scale", True)),
}


@pytest.mark.parametrize(("kind", "said", "given"), WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_is_said(model, kind, said, given):
    name, value = given()
    make = {
        "steer": lambda: wb.steer("resid_pre", value),
        "steer_pattern": lambda: wb.steer("pattern", value),
        "project": lambda: wb.project_out("resid_pre", value),
        "scale": lambda: wb.scale("z", value),
    }[name]
    with pytest.raises(kind, match=said):
        model(TOKENS, hooks=[make()])
