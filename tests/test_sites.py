import numpy as np
import pytest
import torch
from random_models import powered

import workbench as wb
from workbench.errors import KindError, SiteError
from workbench.families._config import Config
from workbench.families.llama import spec as llama
from workbench.sites import Place, Sites


@pytest.fixture(scope="module")
def sites() -> Sites:
    config = {
        "hidden_size": 8,
        "num_attention_heads": 2,
        "num_hidden_layers": 3,
        "intermediate_size": 12,
        "vocab_size": 11,
        "max_position_embeddings": 16,
    }
    return powered(llama(Config(config, "the config"))).sites


def test_a_place_names_its_sites():
    place = Place().inside("blocks.2", layer=2).inside("attn")
    site = place.site("hook_q", "batch pos head d_head", head=3, d_head=4)
    assert (site.name, site.layer, site.short) == ("blocks.2.attn.hook_q", 2, "attn.q")
    assert site.axes == ("batch", "pos", "head", "d_head")
    assert site.sizes == (None, None, 3, 4)
    assert site.width == 12


@pytest.mark.parametrize(
    ("selector", "name"),
    [
        ("blocks.1.attn.hook_q", "blocks.1.attn.hook_q"),
        (("q", 1), "blocks.1.attn.hook_q"),
        (("attn.q", 1), "blocks.1.attn.hook_q"),
        (("hook_q", 1), "blocks.1.attn.hook_q"),
        (("attn.hook_q", 1), "blocks.1.attn.hook_q"),
        (("q", 1, "attn"), "blocks.1.attn.hook_q"),
        (("q", np.int64(1)), "blocks.1.attn.hook_q"),
        (("resid_post", -1), "blocks.2.hook_resid_post"),
        (("ln1.scale", 0), "blocks.0.ln1.hook_scale"),
        ("embed", "hook_embed"),
        (("embed", None), "hook_embed"),
        ("ln_final.scale", "ln_final.hook_scale"),
    ],
)
def test_one_site_by_every_form(sites, selector, name):
    assert sites.one(selector).name == name


def test_several_sites(sites):
    every_q = ["blocks.0.attn.hook_q", "blocks.1.attn.hook_q", "blocks.2.attn.hook_q"]
    for selector in ("q", "blocks.*.attn.hook_q", lambda name: name.endswith("hook_q")):
        assert [site.name for site in sites.select(selector)] == every_q


def test_a_short_form_that_fits_two_sites_lists_both(sites):
    with pytest.raises(SiteError, match=r"ln1\.scale, ln2\.scale"):
        sites.one(("scale", 1))
    with pytest.raises(SiteError, match=r"ln1\.scale, ln2\.scale, ln_final\.scale"):
        sites.select("scale")


@pytest.mark.parametrize(
    ("selector", "says"),
    [
        ("blocks.1.attn.hook_Q", r"blocks\.1\.attn\.hook_q"),
        ("resid_prr", "resid_pre"),
        (("resid_prr", 1), "resid_pre"),
        (("resid_pre", 3), "layers 0 to 2"),
        (("resid_pre", -4), "layers 0 to 2"),
        (("pos_embed", None), "embed"),
        ("blocks.*.nothing", "no site matches"),
        (lambda name: False, "matches none"),
    ],
)
def test_what_does_not_exist_names_the_nearest(sites, selector, says):
    with pytest.raises(SiteError, match=says) as caught:
        sites.select(selector)
    assert isinstance(caught.value, KeyError)
    assert str(caught.value)[0] not in "'\""


NO_SELECTORS = [
    3,
    None,
    1.5,
    ("q", "1"),
    ("q",),
    ("q", 1, 2),
    ("q", True),
    ("q", np.bool_(True)),
    ("q", torch.tensor(True)),
]


@pytest.mark.parametrize("selector", NO_SELECTORS)
def test_what_is_no_selector_is_said_to_be_none(sites, selector):
    with pytest.raises(KindError):
        sites.select(selector)


def test_one_where_several_are_meant(sites):
    with pytest.raises(SiteError, match="names 3 sites where one is wanted"):
        sites.one("resid_pre")


def test_site_name_is_the_name_that_every_model_uses(sites):
    for site in sites:
        if not site.short.startswith("ln"):
            assert wb.site_name(site.short.rpartition(".")[2], site.layer) == site.name
        assert wb.site_name(site.short, site.layer) == site.name


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("patern", 3), "pattern"),
        (("scale", 3), r"ln1\.scale"),
        (("pattern",), "a layer"),
        (("embed", 1), "no layer"),
        (("ln9.scale", 1), "no site is called"),
        (("attn.resid_pre", 1), "no site is called"),
        (("resid_pre", True), "a number from 0"),
        (("resid_pre", -1), "a number from 0"),
    ],
)
def test_site_name_refuses_what_it_cannot_know(arguments, says):
    with pytest.raises(SiteError, match=says):
        wb.site_name(*arguments)
