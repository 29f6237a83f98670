"""The house: who imports whom, what is exported, and what importing costs."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import workbench as wb
from workbench.families import supported

PACKAGE = Path(wb.__file__).parent

# A room imports only from rooms before it.
ROOMS = """
    errors keywords files sizes sites hooks presets spec tokenizer metrics model counting arithmetic decompose cache
    inputs recorder run generate interventions families pretrained formats weights hooked loading family_check
    recompute sweep_result sweep tasks attribution lenses heads figures widgets cli
""".split()

# Within the model, a file imports only from files before it.
MODEL = """
    precision linear softcap memory masks pass_ positions rotary_scaling rotary norms qk_norm softmax dot_product
    attention latent_attention mlp router moe block embedding transformer init
""".split()


# A method that draws, or a table, imports its room when it is called.
WHEN_CALLED = {("sweep_result", "figures"), ("attribution", "figures"), ("lenses", "figures"), ("heads", "figures")}


def imports(path: Path, inside_functions: bool):
    """The modules of the workbench that a file imports, as dotted paths; those for type checkers only left out."""
    package = path.relative_to(PACKAGE.parent).with_suffix("").parts[:-1]

    def visit(node: ast.AST, deep: bool):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                continue
            within = deep or isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef))
            if within == inside_functions and isinstance(child, ast.ImportFrom):
                base = package[: len(package) - child.level + 1] if child.level else ()
                module = ".".join([*base, *([child.module] if child.module else [])])
                named = module.split(".")
                yield from [named] if len(named) > 1 or child.module else [[*named, name.name] for name in child.names]
            elif within == inside_functions and isinstance(child, ast.Import):
                yield from (name.name.split(".") for name in child.names)
            yield from visit(child, within)

    for module in visit(ast.parse(path.read_text()), False):
        if module[0] == "workbench" and len(module) > 1:
            yield module


def files():
    return [
        path
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.parent != PACKAGE or path.stem not in ("__init__", "__main__")
    ]


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def test_every_file_stands_in_a_room():
    assert {room(path) for path in files()} == set(ROOMS)


def test_rooms_import_only_from_rooms_before_them():
    for path in files():
        for module in imports(path, inside_functions=False):
            here, there = room(path), module[1]
            assert ROOMS.index(there) <= ROOMS.index(here), f"{path} imports {'.'.join(module)}"
        for module in imports(path, inside_functions=True):
            here, there = room(path), module[1]
            late = (here, there) in WHEN_CALLED
            assert late or ROOMS.index(there) <= ROOMS.index(here), f"{path} imports {'.'.join(module)} when called"


def test_the_model_is_built_from_the_ground_up():
    for path in sorted((PACKAGE / "model").glob("[!_]*.py")):
        for module in imports(path, inside_functions=False):
            if module[1] == "model":
                assert MODEL.index(module[2]) < MODEL.index(path.stem), f"{path} imports {'.'.join(module)}"


def test_only_blocks_and_the_embedding_add_to_the_stream():
    """`x + something` where x is a stream: the residual additions, each in its place."""
    for path in sorted((PACKAGE / "model").glob("*.py")):
        additions = [
            node
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and ast.unparse(node.left) == "x"
        ]
        assert not additions or path.stem in ("block", "positions"), path


def test_what_is_exported_is_there():
    assert sorted(wb.__all__) == wb.__all__
    for name in wb.__all__:
        assert getattr(wb, name) is not None
    assert "logit_diff" in dir(wb)


def test_a_misspelt_export_names_the_nearest():
    with pytest.raises(AttributeError, match="activation_patching"):
        wb.activation_patch  # noqa: B018


def test_importing_brings_only_what_is_needed():
    """No transformers, and nothing that draws until something is drawn."""
    heavy = "transformers plotly pandas ipywidgets anywidget typer huggingface_hub matplotlib"
    code = f"import sys, workbench; print([name for name in {heavy.split()} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_everything_but_an_in_memory_model_works_without_transformers(tmp_path):
    code = f"""
import sys
sys.modules["transformers"] = None
import torch, workbench as wb
from random_models import powered
from workbench.families.llama import spec
from workbench.families._config import Config
model = powered(spec(Config(dict(hidden_size=8, num_attention_heads=2, num_hidden_layers=1, intermediate_size=8,
                                 vocab_size=11, max_position_embeddings=16), "here")))
model.save({str(tmp_path / "m")!r})
wb.load({str(tmp_path / "m")!r})(torch.tensor([[1, 2]]))
wb.load("smollm2-135m")("Hello")
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parent)


def test_the_readme_lists_every_family():
    table = (PACKAGE.parent / "README.md").read_text().split("| families | |")[1].split("| GGUF |")[0]
    listed = table.replace("|", ",").replace(" (Pythia)", "").split(",")
    assert {name.strip() for name in listed} >= set(supported())
