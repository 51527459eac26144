"""Where secrets are sought, and rows that cannot be read."""

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


def test_a_row_that_is_nested_too_deep_is_one_line(tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"prompt": ' + 10_000 * "[" + 10_000 * "]" + "}\n")
    with pytest.raises(ConfigError) as caught:
        list(read_lines(rows))
    [problem] = caught.value.problems
    assert problem.startswith(f"{rows}, line 1: not JSON (")
