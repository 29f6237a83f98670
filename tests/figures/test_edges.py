import pytest

from workbench.figures.edges import LINE, TICKS, Edge


@pytest.mark.parametrize("n", [1, 14, 64, 65, 500, 1024, 5000])
@pytest.mark.parametrize("cell", [0.1, 0.5, 3, 13, 26])
def test_ticks_are_few_and_do_not_touch(n, cell):
    edge = Edge("key", ["x"] * n, cell)
    assert 1 <= len(edge.ticks) <= TICKS
    assert edge.step * cell >= LINE
    assert edge.ticks[0] == 0


def test_every_cell_has_a_tick_where_there_is_room():
    assert list(Edge("key", ["x"] * 14, 26).ticks) == list(range(14))


@pytest.mark.parametrize(("labels", "cell", "angle"), [("0", 20, 0), ("longer", 20, -45), ("longer", 14, -90)])
def test_labels_lie_as_flat_as_they_fit(labels, cell, angle):
    assert Edge("key", [labels] * 5, cell).angle == angle
