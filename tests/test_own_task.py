"""Runs the commands and the functions of docs/own_task.md."""

import shlex

from rlhf_exp.config import ROOT
from rlhf_exp.config.compose import compose_config
from rlhf_exp.models.loading import load_tokenizer, resolve_model
from rlhf_exp.tasks import load_task
from tests.test_docs import read_fences


def list_blocks(language):
    return [text for name, text in read_fences(ROOT / "docs" / "own_task.md") if name == language]


def test_the_commands_pass_their_dry_run(tmp_path, command_line):
    commands = list_blocks("bash")
    assert len(commands) == 5
    for number, command in enumerate(commands):
        arguments = shlex.split(command.replace("\\\n", " "))
        assert arguments[:3] == ["python", "-m", "rlhf_exp"]
        arguments = ["model=tiny_qwen3" if word.startswith("model=") else word for word in arguments]  # not of the hub
        done = command_line(*arguments[3:], "dry_run=true", f"output_dir={tmp_path / str(number)}", cwd=ROOT)
        assert done.returncode == 0 and "checks   all passed" in done.stdout, done.stderr


def test_the_checkers_grade():
    functions = [source for source in list_blocks("python") if "def grade(" in source and "class " not in source]
    assert len(functions) == 2
    for source in functions:
        scope = {}
        exec(source, scope)
        right, wrong = (scope["grade"](text, {"keyword": "cat", "answer": "cat"}) for text in (" cat\n", ""))
        assert (getattr(right, "score", right), getattr(wrong, "score", wrong)) == (1, 0)


def test_the_shortest_task_of_a_module_has_rows_that_it_grades(tmp_path):
    (source,) = (source for source in list_blocks("python") if "def rows(" in source)
    (tmp_path / "mine.py").write_text(source)
    cfg = compose_config(["task=module", f"task.module={tmp_path / 'mine.py'}", "eval.rows=8", "device=cpu"])
    task = load_task(cfg, load_tokenizer(resolve_model(cfg, tmp_path)))
    row = task.train[0]
    assert len(task.eval) == 8 and row["prompt"] == "use {} {} make {} .".format(*row["numbers"], row["target"])
    assert [task.grade(f"= {row['target'] + more}", row).outcome for more in (0, 1)] == ["correct", "failed"]


def test_the_conversation_is_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (row,) = list_blocks("json")
    (tmp_path / "FILE.jsonl").write_text("".join(row.replace("2 + 2", f"{n} + 2") for n in range(99)))
    (command,) = (text for text in list_blocks("text") if "task.completion_column=messages" in text)
    cfg = compose_config([*shlex.split(command)[3:-2], "reward=none", "model=tiny_qwen3", "device=cpu"])
    tokenizer = load_tokenizer(resolve_model(cfg, tmp_path))
    tokenizer.chat_template = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    task = load_task(cfg, tokenizer)
    assert {row["completion"][0]["content"] for row in task.train} == {"It is 4."}
