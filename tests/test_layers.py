"""Which module may import which: no circles, no arrow up the layers, and no torch where a refusal must be fast."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "rlhf_exp"

LAYERS = (
    ("errors", "processes", "progress", "commands", "analysis.stats", "forms", "algorithms", "findings",
     "config.values", "runs.files", "runs.records"),
    ("graders",),  # texts to grades: tasks and rewards call them
    ("config", "tasks", "rewards.countdown", "rewards.table"),  # a config is of the keys of tasks and rewards
    ("runs",),
    ("models",),
    ("tasks.sampled", "tasks.countdown_policies"),
    ("rewards",),
    ("experiment",),  # what it is made of is below, who takes it above
    ("callbacks", "trainers"),
    ("evaluation",),
    ("analysis.frame", "analysis.diagnose", "analysis.report"),
    ("describe", "dry_run"),
    ("preflight",),  # it estimates memory as a dry run does
    ("train",),
    ("pipeline",),
    ("launch",),
    ("analysis.study",),
    ("__main__", "__init__", "analysis", "api", "audit", "calibrate", "samples"),
)  # fmt: skip
"""From the bottom. A module is in the layer of its longest prefix here, and imports from its own layer and below."""

WITHOUT_TORCH = ("algorithms", "analysis", "api", "commands", "config", "errors", "experiment", "launch",
                 "models.source", "processes", "runs")  # fmt: skip
HEAVY = ("torch", "transformers", "trl", "datasets")


def name_module(path: Path) -> str:
    """rewards.model for rlhf_exp/rewards/model.py; rewards for its `__init__.py`."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


MODULES = {name_module(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def list_imports(node: ast.AST) -> Iterator[str]:
    """Modules of the package that are imported somewhere in a syntax tree, except for type checkers."""
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return
    names = []
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, "imports are absolute here"
        inner = [f"{node.module}.{alias.name}" for alias in node.names]
        names = [name if name.removeprefix("rlhf_exp.") in MODULES else node.module for name in inner]
    yield from (name.removeprefix("rlhf_exp.") for name in names if name.startswith("rlhf_exp."))
    for child in ast.iter_child_nodes(node):
        yield from list_imports(child)


IMPORTS = {name: sorted(set(list_imports(ast.parse(path.read_text())))) for name, path in MODULES.items()}


def find_layer(module: str) -> int:
    """The number of a module's layer, from 0 at the bottom."""
    if module.endswith("__main__") or module in ("audit", "calibrate", "samples"):  # a command
        return len(LAYERS) - 1
    found = [(len(name), i) for i, names in enumerate(LAYERS) for name in names if f"{module}.".startswith(f"{name}.")]
    assert found, f"rlhf_exp.{module} is in no layer"
    return max(found)[1]


def test_no_module_imports_itself_by_way_of_others():
    TopologicalSorter(IMPORTS).prepare()  # its error names the circle


def test_each_module_imports_from_its_own_layer_and_below():
    up = [f"{name} -> {found}" for name in IMPORTS for found in IMPORTS[name] if find_layer(found) > find_layer(name)]
    assert sorted(set(up)) == []


def test_a_mistake_is_refused_without_an_import_of_torch():
    prefixes = tuple(f"{name}." for name in WITHOUT_TORCH)
    light = [f"rlhf_exp.{name}" for name in MODULES if f"{name}.".startswith(prefixes)]
    assert len(light) > 40
    code = f"import sys, {', '.join(light)}\nprint([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
