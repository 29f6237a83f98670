"""Published model families, one file each, named as `model_type` in a Hugging Face config.

A family file says how a config becomes a spec and where each parameter lies in a file:

    def spec(config: Config) -> ModelSpec
    def sources(spec: ModelSpec) -> Sources                 # parameter name -> tensor of the file
    PREFIX: str                                             # what a bare backbone leaves off its names
    IGNORED: tuple[str, ...]                                # patterns of tensors that are no parameters
    def of_no_use(spec, left: Set[str]) -> set[str]         # optional: more of these, where patterns cannot tell

and, where llama.cpp writes the family,

    GGUF_ARCHITECTURE: str                                  # its name there
    GGUF_KEYS: dict[str, str | None]                        # llama.cpp's key -> the config's key; None for no effect
    def is_gguf(said: Mapping[str, Any]) -> bool            # optional: of families with one architecture, is it this?
    def gguf_config(said: Config, tensors: Set[str]) -> dict[str, Any]  # optional: what the keys leave unsaid
    def from_gguf(name, tensor, spec) -> Tensor             # optional: undo what llama.cpp does to a tensor

There is no list to add it to: the folder is the list.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

from ..errors import FamilyError


def supported() -> list[str]:
    """The model types that can be loaded."""
    return sorted(module.name for module in iter_modules(__path__) if not module.name.startswith("_"))


def family(model_type: object) -> ModuleType:
    """The family of a config's `model_type`; FamilyError lists what is supported."""
    if model_type not in supported():
        raise FamilyError(
            f"the family {model_type!r} is not supported; there are: {', '.join(supported())} "
            "(a family is one file: workbench/families/ADDING.md says how to add it)"
        )
    return import_module(f"{__name__}.{model_type}")
