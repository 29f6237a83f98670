"""Shapes are checked in every test: jaxtyping's annotations become assertions."""

import sys

from jaxtyping import install_import_hook

# Not the doors (inputs, hooked, formats, cli): these check what people give them and say so in their own words.
CHECKED = ["workbench.model", "workbench.decompose", "workbench.metrics", "workbench.lenses"]
install_import_hook(CHECKED, "beartype.beartype")

import pytest  # noqa: E402
import torch  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402

import workbench as wb  # noqa: E402
from workbench import cli  # noqa: E402

torch.set_num_threads(1)  # the models are tiny, and threads that wait for each other cost more than they do
settings.register_profile(
    "house",
    deadline=None,
    max_examples=20,
    derandomize=True,  # the same examples everywhere, so that a landing does not fail by luck
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("house")


@pytest.fixture(scope="session")
def smollm() -> wb.HookedTransformer:
    """SmolLM2-135M, fetched once into the user's cache."""
    return wb.load("smollm2-135m")


@pytest.fixture
def run(monkeypatch, capsys):
    """Exit code, output and error lines of `workbench` with arguments."""

    def called(*arguments):
        monkeypatch.setattr(sys, "argv", ["workbench", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        out, err = capsys.readouterr()
        return end.value.code or 0, out, err

    return called
