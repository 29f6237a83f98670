"""Parts of a grid, windows of layers, labelled positions and sets of heads: each cell is a naive run."""

import pytest
import torch
from exactness import (
    CLEAN,
    CORRUPTED,
    METRICS,
    N_POS,
    OTHERS,
    TABLES,
    both,
    case,
    check_patching,
    close,
    in_place_of,
    in_turn,
    something_moves,
)
from plain_hooks import chosen

import workbench as wb

LLAMA, MISTRAL, QWEN = (next(name for name in TABLES if name.startswith(start)) for start in ("ll", "mis", "qwen"))
OLMO, NEOX, DEEPSEEK = (
    next(name for name in TABLES if name.startswith(s)) for s in ("olmo", "gpt_neox", "deepseek_v3")
)

# Parts

PARTS = [
    (LLAMA, "resid_mid", ("layer", "pos"), {"layer": [2, 0], "pos": [5, 1]}),
    (LLAMA, "k", ("layer", "kv_head"), {"kv_head": [1], "pos": [1, 3, 4]}),
    (LLAMA, "z", ("layer",), {"head": [5, 0, 2], "pos": [1, 4, 5]}),
    (LLAMA, "q", ("pos", "layer"), {"head": [1, 3], "pos": [5, 4, 3]}),
    (LLAMA, "post", ("layer", "d_mlp"), {"d_mlp": [7, 0, 31], "layer": [1, 0]}),
    (MISTRAL, "pre", ("pos",), {"d_mlp": list(range(20)), "pos": [5, 3]}),
    (MISTRAL, "v", ("layer", "pos", "kv_head"), {"layer": [0], "pos": [2, 3]}),
    (MISTRAL, "pattern", ("layer", "head"), {"head": [3, 0], "query": [3, 5]}),
    (OLMO, "q", ("head",), {"layer": [1], "pos": [3, 5]}),
    (NEOX, "mlp_in", ("layer",), {"pos": [0, 4, 3]}),
    (DEEPSEEK, "kv_latent", ("pos",), {"layer": [1], "pos": [4, 0, 3]}),
    (LLAMA, "embed", ("pos",), {"pos": [3, 0]}),
]
KEYWORDS = {
    "layer": "layers",
    "pos": "positions",
    "query": "positions",
    "head": "heads",
    "kv_head": "heads",
    "d_mlp": "neurons",
}


@pytest.mark.parametrize(("family", "site", "over", "places"), PARTS)
def test_parts(family, site, over, places):
    options = {KEYWORDS[axis]: numbers for axis, numbers in places.items()}
    check_patching(family, site, over, "difference of sets", places=places, **options)


# Windows


def around(layer, window, n_layers):
    """Meng et al. 2022: max(0, l - w // 2) .. min(n_layers, l + ceil(w / 2)) - 1."""
    return list(range(max(0, layer - window // 2), min(n_layers, layer + (window + 1) // 2)))


def windows():
    for number, family in enumerate(TABLES):
        site = in_turn(
            [s for s in ("mlp_out", "z", "attn_out", "resid_pre", "v") if s in TABLES[family].inside], number
        )
        unit = {"z": "head", "v": "kv_head"}.get(site, "pos")
        over = in_turn([("layer", unit), ("layer",)], number // 2)
        for window in ((2, 3), (4, 3))[number % 2]:
            yield case(family, site, over, str(window), in_turn(METRICS, number + window))


@pytest.mark.parametrize(("family", "site", "over", "window", "metric"), list(windows()))
def test_windows(family, site, over, window, metric):
    n_layers = len(both(family)[1].blocks)
    places = {"layer": [around(layer, int(window), n_layers) for layer in range(n_layers)]}
    direction = in_turn(["denoise", "noise"], int(window))
    check_patching(family, site, over, metric, direction, places=places, window=int(window))


def test_a_window_skips_layers_without_the_site():
    """The middle one of three layers is sparse here, and the others dense."""
    places = {"layer": [[0], [2]]}
    for window in (2, 3):  # around 0: 0, and 0 and 1; around 2: 1 and 2, and 1 and 2
        check_patching(QWEN, "post", ("layer", "pos"), "difference", places=places, window=window)
    places = {"layer": [[0, 2], [0, 2]]}
    check_patching(QWEN, "post", ("layer", "pos"), "difference", places=places, window=5)


def test_a_window_around_some_layers():
    places = {"layer": [[1, 2], [0, 1]], "pos": [3, 5]}
    options = {"layers": [2, 0], "window": 3, "positions": [3, 5]}
    check_patching(LLAMA, "attn_out", ("layer", "pos"), "several tokens", places=places, **options)
    places["layer"] = [[1, 2], [0, 1]]
    check_patching(
        LLAMA, "attn_out", ("pos",), "several tokens", places={"layer": [[0, 1, 2]], "pos": [3, 5]}, **options
    )


# Labels

LABELS = {"subject": [2, 3, -3], "end": -1, "first": [0, 1, 3]}
COLUMNS = [torch.tensor([2, 3, 3]), torch.tensor([5, 5, 5]), torch.tensor([0, 1, 3])]


def labelled():
    kinds = {"resid_pre": [], "z": ["head"], "v": ["kv_head"], "pattern": ["head"], "mlp_in": [], "embed": []}
    for number, (family, table) in enumerate(TABLES.items()):
        for place, (site, units) in enumerate(kinds.items()):
            if site in table.outside:
                yield case(family, site, in_turn([("label",), ()], number), in_turn(METRICS, number))
            elif site in table.inside and (number + place) % 3 == 0:
                forms = [("layer", "label"), ("label",), ("label", "layer"), ("layer",), ("layer", *units, "label")]
                yield case(family, site, in_turn(forms, number + place // 3), in_turn(METRICS, number + place))


@pytest.mark.parametrize(("family", "site", "over", "metric"), list(labelled()))
def test_labels(family, site, over, metric):
    direction = in_turn(["denoise", "noise"], len(family) + len(over))
    check_patching(family, site, over, metric, direction, places={"label": COLUMNS}, positions=LABELS)


@pytest.mark.parametrize("family", [LLAMA, DEEPSEEK])
def test_a_metric_reads_at_a_label(family):
    model, plain = both(family)
    r = wb.ablate(model, CLEAN, wb.logit_diff(3, 7, pos="subject"), "attn_out", positions=LABELS, progress=False)
    nothing = in_place_of(plain, "attn_out", "zero")
    logits = plain.sweep(CLEAN, "attn_out", ("layer", "label"), nothing, label=COLUMNS)
    rows = torch.arange(3)
    read = logits[rows, :, :, COLUMNS[0]]
    assert close(r.values, read[..., 3] - read[..., 7])
    assert close(r.clean, plain.run(CLEAN)[rows, COLUMNS[0], 3] - plain.run(CLEAN)[rows, COLUMNS[0], 7])
    assert something_moves(r.values, r.clean)


# Sets of heads

SELECTIONS = [
    (LLAMA, "z", [(0, 5), (2, 1), (0, 0)]),
    (LLAMA, "q", [(1, 3), (-1, 4)]),
    (LLAMA, "v", [(0, 1), (1, 0)]),
    (LLAMA, "post", [(1, 3), (1, 30), (2, 0), (0, 12)]),
    (MISTRAL, "pattern", [(1, 3), (0, 0), (0, 2)]),
    (QWEN, "expert_weights", [(1, 0), (1, 3)]),
    (DEEPSEEK, "expert_weights", [(1, expert) for expert in range(0, 16, 2)]),
    (OLMO, "k", [(0, 0), (1, 1)]),
]


def all_of(plain, site, new, selection, **within):
    """The edits of one cell."""
    n_layers, unit = len(plain.blocks), plain.places[site].view.axes
    unit = next(word for word in unit if word in ("head", "kv_head", "expert", "d_mlp"))
    size = plain.values(CLEAN, site)[plain.layers(site)[0]].shape[plain.places[site].view.axes.index(unit)]
    return [
        (site, layer % n_layers, plain.put(site, new[layer % n_layers], {unit: chosen(number, size), **within}))
        for layer, number in selection
    ]


@pytest.mark.parametrize("kind", ["denoise", "noise", "zero", "mean", "resample"])
@pytest.mark.parametrize(("family", "site", "selection"), SELECTIONS)
def test_selections(family, site, selection, kind):
    model, plain = both(family)
    ours, by_hand = in_turn(METRICS.values(), len(kind) + len(site))
    options = {"site": site, "selection": selection, "progress": False}
    base, other = (CORRUPTED, CLEAN) if kind == "denoise" else (CLEAN, CORRUPTED)
    along = "query" if site == "pattern" else "pos"

    def swept(**more):
        if kind in ("denoise", "noise"):
            return wb.activation_patching(model, CLEAN, CORRUPTED, ours, direction=kind, **options, **more)
        reference = None if kind == "zero" else OTHERS
        return wb.ablate(model, CLEAN, ours, kind=kind, reference=reference, seed=3, **options, **more)

    new = plain.values(other, site) if kind in ("denoise", "noise") else in_place_of(plain, site, kind)
    r, by_pos = swept(), swept(over=(along,))
    values = by_hand(plain.run(base, *all_of(plain, site, new, selection)))
    assert r.axes == ()
    assert by_pos.axes == (along,)
    assert close(r.values, values)
    assert something_moves(values, by_hand(plain.run(base)))
    for pos in range(N_POS):
        edits = all_of(plain, site, new, selection, **{along: chosen(pos, N_POS)})
        assert close(by_pos.values[:, pos], by_hand(plain.run(base, *edits)))


@pytest.mark.parametrize("kind", ["zero", "mean", "resample"])
@pytest.mark.parametrize(("family", "site"), [(LLAMA, "z"), (OLMO, "z"), (DEEPSEEK, "z"), (MISTRAL, "v")])
def test_faithfulness(family, site, kind):
    """All but some are ablated, and all, for comparison."""
    model, plain = both(family)
    ours, by_hand = METRICS["difference"]
    n_units = model.spec.n_heads if site == "z" else model.spec.n_kv_heads
    every = [(layer, unit) for layer in range(model.spec.n_layers) for unit in range(n_units)]
    keep = [(0, 1), (-1, 0)]
    others = [pair for pair in every if pair not in [(0, 1), (model.spec.n_layers - 1, 0)]]
    reference = None if kind == "zero" else OTHERS
    f = wb.faithfulness(model, CLEAN, ours, keep, site, kind, reference, seed=3)
    new = in_place_of(plain, site, kind)
    kept, empty = (by_hand(plain.run(CLEAN, *all_of(plain, site, new, pairs))) for pairs in (others, every))
    full = by_hand(plain.run(CLEAN))
    assert close(f.kept, kept)
    assert close(f.empty, empty)
    assert close(f.full, full)
    assert something_moves(kept, full)
    assert something_moves(kept, empty)
    assert f.mean == pytest.approx(float((kept.mean() - empty.mean()) / (full.mean() - empty.mean())), rel=1e-3)


def test_pairs_begin_and_end_alike_and_differ_between():
    """What the cases above rely on: every pair differs somewhere else first, and all end alike."""
    differ = CLEAN != CORRUPTED
    assert differ.int().argmax(1).tolist() == [0, 1, 3]
    assert not differ[:, 4:].any()
