"""TRL's arguments beside our own keys, secrets, other words for a key, and weights as pickles."""

import pytest

from rlhf_exp.config.compose import compose_config
from rlhf_exp.config.overrides import check_overrides
from rlhf_exp.errors import HIDDEN, ConfigError, assign
from rlhf_exp.tasks.sources import read_lines


@pytest.mark.parametrize("name", ["none", "lora", "qlora"])
def test_our_own_keys_pass_through(name):
    cfg = compose_config([f"peft={name}", "seed=5", "max_tokens=9", "reward=overlong", "model.trust_remote_code=true"])
    assert (cfg.algo.args["seed"], cfg.algo.args["reward_weights"]) == (5, [1.0, 0.25])


def test_a_rate_of_the_model_counts_where_the_algorithm_follows_it():
    assert compose_config(["model.learning_rate.grpo=1e-6"]).algo.args["learning_rate"] == 1e-6
    assert compose_config(["model.learning_rate.sft=1e-6", "algo.args.learning_rate=1e-5"])


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


@pytest.mark.parametrize(
    ("override", "algo", "meant"),
    [
        ("+algo.args.lr=1e-4", "grpo", "algo.args.learning_rate?"),
        ("+algo.args.epochs=3", "grpo", "algo.args.num_train_epochs?"),
        ("+algo.args.warmup_ratio=0.1", "sft", "algo.args.warmup_steps, of which a value below 1 is a share"),
        ("+algo.args.group_by_length=true", "sft", "algo.args.train_sampling_strategy?"),
        ("+algo.args.logging_dir=logs", "dpo", "output_dir?"),
    ],
)
def test_another_word_for_an_argument_finds_it(override, algo, meant, refuse):
    [line] = refuse(f"algo={algo}", override)
    assert f"no such key; did you mean {meant}" in line


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
    assert caught.value.problems == [f"{rows}, line 1: nested too deep to be read"]


@pytest.mark.parametrize("algo", ["grpo", "sft", "dpo"])
def test_the_loss_may_be_left_to_trl(algo):
    assert "loss_type" not in compose_config([f"algo={algo}", "~loss_type"]).algo.args
