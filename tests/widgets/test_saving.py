"""A dashboard as a file: what is taken along, what is refused, and what is left where it cannot be."""

import json
import logging
import re
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from random_models import some_tokens
from test_attention_dashboard import Lazy, model, words  # noqa: F401  (model is a fixture)

import workbench as wb
from workbench.errors import InputError, PictureError, TooLargeError
from workbench.widgets import AttentionDashboard
from workbench.widgets.pictures import picture


@pytest.fixture
def weights(causal):
    return causal(3, 2, 4)


@pytest.fixture
def widget(weights):
    return AttentionDashboard.from_weights(["a", "=b", "<c>", "d"], weights, layer=1, head=1)


def state_in(html):
    return json.loads(re.search(r'type="application/json">(.*?)</script>', html).group(1))


def test_html_takes_along_what_is_named(widget, tmp_path):
    path = widget.to_html(tmp_path / "w.html", layers=[2, 0], heads=[1])
    assert [p.name for p in tmp_path.iterdir()] == ["w.html"]
    state = state_in(path.read_text())
    assert set(state["sent"]) == {"0.1", "2.1"}
    assert (state["traits"]["layer"], state["traits"]["head"]) == (0, 1)
    assert [pair[:2] for pair in state["traits"]["_heads"]] == [[0, 1], [2, 1]]
    assert widget.to_html(layers=[2, 0], heads=[1]) == path.read_text()


def test_each_layer_is_computed_once_for_the_file(weights):
    lazy = Lazy(weights)
    widget = AttentionDashboard.from_weights(["a"] * 4, lazy, layer=2)
    lazy.looked.clear()
    widget.to_html()
    assert lazy.looked == [0, 1, 2]


def test_a_file_that_would_be_too_large_says_what_to_pass():
    layers = torch.eye(1024).expand(6, 4, 1024, 1024)
    widget = AttentionDashboard.from_weights(words(1024), Lazy(layers))
    with pytest.raises(TooLargeError, match=r"24 heads of 1024 tokens .* 34 MB: pass layers= and heads= for at most 5"):
        widget.to_html(layers=range(6))
    assert len(widget.to_html(layers=[0], heads=[0, 1])) < 3_500_000
    assert len(state_in(widget.to_html())["sent"]) == 5
    refused = [({"layers": [9]}, "no layer 9"), ({"heads": []}, "heads is empty"), ({"heads": [7]}, "no head 7")]
    for chosen, says in refused:
        with pytest.raises(InputError, match=says):
            widget.to_html(**chosen)
    with pytest.raises(TypeError, match="layer"):
        widget.to_html(layer=[0])


def test_a_file_that_cannot_be_written_leaves_nothing(widget, tmp_path):
    with pytest.raises(InputError, match="is a folder; a file is wanted"):
        widget.to_html(tmp_path)
    blocked = tmp_path / "file"
    blocked.write_text("x")
    with pytest.raises(OSError, match="file"):
        widget.to_html(blocked / "w.html")
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


@pytest.mark.browser
def test_save_goes_by_the_ending(widget, weights, tmp_path, browser):
    table = pd.read_csv(widget.save(tmp_path / "w.csv"))
    assert list(table.columns) == ["query", "query_token", "key", "key_token", "attention"]
    assert len(table) == 10
    np.testing.assert_allclose(table["attention"], weights[1, 1][np.tril_indices(4)].numpy(), rtol=1e-6)
    assert state_in(widget.save(tmp_path / "w.html").read_text())["traits"]["layer"] == 1
    assert widget.save(tmp_path / "w.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    drawn = widget.save(str(tmp_path / "w.SVG")).read_text(encoding="utf-8")
    assert "&#60;c&#62;" in drawn
    assert "<c>" not in drawn
    with pytest.raises(InputError, match=r"'w.pdf' ends in '.pdf'; .*png, svg, csv, html"):
        widget.save(tmp_path / "w.pdf")
    assert sorted(p.suffix for p in tmp_path.iterdir()) == [".SVG", ".csv", ".html", ".png"]


@pytest.mark.parametrize("missing", ["kaleido", "browser"])
def test_without_what_draws_pictures(widget, tmp_path, monkeypatch, missing):
    if missing == "kaleido":
        monkeypatch.setitem(sys.modules, "kaleido", None)
    else:
        monkeypatch.setenv("BROWSER_PATH", str(tmp_path / "none"))
    with pytest.raises(
        PictureError, match=r"by kaleido and a Chromium .*pip install 'kaleido>=1', and install chromium"
    ):
        widget.save(tmp_path / "w.png")
    assert list(tmp_path.iterdir()) == []
    kept = widget.static()._repr_mimebundle_()
    assert set(kept) == {"text/plain", "text/html"}


def test_what_kaleido_logs_on_the_way_is_not_shown(caplog):
    """Its channel to the browser logs a good-bye that comes late as an error, which a notebook would print."""
    logger = logging.getLogger("choreographer.channels.pipe")

    class Figure:
        def to_image(self, **_):
            logger.error("JSONError decoding message. Ignoring")
            return b"drawn"

    assert picture(Figure(), "png") == b"drawn"
    assert caplog.records == []
    logger.error("heard")
    assert [record.message for record in caplog.records] == ["heard"]


def test_the_table_is_what_is_shown(model):  # noqa: F811
    tokens = some_tokens(1)
    widget = AttentionDashboard(model, tokens, metric=wb.logit(3), layer=1, head=2)
    pattern = model(tokens)[1][1][0, 2]
    widget.hidden, widget.renormalise, widget.queries = [0], True, [4, 6]
    table = widget.to_dataframe()
    assert table["query"].tolist() == [4] * 5 + [6] * 7
    row = pattern[4, :5].clone()
    row[0] = 0
    np.testing.assert_allclose(table["attention"][:5], (row / row.sum()).numpy(), rtol=1e-5)
    widget.hidden, widget.queries, widget.quantity = [], [], "contribution"
    table = widget.to_dataframe()
    parts = wb.direct_logit_attribution(model, tokens, wb.logit(3), by="head")
    assert table["contribution"].sum() == pytest.approx(parts.values[0, parts.labels.index("L1H2")].item(), rel=1e-3)
    assert set(table["query"][table["contribution"] != 0]) == {6}


def test_the_table_is_of_what_is_looked_at(model):  # noqa: F811
    clean, corrupted = some_tokens(1, seed=1), some_tokens(1, seed=2)
    widget = AttentionDashboard(model, clean, against=corrupted, layer=1, head=2, query=2, names=("one", "other"))
    table = widget.to_dataframe()
    for name, tokens in (("attention", clean), ("attention other", corrupted)):
        np.testing.assert_allclose(table[name], model(tokens)[1][1][0, 2, 2, :3].numpy(), atol=1e-6)
    widget.direction = "attended_by"
    table = widget.to_dataframe()
    assert (table["query"].tolist(), set(table["key"])) == ([2, 3, 4, 5, 6], {2})
    np.testing.assert_allclose(table["attention"], model(clean)[1][1][0, 2, 2:, 2].numpy(), atol=1e-6)
    widget.direction, widget.quantity = "attends_to", "contribution"  # made at one query, whichever is locked
    assert widget.to_dataframe()["query"].tolist() == [6] * 7


def test_the_title_says_what_is_hidden(model):  # noqa: F811
    widget = AttentionDashboard(model, some_tokens(1), layer=1, head=2, hidden=[0])
    assert widget.figure().layout.title.text == "<b>Layer 1, head 2 (column 0 hidden, the rest as it was)</b>"
    widget.hidden, widget.renormalise = [0, 3], True
    assert widget.figure().layout.title.text == "<b>Layer 1, head 2 (columns 0, 3 hidden, the rest renormalised)</b>"


def test_a_file_of_patterns_that_look_ahead_is_no_larger():
    layers = torch.full((4, 6, 512, 512), 1 / 512)
    widget = AttentionDashboard.from_weights(words(512), layers)
    assert len(widget.to_html()) < 9_500_000
    with pytest.raises(TooLargeError, match=r"18 heads of 512 tokens make a file of 13 MB"):
        widget.to_html(layers=[0, 1, 2])


def test_the_figure_is_what_is_shown(model):  # noqa: F811
    widget = AttentionDashboard(model, some_tokens(1), layer=1, head=2, quantity="contribution")
    figure = widget.figure()
    assert "Layer 1, head 2" in figure.layout.title.text
    shown = np.nan_to_num(np.asarray(figure.data[0].z, dtype=float))
    np.testing.assert_allclose(shown, widget._present(), atol=1e-6)
    assert figure.layout.coloraxis.cmin == -figure.layout.coloraxis.cmax  # signed: zero in the middle
