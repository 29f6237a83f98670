"""Functions, references and training beside cells whose first layers change nothing, against plain hooks."""

import pytest
import torch
from exactness import CLEAN, CORRUPTED, METRICS, N_EXAMPLES, OTHERS, TABLES, both, case, check_patching, forms, in_turn
from test_exact_hooks import FUNCTIONS, SWEPT, edits, given

import workbench as wb


def functions():
    """Cells of all layers at once, of which the first change nothing: the last tokens of each pair are the same."""
    for number, (family, table) in enumerate(TABLES.items()):
        for place, name in list(enumerate(FUNCTIONS))[number % 2 :: 2]:
            site = in_turn([s for s in SWEPT if s in table.inside], number + place)
            over = in_turn([over for over in forms(table, site) if over and "layer" not in over], number + place)
            yield case(family, site, over, name, in_turn(METRICS, number + place))


@pytest.mark.parametrize(("family", "site", "over", "name", "metric"), list(functions()))
def test_functions_beside_cells_of_all_layers(family, site, over, name, metric):
    hooks, same = given(FUNCTIONS[name]), edits(both(family)[1], FUNCTIONS[name])
    check_patching(family, site, over, metric, edits=same, hooks=hooks)


def test_functions_beside_a_window():
    hooks = FUNCTIONS["rows apart"]
    same = edits(both("gpt2: tied")[1], hooks)
    places = {"layer": [[0, 1], [0, 1, 2], [1, 2]]}
    over = ("layer", "pos")
    check_patching(
        "gpt2: tied", "resid_pre", over, "difference", edits=same, hooks=given(hooks), places=places, window=3
    )


@pytest.mark.parametrize("take", [wb.mean, wb.resample])
def test_a_reference_that_looked_ahead(take):
    model, plain = both("gpt2: tied")
    ahead = [("pattern", lambda value: value.flip(-1))]
    _, cache = model.run_with_cache(OTHERS, "pattern", hooks=given(ahead))
    source = plain.values(OTHERS, "pattern", *edits(plain, ahead))[1]
    drawn = torch.randint(5, (N_EXAMPLES,), generator=torch.Generator().manual_seed(0))
    source = source.mean(0).expand(N_EXAMPLES, *source.shape[1:]) if take is wb.mean else source[drawn]
    same = [("pattern", 1, lambda value: value.copy_(source))]
    for metric in ("difference at other positions", "any function"):
        hooks = [take(cache, "pattern", layers=1)]
        check_patching("gpt2: tied", "resid_pre", ("layer", "pos"), metric, edits=same, hooks=hooks)


def test_a_model_in_training_leaves_no_graph_in_results():
    model, _ = both("gpt2: tied")
    model.requires_grad_(True)
    try:
        r = wb.activation_patching(model, CLEAN, CORRUPTED, METRICS["difference"][0], progress=False)
        f = wb.faithfulness(model, CLEAN, METRICS["difference"][0], [(0, 0)])
    finally:
        model.requires_grad_(False)
    assert not any(found.requires_grad for found in (r.clean, r.corrupted, r.effect, f.each))
    r.to_dataframe()
