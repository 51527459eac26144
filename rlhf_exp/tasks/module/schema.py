"""The keys of task=module: which file, and what it is given."""

import symtable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rlhf_exp.config.values import show
from rlhf_exp.tasks.schema import GradedKeys


@dataclass(frozen=True)
class Keys(GradedKeys):
    """A task with `build_grader` in its file is graded. `source`, `path`, `hub_id` and `options` are for the file to
    use; what of `provides` it has, its `load` alone can say."""

    name: Literal["module"]
    module: str | None
    options: dict[str, Any]
    hub_id: str | None
    gives_pairs: bool

    file = "a file or a folder"
    chooses_by_source = False
    reads_folder = True
    graded_by = ("a build_grader in the file of task.module",)

    def __post_init__(self) -> None:
        names = self._list_names()
        object.__setattr__(self, "graded", names is None or "build_grader" in names)

    @property
    def functions(self) -> dict[str, str]:
        return {"module": f"{self.module}:load"} if str(self.module).endswith(".py") else {}

    def find_problems(self, key: str) -> list[str]:
        problems = super().find_problems(key)
        if not self.functions:
            problems.append(f"{key}.module={show(self.module)}: must be a Python file, such as {key}.module=mine.py")
        if self.samples is not None and not self.graded:
            problems.append(f"{key}.samples={self.samples}: {self.module} has no build_grader to grade samples with")
        return problems

    def _list_names(self) -> set[str] | None:
        """The names at the top of the file, of which nothing is run; None if it cannot be read, which is said
        elsewhere (config/rules/files.py)."""
        try:
            file = Path(self.module or "").expanduser()
            if not file.is_file():  # a pipe would be waited for
                return None
            source = file.read_bytes()
            return {symbol.get_name() for symbol in symtable.symtable(source, "", "exec").get_symbols()}
        except (OSError, SyntaxError, ValueError):
            return None
