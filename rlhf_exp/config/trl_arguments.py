"""The arguments of TRL's config classes: names, types and defaults; no import of TRL is needed to know them.

    known = load_arguments("grpo")
    known["beta"]                                     # Argument(annotation=float, default=0.0)

Importing TRL takes seconds, so assets/trl_arguments.json records names, types and defaults for the versions named
there. With other versions installed, TRL is imported instead. After a change of a version, of PPOConfig, or of the
algorithms:

    python -m rlhf_exp.config.trl_arguments      # rewrites the file
"""

import ast
import enum
import json
import os
import types
import typing
from dataclasses import MISSING, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_type_hints

from rlhf_exp.algorithms import ALGORITHMS, load_object
from rlhf_exp.config.device import find_version
from rlhf_exp.config.values import fits

os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # read when TRL's config is imported

FILE = Path(__file__).parent.parent / "assets" / "trl_arguments.json"
PACKAGES = ("trl", "transformers")  # TRL's config classes inherit from transformers'

# transformers 5 silently ignores the old name if the new one is set too, and the configs set the new one.
RENAMED = {
    "gradient_checkpointing": "activation_checkpointing",
    "gradient_checkpointing_kwargs": "activation_checkpointing_kwargs",
}

_NAMES = {"int": int, "float": float, "bool": bool, "str": str, "dict": dict, "None": type(None), "Any": Any}


@dataclass(frozen=True)
class Argument:
    annotation: Any
    default: Any


def load_config_class(algo: str) -> type:
    """The TRL config class of an algorithm; the first call imports TRL's config module, and with it torch."""
    return load_object(ALGORITHMS[algo].config_class)


def load_arguments(algo: str) -> dict[str, Argument]:
    """The arguments of the installed TRL: from the file if its versions are the installed ones, else by import. A row
    that a program has added has those of a recorded row with the same class."""
    recorded, wanted = _read_file(), ALGORITHMS[algo].config_class
    alike = [name for name in (algo, *ALGORITHMS) if name in recorded["arguments"]]
    found = next((name for name in alike if ALGORITHMS[name].config_class == wanted), None)
    if found is None or recorded["versions"] != read_versions():
        return inspect_arguments(algo)
    return _parse_arguments(found)


@cache
def inspect_arguments(algo: str) -> dict[str, Argument]:
    """The arguments as the installed TRL declares them; a type is narrowed to the choices that TRL lists."""
    config_class = load_config_class(algo)
    hints, found = get_type_hints(config_class), {}
    for item in fields(config_class):
        default = item.default_factory() if item.default_factory is not MISSING else item.default
        annotation = narrow(item.metadata.get("choices"), hints[item.name])
        # In the form that the file has: no enums, and a class that it cannot hold by its name alone.
        found[item.name] = Argument(_read_type(ast.parse(spell(annotation), mode="eval").body), default)
    return {name: item for name, item in found.items() if name not in RENAMED}


def read_versions() -> dict[str, str | None]:
    """The installed versions of the packages that declare the arguments."""
    return {name: find_version(name) for name in PACKAGES}


def write_file() -> None:
    """Write the file from the installed TRL, one argument per line."""
    blocks = []
    for algo in ALGORITHMS:
        lines = [
            f"{json.dumps(name)}: {json.dumps({'type': spell(item.annotation), 'default': item.default})}"
            for name, item in sorted(inspect_arguments(algo).items())
        ]
        blocks.append(f"{json.dumps(algo)}: {{\n" + ",\n".join(lines) + "\n}")
    body = f'{{"versions": {json.dumps(read_versions())},\n"arguments": {{\n' + ",\n".join(blocks) + "\n}}\n"
    FILE.write_text(body, encoding="utf-8")


def spell(annotation: Any) -> str:
    """A type as text that `_read_type` reads: an enum as its values, any other class by its name."""
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        has_enum = any(isinstance(part, type) and issubclass(part, enum.Enum) for part in parts)
        return " | ".join(spell(part) for part in parts if not (has_enum and part is str))
    if origin is Literal:
        return f"Literal{list(parts)}"
    if origin in (list, tuple, dict):
        return f"{origin.__name__}[{', '.join(spell(part) for part in parts)}]"
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return f"Literal{[member.value for member in annotation]}"
    return "None" if annotation is type(None) else "Any" if annotation is Any else annotation.__name__


@cache
def _read_file() -> dict[str, Any]:
    return json.loads(FILE.read_text(encoding="utf-8"))


@cache
def _parse_arguments(algo: str) -> dict[str, Argument]:
    return {
        name: Argument(_read_type(ast.parse(item["type"], mode="eval").body), item["default"])
        for name, item in _read_file()["arguments"][algo].items()
    }


def _read_type(node: ast.expr) -> Any:
    if isinstance(node, ast.BinOp):
        return typing.Union[_read_type(node.left), _read_type(node.right)]  # noqa: UP007
    if isinstance(node, ast.Subscript):
        items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if node.value.id == "Literal":
            return Literal[tuple(ast.literal_eval(item) for item in items)]
        return {"list": list, "tuple": tuple, "dict": dict}[node.value.id][tuple(_read_type(item) for item in items)]
    if isinstance(node, ast.Constant):
        return type(None)
    return _NAMES.get(node.id) or type(node.id, (), {})  # a class that no YAML value is of


def narrow(choices: Any, hint: Any) -> Any:
    """The annotation, as a Literal if the choices are known."""
    if not choices:
        return hint
    closed = Literal[tuple(choices)]
    return closed | None if fits(None, hint) else closed


if __name__ == "__main__":
    write_file()
