"""Arguments of the wrong kind, each of which is one sentence. Run by itself, without the checks of shapes that the
tests put around the package."""

import re

import pytest
import torch
from random_models import powered, some_tokens
from test_cache import plain_spec

import workbench as wb

model = powered(plain_spec())
logits, cache = model.run_with_cache(some_tokens())
parts = cache.decompose_resid()
KIND, METRIC, INPUT = wb.errors.KindError, wb.errors.MetricError, wb.errors.InputError

CASES = [
    (KIND, "'last'", lambda: model.run_with_cache(some_tokens(), pos_slice="last")),
    (KIND, "1.5", lambda: model.run_with_cache(some_tokens(), pos_slice=1.5)),
    (KIND, "'last'", lambda: cache.accumulated_resid(pos_slice="last")),
    (KIND, "1.5", lambda: cache.accumulated_resid(pos_slice=1.5)),
    (KIND, "True", lambda: cache.accumulated_resid(pos_slice=True)),
    (KIND, "layer is 1.0", lambda: cache.accumulated_resid(1.0)),
    (KIND, "layer is True", lambda: cache.decompose_resid(True)),
    (KIND, "1.5", lambda: cache.logit_attrs(parts, 1.5)),
    (KIND, "None", lambda: cache.logit_attrs(parts, None)),
    (KIND, "True", lambda: cache.logit_attrs(parts, torch.tensor([True, False]))),
    (KIND, "no tokenizer", lambda: cache.logit_attrs(parts, ["a", "b"])),
    (INPUT, "3 tokens", lambda: cache.logit_attrs(parts, [1, 2, 3])),
    (KIND, "1.5", lambda: wb.logit(1.5)(logits)),
    (KIND, "None", lambda: wb.logit(None)(logits)),
    (KIND, "[]", lambda: wb.logit([])(logits)),
    (KIND, "True", lambda: wb.logit(True)(logits)),
    (KIND, "bool", lambda: wb.logit(torch.tensor([True, False]))(logits)),
    (KIND, "float 2.5", lambda: wb.logit([[1, 2.5], [3, 4]])(logits)),
    (METRIC, "empty", lambda: wb.logit([[1, 2], []])(logits)),
    (KIND, "list", lambda: wb.kl_from([1.0])),
    (METRIC, "'end'", lambda: wb.logit(1, pos="end")(logits)),
    (METRIC, "None", lambda: wb.logit(1, pos=None)(logits)),
    (METRIC, "1.5", lambda: wb.logit(1, pos=1.5)(logits)),
    (METRIC, "True", lambda: wb.logit(1, pos=True)(logits)),
    (METRIC, "[7, 23]", lambda: wb.logit(1)(logits[0])),
    (METRIC, "str", lambda: wb.logit(1)("logits")),
    (KIND, "1.5 came", lambda: wb.answer_logprob(1.5)(logits)),
    (KIND, "a tensor [pos] or [batch, pos]; str came", lambda: wb.loss("a b")),
    (KIND, "'4'", lambda: wb.logit_lens(model, some_tokens(), top_k="4")),
    (KIND, "1.5", lambda: wb.logit_lens(model, some_tokens(), top_k=1.5)),
    (KIND, "True", lambda: wb.logit_lens(model, some_tokens(), top_k=True)),
]

if __name__ == "__main__":
    for kind, says, wrong in CASES:
        with pytest.raises(kind, match=re.escape(says)) as caught:
            wrong()
        assert "\n" not in str(caught.value)
    print(len(CASES), "refused")
