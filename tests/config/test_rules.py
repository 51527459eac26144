"""TRL's arguments beside our own keys, secrets, other words for a key, and weights as pickles."""

import pytest

from rlhf_exp.config.reading import check_overrides
from rlhf_exp.errors import HIDDEN, ConfigError, assign
from rlhf_exp.tasks.sources import read_lines


@pytest.mark.parametrize(
    "override",
    [
        *("output_dir=/tmp/max_token=96", "task.path=/data/my_token:v1.jsonl", "task.path=/data/{a,my_token:b}"),
        *("+reward.functions.per_token=f.py:fn", "+reward.weights.per_token=0.5", "+reward.weights={per_token: 1}"),
    ],
)
def test_a_secret_is_sought_in_keys_and_neither_in_values_nor_in_names_of_rewards(override):
    assert check_overrides([override]) == []
    assert HIDDEN not in assign(*override.lstrip("+").split("=", 1))


def test_a_model_whose_weights_are_a_pickle_is_refused(tmp_path, refuse):
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    (tmp_path / "pytorch_model.bin").write_bytes(b"no weights")
    [problem] = refuse(f"model.path={tmp_path}", "model.parameters=1e6")
    assert (problem.key, problem.kind) == ("model.path", "missing") and "as a pickle, pytorch_model.bin" in problem


def test_a_row_that_is_nested_too_deep_is_one_line(tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"prompt": ' + 10_000 * "[" + 10_000 * "]" + "}\n")
    with pytest.raises(ConfigError) as caught:
        list(read_lines(rows))
    [problem] = caught.value.problems
    assert problem.startswith(f"{rows}, line 1: not JSON (")
