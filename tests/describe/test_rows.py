import pytest

from rlhf_exp.config.compose import compose_config
from rlhf_exp.describe.rows import load_tokenizer, read_rows
from rlhf_exp.errors import ConfigError
from rlhf_exp.launch.arguments import compose_command


def read(*overrides):
    cfg = compose_config(["algo=none", *overrides])
    return read_rows(cfg, load_tokenizer(cfg))


def test_a_task_that_draws_its_rows_has_demonstrations_and_prompts():
    _, splits = read("task=countdown", "task.train_rows=20", "eval.rows=10")
    assert {split: len(rows) for split, (_, rows) in splits.items()} == {"demonstrations": 20, "train": 20, "test": 10}
    assert [*splits["demonstrations"][1][0]] == ["prompt", "completion"]
    _, splits = read("task=countdown", "eval.rows=10", "task.numbers=[2]")  # without end
    assert len(splits["demonstrations"][1]) == len(splits["train"][1]) == 4096


def test_a_folder_without_a_tokenizer_is_refused_in_one_line(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    cfg, _ = compose_command("describe", ["algo=none"], ["task=countdown", f"model.path={tmp_path}"])
    with pytest.raises(ConfigError) as caught:
        load_tokenizer(cfg)
    assert caught.value.problems == [
        f"model.path={tmp_path}: holds no tokenizer; must have a tokenizer.json, or its older files"
    ]
