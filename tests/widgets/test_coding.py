import numpy as np
import pytest
import torch

from workbench.widgets.coding import Coding, encode


def decoded(coding, data, n):
    """What attention.js does, in Python."""
    values = np.frombuffer(data, "<f4" if coding.dtype == "float32" else "<u2").astype(np.float64)
    if coding.dtype == "uint16":
        values = (values / 65535) ** 2
    if not coding.half:
        return values.reshape(n, n)
    pattern = np.zeros((n, n))
    pattern[np.tril_indices(n)] = values
    return pattern


@pytest.mark.parametrize("n", [1, 14, 256])
def test_short_texts_are_exact(causal, n):
    pattern = causal(1, 1, n)[0, 0].numpy()
    coding, data = encode(pattern)
    assert coding == Coding("float32", half=True)
    np.testing.assert_array_equal(decoded(coding, data, n).astype(np.float32), pattern)
    assert len(data) == n * (n + 1) // 2 * (4 if n <= 256 else 2)


def test_long_texts_err_by_less_than_is_shown(causal):
    pattern = causal(1, 1, 1024)[0, 0].numpy()
    coding, data = encode(pattern)
    assert coding == Coding("uint16", half=True)
    assert len(data) == 1024 * 1025 < 1_100_000
    assert np.abs(decoded(coding, data, 1024) - pattern).max() < 2e-5


def test_a_uniform_head_of_1024_tokens_is_not_zero():
    pattern = (torch.ones(1024, 1024).tril() / torch.arange(1, 1025)[:, None]).numpy()
    coding, data = encode(pattern)
    assert decoded(coding, data, 1024)[-1, 0] == pytest.approx(1 / 1024, abs=2e-6)


def test_without_a_mask_everything_is_sent():
    pattern = np.full((300, 300), 1 / 300, np.float32)
    coding, data = encode(pattern)
    assert coding == Coding("uint16", half=False)
    assert len(data) == 300 * 300 * 2
    np.testing.assert_allclose(decoded(coding, data, 300), pattern, atol=2e-5)


@pytest.mark.parametrize("odd", [-0.5, 1.5, np.nan])
def test_weights_that_are_no_shares_stay_exact(odd):
    pattern = np.zeros((300, 300), np.float32)
    pattern[7, 3] = odd
    coding, data = encode(pattern)
    assert coding == Coding("float32", half=True)
    np.testing.assert_array_equal(decoded(coding, data, 300), pattern)
