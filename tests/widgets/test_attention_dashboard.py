import json
import re
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from workbench.errors import InputError, KindError, TooLargeError
from workbench.widgets import AttentionDashboard


class Lazy:
    """Layers computed when they are looked at, as a model returns them; remembers which were."""

    def __init__(self, weights):
        self.weights, self.looked = weights, []

    def __len__(self):
        return len(self.weights)

    def __getitem__(self, layer):
        self.looked.append(layer)
        return self.weights[layer]


class Model:
    """A model as the dashboard knows it; words are tokens, and a batch is two rows of them."""

    def __init__(self, weights):
        self.attention = Lazy(weights)
        self.spec = SimpleNamespace(n_layers=weights.shape[0], n_heads=weights.shape[2])

    def __call__(self, tokens):
        return None, self.attention

    def to_tokens(self, text):
        return torch.arange(len(text.split())).reshape(1, -1)

    def to_str_tokens(self, tokens):
        return [f" {int(i)}" for i in tokens]


def shown_pattern(widget):
    """The pattern a view would draw, from the traits it is sent."""
    n = len(widget._tokens)
    values = np.frombuffer(widget._pattern, "<f4")
    pattern = np.zeros((n, n), np.float32)
    pattern[np.tril_indices(n)] = values
    return pattern


@pytest.fixture
def weights(causal):
    return causal(3, 2, 4)


def test_only_the_layer_that_is_looked_at_is_computed(weights):
    model = Model(weights[:, None].expand(3, 2, 2, 4, 4))
    widget = AttentionDashboard(model, "a b c d", layer=1)
    assert model.attention.looked == [1]
    widget.layer = 2
    assert model.attention.looked == [1, 2]
    np.testing.assert_array_equal(shown_pattern(widget), weights[2, 0].numpy())
    assert widget._tokens == ["␣0", "␣1", "␣2", "␣3"]


def test_heads_of_one_layer_compute_it_once(weights):
    lazy = Lazy(weights)
    widget = AttentionDashboard.from_weights(["a"] * 4, lazy, layer=1)
    lazy.looked.clear()
    for head in (1, 0, 1):
        widget.head = head
        np.testing.assert_array_equal(shown_pattern(widget), weights[1, head].numpy())
    assert lazy.looked == []
    widget.layer = 2
    widget.layer = 1  # only one layer is kept
    assert lazy.looked == [2, 1]
    assert len(widget._patterns._kept) == 1


def test_a_look_that_fails_is_told_and_gets_over(weights):
    broken = Lazy([weights[0], torch.zeros(2, 3, 3), weights[2]])
    widget = AttentionDashboard.from_weights(["a"] * 4, broken)
    before = widget._pattern
    with pytest.raises(InputError, match="over 3 queries"):
        widget.layer = 1
    assert widget._failed[:2] == [1, 0]
    assert widget._failed[2].startswith("InputError: layer 1 is over 3 queries and 3 keys")
    assert (widget._pattern, widget._shown) == (before, [0, 0])
    widget.layer = 0
    assert (widget._failed, widget._pattern) == ([], before)
    with pytest.raises(InputError):
        widget.layer = 1
    widget.layer = 2
    assert widget._failed == []
    np.testing.assert_array_equal(shown_pattern(widget), weights[2, 0].numpy())


@pytest.mark.parametrize("tokens", ["a b c d", torch.arange(4), torch.arange(8).reshape(2, 4)])
def test_text_and_tensors(weights, tokens):
    assert len(AttentionDashboard(Model(weights[:, None].expand(3, 2, 2, 4, 4)), tokens)._tokens) == 4


def test_example_picks_the_row(weights):
    batch = torch.stack([weights, weights.flip(1)], dim=1)
    widget = AttentionDashboard(Model(batch), torch.arange(8).reshape(2, 4), example=1)
    np.testing.assert_array_equal(shown_pattern(widget), weights[0, 1].numpy())
    assert widget._tokens[0] == "␣4"


@pytest.mark.parametrize("form", [list, torch.clone, lambda w: [x[None] for x in w], lambda w: w[:, None], Lazy])
def test_every_form_of_weights(weights, form):
    widget = AttentionDashboard.from_weights(["a"] * 4, form(weights), layer=2, head=1)
    np.testing.assert_array_equal(shown_pattern(widget), weights[2, 1].numpy())


def test_switching_sends_one_head_in_one_message(causal):
    widget = AttentionDashboard.from_weights(["a"] * 1024, causal(1, 2, 1024))
    messages = []
    widget._send = lambda message, buffers=None: messages.append((message, buffers or []))
    widget.head = 1
    with_bytes = [(m, b) for m, b in messages if b]
    assert len(with_bytes) == 1
    message, buffers = with_bytes[0]
    assert message["state"] == {"_shown": [0, 1]}  # the coding is the same as before
    assert message["buffer_paths"] == [["_pattern"]]
    assert sum(map(len, buffers)) < 1_100_000
    assert len(json.dumps([m for m, _ in messages])) < 2000
    messages.clear()
    widget.query = 5
    assert [m["state"] for m, _ in messages] == [{"query": 5}]


def test_two_dashboards_share_nothing(weights):
    one, two = (AttentionDashboard.from_weights(["a"] * 4, weights) for _ in range(2))
    one.layer, one.query = 2, 3
    assert (two.layer, two.query) == (0, -1)
    assert two._pattern == AttentionDashboard.from_weights(["a"] * 4, weights)._pattern


@pytest.mark.parametrize(
    ("trait", "value", "says"),
    [
        ("layer", 3, "there is no layer 3: there are 3 layers"),
        ("head", -1, "there is no head -1: there are 2 heads"),
        ("query", 4, "there is no query 4: positions go from 0 to 3, and -1 locks none"),
    ],
)
def test_what_is_out_of_range_is_refused(weights, trait, value, says):
    widget = AttentionDashboard.from_weights(["a"] * 4, weights)
    with pytest.raises(InputError, match=f"^{re.escape(says)}$"):
        setattr(widget, trait, value)
    assert getattr(widget, trait) in (0, -1)
    with pytest.raises(InputError, match=f"^{re.escape(says)}$"):
        AttentionDashboard.from_weights(["a"] * 4, weights, **{trait: value})


@pytest.mark.parametrize(
    ("tokens", "weights", "error", "says"),
    [
        (["a"] * 3, torch.zeros(1, 1, 4, 4), InputError, "4 positions and 3 tokens came"),
        (["a"] * 4, torch.zeros(1, 4, 4), InputError, "not one of rank 2"),
        (["a"] * 4, [torch.zeros(1, 4, 4), torch.zeros(4, 4)], InputError, "not one of rank 2"),
        (["a"] * 4, torch.zeros(1, 1, 3, 4), InputError, "over 3 queries and 4 keys"),
        (["a"] * 4, [torch.zeros(2, 4, 4), torch.zeros(3, 4, 4)], InputError, "layer 1 has 3 heads where 2"),
        (["a"] * 4, [], InputError, "no layer"),
        (["a"] * 4, 7, KindError, "not int"),
        ("abcd", torch.zeros(1, 1, 4, 4), KindError, "not str"),
    ],
)
def test_weights_that_do_not_fit_are_refused(tokens, weights, error, says):
    with pytest.raises(error, match=says):
        AttentionDashboard.from_weights(tokens, weights)


def test_an_example_that_is_not_there_is_refused(weights):
    with pytest.raises(InputError, match="no example 1: there is 1 example"):
        AttentionDashboard(Model(weights[:, None]), "a b c d", example=1)


def test_no_keyword_is_swallowed(weights):
    with pytest.raises(TypeError, match="hed"):
        AttentionDashboard.from_weights(["a"] * 4, weights, hed=1)


def test_html_takes_along_what_is_named(weights, tmp_path):
    widget = AttentionDashboard.from_weights(["a"] * 4, weights, layer=1)
    path = widget.to_html(tmp_path / "w.html", layers=[2, 0], heads=[1])
    assert [p.name for p in tmp_path.iterdir()] == ["w.html"]
    state = re.search(r'type="application/json">(.*?)</script>', path.read_text()).group(1)
    state = json.loads(state)
    assert set(state["patterns"]) == {"0.1", "2.1"}
    assert (state["traits"]["layer"], state["traits"]["head"]) == (0, 1)
    assert widget.to_html(layers=[2, 0], heads=[1]) == path.read_text()


def test_each_layer_is_computed_once_for_the_file(weights):
    lazy = Lazy(weights)
    widget = AttentionDashboard.from_weights(["a"] * 4, lazy, layer=2)
    lazy.looked.clear()
    widget.to_html()
    assert lazy.looked == [0, 1, 2]


def test_a_file_that_would_be_too_large_says_what_to_pass():
    layers = torch.zeros(1, 1, 1024, 1024).expand(6, 4, 1024, 1024)
    widget = AttentionDashboard.from_weights(["a"] * 1024, Lazy(layers))
    with pytest.raises(TooLargeError, match=r"24 heads of 1024 tokens .* 34 MB: pass layers= and heads= for at most 5"):
        widget.to_html()
    assert len(widget.to_html(layers=[0], heads=[0, 1])) < 3_000_000
    with pytest.raises(InputError, match="no layer 9"):
        widget.to_html(layers=[9])
    with pytest.raises(InputError, match="heads is empty"):
        widget.to_html(heads=[])


def test_a_file_that_cannot_be_written_leaves_nothing(weights, tmp_path):
    target = tmp_path / "taken"
    target.mkdir()
    with pytest.raises(InputError, match=r"taken.* is a folder"):
        AttentionDashboard.from_weights(["a"] * 4, weights).to_html(target)
    assert [p.name for p in tmp_path.iterdir()] == ["taken"]


def test_the_module_is_small_and_asks_nobody():
    from workbench.widgets.attention import _HERE

    source, css = ((_HERE / f"attention.{kind}").read_text() for kind in ("js", "css"))
    assert len(source) + len(css) < 40_000
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|https?://|</script", source + css)
