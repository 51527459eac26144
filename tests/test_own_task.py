"""Runs the commands and the functions of docs/own_task.md."""

import re
import shlex

import pytest

from rlhf_exp.config import ROOT

PAGE = ROOT / "docs" / "own_task.md"

if not PAGE.is_file():
    pytest.skip("docs are not installed with the package", allow_module_level=True)


def list_blocks(language):
    return re.findall(f"^```{language}\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def test_the_commands_pass_their_dry_run(tmp_path, command_line):
    commands = list_blocks("bash")
    assert len(commands) == 2
    for number, command in enumerate(commands):
        arguments = shlex.split(command.replace("\\\n", " "))
        assert arguments[:3] == ["python", "-m", "rlhf_exp"]
        done = command_line(*arguments[3:], "dry_run=true", f"output_dir={tmp_path / str(number)}", cwd=ROOT)
        assert done.returncode == 0 and "all checks passed" in done.stdout, done.stderr


def test_the_checkers_grade():
    functions = list_blocks("python")
    assert len(functions) == 2
    for source in functions:
        scope = {}
        exec(source, scope)
        right, wrong = (scope["grade"](completion, {"keyword": "cat"}) for completion in ("a cat", ""))
        assert (getattr(right, "score", right), getattr(wrong, "score", wrong)) == (1, 0)
