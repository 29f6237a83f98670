"""AttentionDashboard in Python: what it sends and when, what it takes back, what it refuses."""

import json
import re

import numpy as np
import pytest
import torch
from bridge import Line, everything, patterns_of, thumbs_of
from hypothesis import given
from hypothesis import strategies as st
from random_models import VOCAB, powered, some_tokens, specs

import workbench as wb
from workbench.errors import InputError, KindError, MetricError, TooLargeError
from workbench.model.attention import AttentionSpec
from workbench.model.block import PreNorm
from workbench.model.embedding import TiedUnembeddingSpec, TokenEmbeddingSpec
from workbench.model.mlp import GatedMLPSpec
from workbench.model.norms import LayerNormSpec, RMSNormSpec
from workbench.model.rotary import RotarySpec
from workbench.widgets import AttentionDashboard


class Lazy:
    """Layers computed when they are looked at; remembers which were."""

    def __init__(self, weights):
        self.weights, self.looked = weights, []

    def __len__(self):
        return len(self.weights)

    def __getitem__(self, layer):
        self.looked.append(layer)
        return self.weights[layer]


@pytest.fixture
def weights(causal):
    return causal(3, 2, 4)


def words(n):
    return [f" t{i}" for i in range(n)]


@pytest.fixture(scope="module")
def model():
    """Three layers, four heads in groups of two."""
    norm = LayerNormSpec()
    attention = AttentionSpec(4, 2, 8, rotary=RotarySpec(base=100.0), bias=True, bias_out=True)
    layer = PreNorm(attention, GatedMLPSpec(24), norm, norm)
    spec = wb.ModelSpec(16, 2048, TokenEmbeddingSpec(VOCAB), None, (layer,) * 3, norm, TiedUnembeddingSpec())
    return powered(spec)


# What is shown is the model's.


@given(specs(), st.integers(0, 2), st.booleans())
def test_every_head_of_any_model(spec, seed, padded):
    model, tokens = powered(spec), some_tokens(seed=seed)
    mask = torch.ones_like(tokens)
    if padded:
        mask[0, :2], mask[1, 5:] = 0, 0
    _, attention = model(tokens, attention_mask=mask)
    for example in range(2):
        real = mask[example].nonzero()[:, 0]
        widget = AttentionDashboard(model, tokens, attention_mask=mask, example=example)
        assert widget._tokens == [str(int(token)) for token in tokens[example][real]]
        for layer, head, _ in widget._heads:
            widget.layer, widget.head = layer, head
            [shown] = patterns_of(everything(widget))
            wanted = attention[layer][example, head][real[:, None], real].numpy()
            np.testing.assert_allclose(shown, wanted, atol=2e-6)
        pooled = thumbs_of(everything(widget))  # of so few tokens a thumbnail is the pattern
        for i, (layer, head, _) in enumerate(widget._heads):
            wanted = attention[layer][example, head][real[:, None], real].clamp(0, 1).numpy()
            np.testing.assert_allclose(np.sqrt(pooled[i]), np.sqrt(wanted), atol=0.5 / 255 + 1e-3)


def test_long_texts_travel_in_16_bits_and_locked_rows_whole(model):
    tokens = some_tokens(1, 300)
    _, attention = model(tokens)
    widget = AttentionDashboard(model, tokens)
    line = Line(widget)
    for layer, head, query in [(0, 0, 299), (2, 3, 17), (1, 2, 0)]:
        widget.layer, widget.head = layer, head
        [shown] = patterns_of(everything(widget))
        exact = attention[layer][0, head].numpy()
        assert np.abs(shown - exact).max() < 2e-5
        line.clear()
        widget.query = query
        row = np.frombuffer(line.traits()["_row"], "<f4")
        np.testing.assert_allclose(row, exact[query], atol=1e-6)
        widget.direction = "attended_by"
        said = line.traits()
        np.testing.assert_allclose(np.frombuffer(said["_row"], "<f4"), exact[:, query], atol=1e-6)
        assert said["_row_of"] == {"layer": layer, "head": head, "queries": [query], "direction": "attended_by"}
        widget.direction = "attends_to"
        line.clear()
        widget.queries = [3, query, 7]
        rows = np.frombuffer(line.traits()["_row"], "<f4").reshape(3, 300)
        np.testing.assert_allclose(rows, exact[[3, query, 7]], atol=1e-6)
        widget.query = -1


@pytest.mark.parametrize("n", [49, 300, 1024])
def test_a_thumbnail_keeps_a_single_bright_cell(n):
    pattern = torch.zeros(1, 2, n, n)
    pattern[:, :, torch.arange(n), 0] = 1e-3
    for at in [(n - 1, n - 1), (n - 1, 1), (n // 2, n // 3)]:
        pattern[0, 1, at[0], at[1]] = 1.0
        widget = AttentionDashboard.from_weights(words(n), pattern)
        first, second = thumbs_of(everything(widget))
        block = -(-n // 48)
        assert second[at[0] // block, at[1] // block] == 1.0
        assert first.max() < 0.01
        assert widget._thumbs_of["half"]


def test_thumbnails_do_not_look_ahead(causal):
    """A block on the diagonal belongs to it, and none above it gets any attention."""
    widget = AttentionDashboard.from_weights(words(100), causal(1, 1, 100))
    [pooled] = thumbs_of(everything(widget))
    exact = causal(1, 1, 100)[0, 0].numpy()
    for row, column in [(0, 0), (10, 3), (33, 33), (33, 0)]:
        block = exact[3 * row : 3 * row + 3, 3 * column : 3 * column + 3]
        assert np.sqrt(pooled[row, column]) == pytest.approx(np.sqrt(block.max()), abs=1 / 255)


def test_a_pattern_that_looks_ahead_is_shown_whole(model, causal):
    tokens = some_tokens(1, 9)
    backwards = causal(1, 4, 9).transpose(-1, -2).contiguous()
    view = model.with_hooks([(("pattern", 1), lambda value, at: backwards)])
    widget = AttentionDashboard(view, tokens, layer=1, head=2)
    np.testing.assert_allclose(patterns_of(everything(widget))[0], backwards[0, 2].numpy(), atol=1e-6)
    assert not widget._thumbs_of["half"]
    pooled = thumbs_of(everything(widget))[4 + 2]
    np.testing.assert_allclose(np.sqrt(pooled), np.sqrt(backwards[0, 2].numpy()), atol=1 / 255)


# Columns weighed.


@given(specs(), st.integers(0, 2))
def test_value_weighted_columns_are_norms(spec, seed):
    model, tokens = powered(spec), some_tokens(1, seed=seed)
    widget = AttentionDashboard(model, tokens)
    widget.quantity = "value_weighted"
    _, cache = model.run_with_cache(tokens)
    for layer, head, _ in widget._heads:
        widget.layer, widget.head = layer, head
        factors = np.frombuffer(widget._columns, "<f4")
        attn = model.blocks[layer].attn
        if ("v", layer) in cache:
            values = cache["v", layer][0]
            v = values[:, head * values.shape[1] // attn.W_O.shape[0]]
        else:
            v = cache["kv_latent", layer][0] @ attn.W_UV[head]
        np.testing.assert_allclose(factors, (v @ attn.W_O[head]).norm(dim=-1).numpy(), rtol=2e-3, atol=1e-4)


@given(specs(), st.integers(0, 2))
def test_contributions_sum_to_what_a_head_adds(spec, seed):
    model, tokens = powered(spec), some_tokens(2, seed=seed)
    metric = wb.logit_diff([3, 5], [4, 6], pos=[-1, 4])
    parts = wb.direct_logit_attribution(model, tokens, metric, by="head")
    wanted = {label: parts.values[1, i] for i, label in enumerate(parts.labels)}
    widget = AttentionDashboard(model, tokens, metric=metric, example=1, quantity="contribution")
    scale = parts.values.abs().max().item()
    for layer, head, _ in widget._heads:
        widget.layer, widget.head = layer, head
        query = widget._columns_of["query"]
        assert query == 4
        row = patterns_of(everything(widget))[0][query]
        total = float((row * np.frombuffer(widget._columns, "<f4")).sum())
        assert total == pytest.approx(wanted[f"L{layer}H{head}"].item(), abs=1e-4 * scale)
    direct = next(score for score in widget._scores if score["name"] == "direct_logit")
    for (layer, head, _), value in zip(widget._heads, direct["values"], strict=True):
        assert value == pytest.approx(wanted[f"L{layer}H{head}"].item(), abs=1e-3 * scale)


def test_without_a_metric_it_is_what_the_model_says(smollm):
    widget = AttentionDashboard(smollm, "When Mary and John went to the store, John gave a drink to")
    widget.quantity = "contribution"
    assert widget._columns_of["metric"] == "logit of ␣Mary"
    assert widget._columns_of["query"] == 13


def test_a_metric_that_is_not_linear_is_refused(model):
    with pytest.raises(MetricError, match=r"wb\.logit or wb\.logit_diff, not to LogProb"):
        AttentionDashboard(model, some_tokens(1), metric=wb.logprob(3))


def test_two_runs_are_held_against_one_logit(model):
    """Without a metric each run says something else: what the first says is meant for both."""
    clean, corrupted = some_tokens(1, seed=1), some_tokens(1, seed=4)
    said = int(model(clean)[0][0, -1].argmax())
    assert said != int(model(corrupted)[0][0, -1].argmax())
    widget = AttentionDashboard(model, clean, against=corrupted, layer=1, head=2, quantity="contribution")
    assert widget._columns_of["metric"] == f"logit of {said}"
    for run, tokens in enumerate((clean, corrupted)):
        parts = wb.direct_logit_attribution(model, tokens, wb.logit(said), by="head")
        wanted = parts.values[0, parts.labels.index("L1H2")].item()
        factors = np.frombuffer(widget._columns, "<f4").reshape(2, -1)[run]
        assert (patterns_of(everything(widget))[run][-1] * factors).sum() == pytest.approx(wanted, abs=1e-4)
        assert widget._columns_of["adds"][run] == pytest.approx(wanted, rel=1e-3)


def test_a_head_that_a_hook_silences_adds_nothing(model):
    tokens = some_tokens(1)
    silenced = model.with_hooks([wb.zero("z", layers=1, heads=[2])])
    widget = AttentionDashboard(silenced, tokens, metric=wb.logit(3), layer=1, head=2, quantity="contribution")
    assert (widget._columns_of["adds"], widget._columns_of["changed"]) == ([0.0], True)
    parts = wb.direct_logit_attribution(silenced, tokens, wb.logit(3), by="head")
    direct = next(score["values"] for score in widget._scores if score["name"] == "direct_logit")
    for (layer, head, _), value in zip(widget._heads, direct, strict=True):
        assert value == pytest.approx(parts.values[0, parts.labels.index(f"L{layer}H{head}")].item(), rel=1e-3)
    assert AttentionDashboard(model, tokens, quantity="contribution")._columns_of["changed"] is False


def test_a_contribution_that_is_made_elsewhere_is_not_chosen(model):
    widget = AttentionDashboard(model, some_tokens(1), positions=[0, 1, 2], quantity="value_weighted")
    before = widget.state
    with pytest.raises(InputError, match="the metric reads position 6, which is not among those shown"):
        widget.quantity = "contribution"
    assert (widget.quantity, widget.state) == ("value_weighted", before)
    assert widget._failed["quantity"] == "contribution"
    widget.layer = 1
    assert widget._failed == {}
    with pytest.raises(InputError, match="the metric reads position 6"):
        widget.set_state({"quantity": "contribution"})  # as a view does, which then says why
    assert "the metric reads position 6" in widget._failed["why"]
    assert widget.view().state["traits"]["quantity"] == "attention"  # a file has no kernel to be refused by
    widget.set_state({"quantity": "attention"})
    assert widget._failed == {}
    with pytest.raises(InputError, match="the metric reads position 6"):
        AttentionDashboard(model, some_tokens(1), positions=[0, 1, 2], quantity="contribution")
    mask = torch.ones(2, 7, dtype=torch.long)
    mask[0, 3:] = 0  # read at 2 in the first text, at 6 in the second
    batch = AttentionDashboard(model, some_tokens(2), attention_mask=mask, positions=[0, 1, 2], quantity="contribution")
    batch.example = 1
    assert batch.quantity == "attention"


# Heads.


def test_heads_say_whose_keys_they_share(model):
    assert AttentionDashboard(model, some_tokens(1))._heads[:5] == [
        [0, 0, 0], [0, 1, 0], [0, 2, 1], [0, 3, 1], [1, 0, 0],
    ]  # fmt: skip


def test_scores_are_those_of_head_scores(model):
    tokens = torch.randint(VOCAB, (1, 60), generator=torch.Generator().manual_seed(0))
    kinds = ("previous_token", "duplicate_token", "induction", "first_token", "entropy")
    wanted = wb.head_scores(model, kinds, tokens)
    for n, some in [(60, kinds), (None, kinds[:4])]:
        long = tokens if n else torch.cat([tokens] * 6, 1)  # 360: scored a few rows at a time
        wanted = wb.head_scores(model, some, long)
        widget = AttentionDashboard(model, long)
        assert [score["name"] for score in widget._scores] == list(some)
        for score in widget._scores:
            np.testing.assert_allclose(score["values"], wanted[score["name"]].flatten(), rtol=1e-3, atol=1e-6)
            chance = wanted.chance[wanted.kinds.index(score["name"])]
            assert score["chance"] == pytest.approx(chance.item(), abs=1e-4)


def test_scores_of_a_part_are_what_their_names_say(model):
    def kinds(positions):
        widget = AttentionDashboard(model, torch.tensor([[5, 6, 5, 6, 5, 6, 5]]), positions=positions)
        return widget, [score["name"] for score in widget._scores]

    everywhere = ["previous_token", "duplicate_token", "induction", "first_token", "entropy"]
    assert kinds(None)[1] == everywhere
    assert kinds([0, 2, 4])[1] == ["duplicate_token", "first_token", "entropy"]  # nobody's neighbours are shown
    widget, without_first = kinds([2, 3, 4, 5])
    assert without_first == ["previous_token", "duplicate_token", "induction", "entropy"]
    layer, head, _ = widget._heads[5]
    rows = model(torch.tensor([[5, 6, 5, 6, 5, 6, 5]]))[1][layer][0, head]
    previous = np.mean([rows[q, q - 1].item() for q in (3, 4, 5)])  # 2 is no first token, and counts as a key
    assert widget._scores[0]["values"][5] == pytest.approx(previous, rel=1e-3)


def test_scores_without_a_place_are_no_numbers(model):
    scores = wb.head_scores(model, tokens=torch.arange(7)[None])  # nothing is said twice
    widget = AttentionDashboard(model, torch.arange(7)[None], scores=scores)
    induction = next(score for score in widget._scores if score["name"] == "induction")
    assert (induction["chance"], set(induction["values"])) == (None, {None})
    json.loads(json.dumps(everything(widget)["_scores"], allow_nan=False))
    widget.to_html()  # which refuses what JSON cannot hold


def test_one_token_has_no_scores(model):
    widget = AttentionDashboard(model, torch.tensor([[3]]))
    assert list(widget.scores.columns) == ["kind", "layer", "head", "score", "chance"]
    assert len(widget.scores) == 0


def test_scores_from_elsewhere(model):
    scores = wb.head_scores(model, ("induction",))
    widget = AttentionDashboard(model, some_tokens(1), scores=scores, heads=[1, 3])
    assert [score["name"] for score in widget._scores] == ["induction"]
    np.testing.assert_allclose(widget._scores[0]["values"], scores["induction"][:, [1, 3]].flatten(), rtol=1e-3)
    with pytest.raises(InputError, match="scores are of 1 layers x 1 heads; 3 x 2 are shown"):
        AttentionDashboard.from_weights(["a"] * 4, torch.ones(3, 2, 4, 4).tril() / 4, scores=wb.head_scores(smaller()))


def smaller():
    norm = RMSNormSpec()
    layer = PreNorm(AttentionSpec(1, 1, 8, rotary=RotarySpec(base=100.0)), GatedMLPSpec(24), norm, norm)
    return powered(wb.ModelSpec(16, 64, TokenEmbeddingSpec(VOCAB), None, (layer,), norm, TiedUnembeddingSpec()))


def test_a_selection_goes_into_an_ablation(model):
    tokens, metric = some_tokens(1), wb.logit(3)
    widget = AttentionDashboard(model, tokens)
    widget.selection = [[0, 1], (2, 3), [0, 1]]
    assert widget.selection == [(0, 1), (2, 3)]
    found = wb.ablate(model, tokens, metric, selection=widget.selection, progress=False)
    wanted = wb.ablate(model, tokens, metric, selection=[(0, 1), (2, 3)], progress=False)
    assert torch.equal(found.values, wanted.values)
    clean, corrupted = tokens, some_tokens(1, seed=3)
    wb.activation_patching(model, clean, corrupted, metric, "z", selection=widget.selection, progress=False)


# Two runs.


def test_two_texts_side_by_side(model):
    tokens, others = some_tokens(1, seed=0), some_tokens(1, seed=1)
    widget = AttentionDashboard(model, tokens, against=others, layer=2, head=1, names=("clean", "corrupted"))
    for shown, run in zip(patterns_of(everything(widget)), (tokens, others), strict=True):
        np.testing.assert_allclose(shown, model(run)[1][2][0, 1].numpy(), atol=1e-6)
    assert widget._against == [str(int(token)) for token in others[0]]
    [difference] = [score for score in widget._scores if score["name"] == "difference"]
    for (layer, head, _), value in zip(widget._heads, difference["values"], strict=True):
        one, other = (model(run)[1][layer][0, head] for run in (tokens, others))
        assert value == pytest.approx((one - other).abs().sum(-1).mean().item() / 2, rel=1e-3)


def test_before_and_after_an_edit(model):
    tokens = some_tokens(1)
    edited = model.with_hooks([wb.zero("z", layers=0)])
    widget = AttentionDashboard(model, tokens, against=edited, layer=2, head=1)
    before, after = patterns_of(everything(widget))
    np.testing.assert_allclose(before, model(tokens)[1][2][0, 1].numpy(), atol=1e-6)
    np.testing.assert_allclose(after, edited(tokens)[1][2][0, 1].numpy(), atol=1e-6)
    widget.quantity = "value_weighted"
    factors = np.frombuffer(widget._columns, "<f4").reshape(2, -1)
    assert not np.allclose(factors[0], factors[1], rtol=1e-3)


def test_runs_that_cannot_be_laid_side_by_side(model):
    with pytest.raises(InputError, match="text 0 has 7 tokens and the one in against= 8"):
        AttentionDashboard(model, some_tokens(1), against=some_tokens(1, 8))
    with pytest.raises(InputError, match="1 text and 2 in against="):
        AttentionDashboard(model, some_tokens(1), against=some_tokens(2))
    with pytest.raises(InputError, match=r"3 layers and the one in against= 1"):
        AttentionDashboard(model, some_tokens(1), against=smaller())


# When things are sent.


def test_only_the_layer_that_is_looked_at_is_computed(weights):
    lazy = Lazy(weights)
    widget = AttentionDashboard.from_weights(["a"] * 4, lazy, layer=1)
    lazy.looked.clear()
    for head in (1, 0, 1):
        widget.head = head
        np.testing.assert_array_equal(patterns_of(everything(widget))[0], weights[1, head].numpy())
    assert lazy.looked == []
    widget.layer = 2
    widget.layer = 1  # only one layer is kept
    assert lazy.looked == [2, 1]


def test_switching_sends_one_head_in_one_message(causal):
    widget = AttentionDashboard.from_weights(words(1024), causal(1, 2, 1024))
    line = Line(widget)
    widget.head = 1
    with_bytes = [(m, b) for m, b in line.messages if b]
    assert len(with_bytes) == 1
    message, buffers = with_bytes[0]
    assert set(message["state"]) == {"_shown"}
    assert message["buffer_paths"] == [["_pattern"]]
    assert sum(map(len, buffers)) < 1_100_000
    assert len(json.dumps([m for m, _ in line.messages])) < 2000


def test_opening_a_large_model_is_within_the_budget(causal):
    weights = causal(1, 1, 1024).expand(32, 32, 1024, 1024)
    widget = AttentionDashboard.from_weights(words(1024), Lazy(weights))
    sent = everything(widget)
    data = sum(len(value) for value in sent.values() if isinstance(value, bytes | memoryview))
    text = len(json.dumps({k: v for k, v in sent.items() if not isinstance(v, bytes | memoryview | bytearray)}))
    assert data + text + len(widget._esm) + len(widget._css) < 5_000_000


def test_two_dashboards_share_nothing(weights):
    one, two = (AttentionDashboard.from_weights(["a"] * 4, weights) for _ in range(2))
    one.layer, one.query, one.selection, one.hidden = 2, 3, [(0, 0)], [1]
    assert (two.layer, two.query, two.selection, two.hidden) == (0, -1, [], [])
    assert two._pattern == AttentionDashboard.from_weights(["a"] * 4, weights)._pattern


def test_a_look_that_fails_is_told_and_gets_over(weights):
    broken = Lazy([weights[0], torch.zeros(2, 3, 3), weights[2]])
    with pytest.raises(InputError, match="over 3 queries"):
        AttentionDashboard.from_weights(["a"] * 4, broken)  # a thumbnail wants every layer
    lazy = Lazy([*weights])
    widget = AttentionDashboard.from_weights(["a"] * 4, lazy)
    lazy.weights[1] = torch.zeros(2, 3, 3)
    before = widget._pattern
    with pytest.raises(InputError, match="over 3 queries"):
        widget.layer = 1
    assert widget._failed["layer"] == 1
    assert widget._failed["why"].startswith("InputError: layer 1 is over 3 queries and 3 keys")
    assert (widget._pattern, widget._shown["layer"]) == (before, 0)
    widget.layer = 2
    assert widget._failed == {}
    np.testing.assert_array_equal(patterns_of(everything(widget))[0], weights[2, 0].numpy())


# Texts and forms.


def test_a_batch_is_stepped_through(model):
    tokens, mask = some_tokens(2), torch.ones(2, 7, dtype=torch.long)
    mask[1, :3] = 0
    widget = AttentionDashboard(model, tokens, attention_mask=mask, layer=1, head=2)
    widget.queries, widget.hidden = [2, 6], [0, 5]
    widget.example = 1
    assert widget._tokens == [str(int(token)) for token in tokens[1, 3:]]
    wanted = model(tokens, attention_mask=mask)[1][1][1, 2, 3:, 3:].numpy()
    np.testing.assert_allclose(patterns_of(everything(widget))[0], wanted, atol=1e-6)
    assert (widget.queries, widget.query, widget.hidden) == ([2], 2, [0])  # what the shorter text has
    assert len(widget._thumbs_of) == 2
    with pytest.raises(InputError, match="there is no example 2: there are 2 examples"):
        widget.example = 2
    assert widget.example == 1


def test_what_a_view_waits_for_comes_with_another_text(model):
    """Columns, locked rows of a long text and the metric's scores are of the text before: they are sent anew."""
    torch.manual_seed(5)
    tokens = torch.randint(VOCAB, (2, 300))
    widget = AttentionDashboard(model, tokens, layer=1, head=2, quantity="contribution", query=270)
    widget.score = widget.x = "direct_logit"
    line = Line(widget)
    widget.example = 1
    other = AttentionDashboard(model, tokens, layer=1, head=2, quantity="contribution", query=270, example=1)
    told, wanted = line.traits(), everything(other)
    for name in ("_tokens", "_pattern", "_columns", "_columns_of", "_row", "_thumbs", "_scores"):
        assert told[name] == wanted[name], name
    assert everything(widget)["_row_of"] == wanted["_row_of"]
    assert (widget.score, widget.x, widget._failed) == ("direct_logit", "direct_logit", {})
    widget.quantity, widget.query, widget.example = "value_weighted", -1, 0
    assert widget._columns_of == {"layer": 1, "head": 2, "quantity": "value_weighted"}
    assert (widget._row_of, widget.score) == ({}, "direct_logit")  # of the metric, whatever columns are weighed by


def test_a_score_that_another_text_has_no_place_for_is_let_go(model):
    twice, once = some_tokens(1).repeat(1, 2), torch.arange(14)[None]
    widget = AttentionDashboard(model, torch.cat([twice, once]), score="induction", x="entropy", y="duplicate_token")
    widget.example = 1
    assert (widget.score, widget.x, widget.y) == ("", "entropy", "")
    assert widget.state["score"] == ""


def test_the_direct_score_may_be_asked_for_at_once(model):
    widget = AttentionDashboard(model, some_tokens(1), quantity="contribution")
    widget.score, widget.quantity = "direct_logit", "attention"
    again = AttentionDashboard(model, some_tokens(1), state=widget.state)
    assert again.score == "direct_logit"
    assert again._scores == widget._scores
    with pytest.raises(InputError, match="there is no score 'direct_logit'"):
        AttentionDashboard.from_weights(["a", "b"], torch.eye(2).expand(1, 1, 2, 2), score="direct_logit")


def test_positions_that_one_text_lacks_are_refused_at_once(model):
    mask = torch.ones(2, 7, dtype=torch.long)
    mask[1, 4:] = 0
    with pytest.raises(InputError, match="there is no position 5: there are 4 positions"):
        AttentionDashboard(model, some_tokens(2), attention_mask=mask, positions=[0, 5])


def test_text_and_lists_of_texts(smollm):
    widget = AttentionDashboard(smollm, ["Paris is the capital of", "Two and two make"], example=1)
    assert widget._tokens == ["Two", "␣and", "␣two", "␣make"]
    assert widget._examples == 2


@pytest.mark.parametrize("form", [list, torch.clone, lambda w: [x[None] for x in w], lambda w: w[:, None], Lazy])
def test_every_form_of_weights(weights, form):
    widget = AttentionDashboard.from_weights(["a"] * 4, form(weights), layer=2, head=1)
    np.testing.assert_array_equal(patterns_of(everything(widget))[0], weights[2, 1].numpy())
    assert widget._quantities == ["attention"]


def test_some_positions_layers_and_heads(model):
    tokens = some_tokens(1, 12)
    widget = AttentionDashboard(model, tokens, positions=[2, 3, 7, 11], layers=[2, 1], heads=[3, 0])
    assert widget._positions == [2, 3, 7, 11]
    assert [pair[:2] for pair in widget._heads] == [[1, 0], [1, 3], [2, 0], [2, 3]]
    assert (widget.layer, widget.head) == (1, 0)
    assert widget._note.startswith("4 of 12 positions are shown")
    widget.layer, widget.head = 2, 3
    chosen = torch.tensor([2, 3, 7, 11])
    wanted = model(tokens)[1][2][0, 3][chosen[:, None], chosen].numpy()
    np.testing.assert_allclose(patterns_of(everything(widget))[0], wanted, atol=1e-6)
    widget.query = 7
    for trait, value, says in [
        ("query", 4, "no query 4: positions go from 2 to 11"),
        ("head", 1, "layer 2, head 1 is not among the heads shown; choose layers= and heads= with it"),
        ("layer", 0, "layer 0 is not among the layers shown; choose layers= with it"),
    ]:
        with pytest.raises(InputError, match=re.escape(says)):
            setattr(widget, trait, value)


def test_more_than_a_page_holds_is_a_part_and_says_so(model):
    tokens = some_tokens(1, 1500)
    widget = AttentionDashboard(model, tokens)
    assert len(widget._tokens) == 1024
    assert widget._note == "Positions 0 to 1023 of 1500 are shown; positions= chooses others."
    late = AttentionDashboard(model, tokens, positions=range(1400, 1500), layer=1, head=3)
    wanted = model(tokens)[1][1][0, 3, 1400:, 1400:].numpy()
    np.testing.assert_allclose(patterns_of(everything(late))[0], wanted, atol=2e-6)
    assert all(score["chance"] is None for score in late._scores)
    with pytest.raises(TooLargeError, match="1100 positions came; a page shows 1024 at most: pass positions="):
        AttentionDashboard(model, tokens, positions=range(1100))
    many = torch.eye(3).expand(80, 64, 3, 3)
    widget = AttentionDashboard.from_weights(["a"] * 3, Lazy(many))
    assert widget._note == "2304 of 5120 heads are shown, layers 0 to 35; layers= and heads= choose others."
    with pytest.raises(TooLargeError, match="5120 heads came; a page shows 2304 at most: pass fewer layers="):
        AttentionDashboard.from_weights(["a"] * 3, Lazy(many), layers=range(80))


# Choices.


@pytest.mark.parametrize(
    ("trait", "value", "says"),
    [
        ("layer", 3, "there is no layer 3: there are 3 layers"),
        ("head", -1, "there is no head -1: there are 2 heads"),
        ("query", 4, "there is no query 4: positions go from 0 to 3, and -1 locks none"),
        ("queries", [0, 9], "there is no query 9: positions go from 0 to 3, and -1 locks none"),
        ("hidden", [4], "there is no column 4: positions go from 0 to 3"),
        ("selection", [(0, 5)], "there is no head 5: there are 2 heads"),
        ("selection", [(9, 0)], "there is no layer 9: there are 3 layers"),
        ("selection", [3], "selection is a list of (layer, head) pairs; 3 is none"),
        ("quantity", "value_weighted", "quantity 'value_weighted' needs the model, and only weights came"),
        ("quantity", "raw", "quantity is 'raw'; 'attention' or 'value_weighted' or 'contribution' is wanted"),
        ("scale", "cube", "scale is 'cube'; 'sqrt' or 'linear' or 'log' is wanted"),
        ("direction", "up", "direction is 'up'; 'attends_to' or 'attended_by' is wanted"),
        ("score", "induktion", "there is no score 'induktion'; the nearest are: induction"),
    ],
)
def test_what_does_not_exist_is_refused(weights, trait, value, says):
    widget = AttentionDashboard.from_weights(["a", "b", "a", "b"], weights)
    before = getattr(widget, trait)
    with pytest.raises((InputError, KindError), match=f"^{re.escape(says[:60])}"):
        setattr(widget, trait, value)
    assert getattr(widget, trait) == before
    with pytest.raises((InputError, KindError), match=f"^{re.escape(says[:60])}"):
        AttentionDashboard.from_weights(["a", "b", "a", "b"], weights, **{trait: value})


def test_query_and_queries_say_the_same(weights):
    widget = AttentionDashboard.from_weights(["a"] * 4, weights)
    widget.query = 2
    assert widget.queries == [2]
    widget.queries = [1, 3]
    assert widget.query == 3
    widget.query = 1
    assert widget.queries == [1]  # one alone, though it was among several
    widget.query = 0
    assert widget.queries == [0]
    widget.query = -1
    assert widget.queries == []


def test_a_state_is_taken_back(model):
    tokens = some_tokens(2)
    widget = AttentionDashboard(model, tokens)
    seen = []
    widget.observe(lambda change: seen.append(change.new), names="state")
    for name, value in {
        "example": 1, "layer": 2, "head": 3, "queries": [2, 5], "selection": [(1, 2)], "quantity": "value_weighted",
        "direction": "attended_by", "scale": "log", "hidden": [0], "renormalise": True, "score": "first_token",
        "ordered": True, "minimum": 0.25, "arrangement": "scatter", "x": "entropy", "y": "previous_token",
    }.items():  # fmt: skip
        setattr(widget, name, value)
    assert json.loads(json.dumps(widget.state)) == widget.state == seen[-1]
    again = AttentionDashboard(model, tokens, state=json.loads(json.dumps(widget.state)))
    assert again.state == widget.state
    assert (again.example, again.layer, again.head, again.query, again.selection) == (1, 2, 3, 5, [(1, 2)])
    assert everything(again)["_pattern"] == everything(widget)["_pattern"]
    assert everything(again)["_columns"] == everything(widget)["_columns"]
    fresh = AttentionDashboard(model, tokens)
    fresh.state = widget.state
    assert fresh.state == widget.state
    assert everything(fresh)["_pattern"] == everything(widget)["_pattern"]
    assert AttentionDashboard(model, tokens, state=widget.state, layer=0).layer == 0
    assert AttentionDashboard(model, tokens, state=widget.state, query=1).queries == [1]
    assert AttentionDashboard(model, tokens, state=widget.state, queries=[4, 3]).query == 3
    with pytest.raises(InputError, match=r"query is 1 and queries are \[4\]"):
        AttentionDashboard(model, tokens, query=1, queries=[4])


def test_a_state_of_something_else_is_refused(model, weights):
    widget = AttentionDashboard(model, some_tokens(1))
    other = AttentionDashboard(smaller(), some_tokens(1))
    with pytest.raises(
        InputError, match=r"the state is of a model of 1 layers x 1 heads .* this dashboard of a model of 3"
    ):
        widget.state = other.state
    with pytest.raises(InputError, match="the state is of"):
        AttentionDashboard(model, some_tokens(1), state=other.state)
    with pytest.raises(InputError, match="the state is of weights"):
        widget.state = AttentionDashboard.from_weights(["a"] * 4, weights).state
    with pytest.raises(KindError, match="a state is a dictionary"):
        AttentionDashboard(model, some_tokens(1), state=3)
    with pytest.raises(InputError, match="does not say what it is of"):
        AttentionDashboard(model, some_tokens(1), state={"layer": 1})
    with pytest.raises(InputError, match="a state has no 'heat'; the nearest are: head"):
        AttentionDashboard(model, some_tokens(1), state={**widget.state, "heat": 1})
    before = dict(widget.state)
    with pytest.raises(InputError, match="no query 99"):
        widget.state = {**before, "layer": 2, "query": 99, "queries": [99]}
    with pytest.raises(InputError, match=r"query is 1 and queries are \[3\]: query is the last"):
        widget.state = {**before, "layer": 2, "query": 1, "queries": [3]}
    assert widget.state == before
    assert (widget.layer, widget.query) == (0, -1)


# What does not fit.


@pytest.mark.parametrize(
    ("tokens", "weights", "error", "says"),
    [
        (["a"] * 3, torch.zeros(1, 1, 4, 4), InputError, "4 positions and 3 tokens came"),
        (["a"] * 4, torch.zeros(1, 4, 4), InputError, "not one of rank 2"),
        (["a"] * 4, [torch.zeros(1, 4, 4), torch.zeros(4, 4)], InputError, "not one of rank 2"),
        (["a"] * 4, torch.zeros(1, 1, 3, 4), InputError, "over 3 queries and 4 keys"),
        (["a"] * 4, [], InputError, "no layer"),
        (["a"] * 4, 7, KindError, "not int"),
        ("abcd", torch.zeros(1, 1, 4, 4), KindError, "not str"),
    ],
)
def test_weights_that_do_not_fit_are_refused(tokens, weights, error, says):
    with pytest.raises(error, match=says):
        AttentionDashboard.from_weights(tokens, weights)


def test_layers_may_have_different_heads():
    layers = [torch.eye(4).expand(2, 4, 4), torch.eye(4).expand(3, 4, 4)]
    widget = AttentionDashboard.from_weights(["a"] * 4, layers)
    assert [pair[:2] for pair in widget._heads] == [[0, 0], [0, 1], [1, 0], [1, 1], [1, 2]]


def test_other_things_that_are_refused(model, weights):
    with pytest.raises(InputError, match="no example 1: there is 1 example"):
        AttentionDashboard(model, some_tokens(1), example=1)
    with pytest.raises(TypeError, match="no argument 'hed'; the nearest are: head"):
        AttentionDashboard.from_weights(["a"] * 4, weights, hed=1)
    with pytest.raises(TypeError, match="no argument 'agianst'"):
        AttentionDashboard(model, some_tokens(1), agianst=some_tokens(1))
    with pytest.raises(KindError, match="a model that wb"):
        AttentionDashboard(torch.nn.Linear(2, 2), some_tokens(1))
    with pytest.raises(KindError, match="names are what the two runs are called"):
        AttentionDashboard(model, some_tokens(1), names="clean")
    with pytest.raises(KindError, match=r"scores are those of wb\.head_scores, not dict"):
        AttentionDashboard(model, some_tokens(1), scores={})
    with pytest.raises(KindError, match="positions= is a list of numbers"):
        AttentionDashboard(model, some_tokens(1), positions=["a"])
    with pytest.raises(InputError, match="layers is empty"):
        AttentionDashboard(model, some_tokens(1), layers=[])
