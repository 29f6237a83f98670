"""What is said of a sweep's values: effects with their intervals and p-values, derived by hand; saved and read back."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

import workbench as wb
from workbench.sweep_result import SweepResult, Work


def result(values, clean, corrupted=(), direction="denoise") -> SweepResult:
    values = torch.as_tensor(values, dtype=torch.float32)
    n_cells = values.shape[1]
    return SweepResult(
        values=values,
        axes=("layer",),
        labels={"layer": tuple(map(str, range(n_cells)))},
        places={"layer": tuple(range(n_cells))},
        clean=torch.as_tensor(clean, dtype=torch.float32),
        corrupted=torch.as_tensor(corrupted, dtype=torch.float32),
        site="z",
        direction=direction,
        unchanged=torch.zeros(n_cells, dtype=torch.bool),
        work=Work(3, 40),
    )


def drawn(seed=0, n=12):
    generator = np.random.default_rng(seed)
    clean, corrupted = 5 + generator.normal(size=n), -4 + generator.normal(size=n)
    share = np.array([0.0, 0.4, 1.0])
    values = corrupted[:, None] + share * (clean - corrupted)[:, None] + 0.3 * generator.normal(size=(n, 3))
    return values, clean, corrupted


def test_an_interval_is_that_of_numpys_bootstrap():
    """Another generator and a loop: the same up to the chance of resampling."""
    values, clean, corrupted = drawn()
    r = result(values, clean, corrupted)
    generator, effects = np.random.default_rng(1), []
    for _ in range(4000):
        rows = generator.integers(12, size=12)
        base = corrupted[rows].mean()
        effects.append((values[rows].mean(0) - base) / (clean[rows].mean() - base))
    low, high = np.quantile(effects, [0.05, 0.95], axis=0)
    interval = r.interval(0.9, n_resamples=4000)
    width = high - low
    assert np.all(np.abs(interval[0].numpy() - low) < 0.1 * width)
    assert np.all(np.abs(interval[1].numpy() - high) < 0.1 * width)
    assert ((interval[0] < r.effect) & (r.effect < interval[1])).all()
    assert (r.interval(0.5)[1] - r.interval(0.5)[0] < r.interval(0.99)[1] - r.interval(0.99)[0]).all()
    assert torch.equal(r.interval(), r.interval())


def test_the_interval_of_an_ablation_is_of_its_change():
    values, clean, _ = drawn()
    r = result(values, clean, direction="ablate")
    interval = r.interval()
    assert ((interval[0] < r.effect) & (r.effect < interval[1])).all()


def test_a_single_example_has_neither():
    r = result([[1.0, 2.0]], [3.0], [0.0])
    assert r.interval().isnan().all()
    assert r.interval().shape == (2, 2)
    assert r.p_values().isnan().all()


def test_p_values_count_sign_flips_by_hand():
    """Three examples, two cells, all eight patterns of signs written out."""
    changes = np.array([[1.0, 0.5], [2.0, -0.5], [3.0, 0.25]])
    r = result(changes + 7.0, [0.0] * 3, [7.0] * 3)
    largest = [np.abs(np.array(signs) @ changes).max() for signs in product((1, -1), repeat=3)]
    wanted = [np.mean([value >= abs(changes[:, cell].sum()) - 1e-6 for value in largest]) for cell in range(2)]
    assert r.p_values().tolist() == pytest.approx(wanted)
    assert wanted[0] == 2 / 8


def test_drawn_flips_come_near_all_of_them():
    values, clean, corrupted = drawn(n=10)
    r = result(values, clean, corrupted)
    exact, sampled = r.p_values(n_flips=1024), r.p_values(n_flips=1000)
    assert (exact - sampled).abs().max() < 0.05
    assert exact[0] > 0.05 > exact[2]


def test_saved_and_read_back(tmp_path):
    r = result(*drawn())
    r.save(tmp_path / "r.safetensors")
    back = wb.SweepResult.load(tmp_path / "r.safetensors")
    assert (back.axes, back.labels, back.places, back.work) == (r.axes, r.labels, r.places, r.work)
    assert (back.site, back.direction) == (r.site, r.direction)
    for name in ("values", "clean", "corrupted", "unchanged", "effect"):
        assert torch.equal(getattr(back, name), getattr(r, name))
    result(drawn()[0], drawn()[1], direction="ablate").save(tmp_path / "a")
    assert wb.SweepResult.load(tmp_path / "a").corrupted.numel() == 0


def test_what_cannot_be_read_or_asked_is_said(tmp_path):
    with pytest.raises(wb.errors.MissingError, match="no file"):
        wb.SweepResult.load(tmp_path / "nothing")
    (tmp_path / "junk").write_bytes(b"junk")
    with pytest.raises(wb.errors.LoadError, match="not a saved sweep"):
        wb.SweepResult.load(tmp_path / "junk")
    for level in (0.0, 1.0, 95, "0.95"):
        with pytest.raises(wb.errors.InputError, match="level is"):
            result(*drawn()).interval(level)


def test_a_cell_of_one_example_has_neither():
    r = result(*drawn(n=5))
    values = r.values.clone()
    values[1:, 0] = torch.nan  # one example is left there
    values[2:, 1] = torch.nan
    few = replace(r, values=values)
    assert few.interval()[:, 0].isnan().all()
    assert few.p_values()[0].isnan().all()
    assert few.interval()[:, 1].isfinite().all()
    assert few.p_values()[1].isfinite().all()


def test_the_largest_effects_first():
    r = result(*drawn())
    table = r.top(3)
    assert table.columns.tolist() == [*r.axes, "value", "effect"]
    effects = r.effect.abs().flatten().sort(descending=True).values[:3]
    assert np.allclose(table["effect"].abs(), effects)
    for row in table.itertuples(index=False):
        index = tuple(r.places[axis].index(place) for axis, place in zip(r.axes, row, strict=False))
        assert row.effect == float(r.effect[index])
        assert row.value == float(r.mean[index])


def test_p_values_compare_means_where_examples_are_missing():
    """By hand: a cell where two of six examples moved by 1.5, beside one where all moved by 1."""
    clean = np.zeros(6)
    values = np.ones((6, 2))
    values[:2, 0], values[2:, 0] = 1.5, np.nan
    p = result(values, clean, direction="ablate").p_values()
    signs = np.array(list(product((1, -1), repeat=6)))
    largest = np.maximum(np.abs(signs[:, :2].mean(1) * 1.5), np.abs(signs.mean(1)))
    assert np.allclose(p, [(largest >= 1.5 - 1e-5).mean(), (largest >= 1 - 1e-5).mean()])


def test_many_cells_are_resampled_a_part_at_a_time():
    values = np.random.default_rng(0).normal(size=(3, 1500))
    r = result(values, np.zeros(3), direction="ablate")
    few = result(values[:, 1400:], np.zeros(3), direction="ablate")
    assert torch.equal(r.interval()[:, 1400:], few.interval())
    assert r.p_values().shape == (1500,)


def test_runs_that_are_one_tensor_are_saved(tmp_path):
    same = torch.ones(3)
    r = replace(result(np.ones((3, 2)), same, same), clean=same, corrupted=same)
    r.save(tmp_path / "r")
    assert torch.equal(SweepResult.load(tmp_path / "r").corrupted, same)
    with pytest.raises(wb.errors.InputError, match="is a folder"):
        r.save(tmp_path)


@pytest.mark.parametrize("wrong", [0, -1, "a", 1.5, True, None])
def test_how_many_and_which_seed(wrong):
    r = result(*drawn())
    for ask in (lambda: r.interval(n_resamples=wrong), lambda: r.p_values(n_flips=wrong)):
        with pytest.raises(wb.errors.InputError, match="from 1 on"):
            ask()
    if wrong != 0:
        with pytest.raises(wb.errors.InputError, match="seed is"):
            r.interval(seed=wrong)
