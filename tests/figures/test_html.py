import re

import plotly.graph_objects as go
import pytest

from workbench.errors import InputError, KindError
from workbench.figures import patching
from workbench.figures.html import Raw, Section, Table, page


def test_text_is_escaped_everywhere():
    bad = "<script>alert(1)</script>"
    text = page(bad, [(bad, [bad, Table([bad], [[bad]])])])
    assert "<script" not in text
    assert text.count("&lt;script&gt;") == 6  # twice as the title


def test_nothing_of_a_figure_ends_its_script():
    text = page("t", [("h", [go.Figure(layout={"title": {"text": "</script><b>"}})])])
    assert "</script><b>" not in text


def test_plotly_is_inlined_once_and_only_for_figures(sweep):
    fig = patching(sweep(("layer", "pos")))
    text = page("t", [("a", [fig]), ("b", [fig])])
    assert text.count("plotly.js v") == 1
    assert text.count('class="figure"') == 2
    assert not re.search(r"<(script|link|img)[^>]+(src|href)=", text)
    assert len(page("t", [("a", ["words"])])) < 5000


def test_columns_of_numbers_align():
    text = page("t", [Section("h", [Table(["what", "n", "x"], [["a", 1, 6.1234], ["b", 12, -5.49]])])])
    assert "<th class=number>n</th><th class=number>x</th>" in text
    assert "<td class=number>6.123</td>" in text
    assert "<td class=number>−5.490</td>" in text
    assert "<td>a</td>" in text


def test_odd_tables_are_shown():
    text = page("t", [("h", [Table(["x"], [[0.0], [float("nan")]]), Table(["nothing"], [])])])
    assert "<td class=number>nan</td>" in text
    assert "<th>nothing</th>" in text


def test_raw_html_goes_in_as_it_is():
    assert "<hr id=x>" in page("t", [("h", [Raw("<hr id=x>")])])


def test_what_cannot_be_shown_is_said():
    with pytest.raises(KindError, match="not int"):
        page("t", [("h", [3])])  # type: ignore[list-item]
    with pytest.raises(InputError, match="2 columns has a row of 1 cell"):
        Table(["a", "b"], [["a"]])
