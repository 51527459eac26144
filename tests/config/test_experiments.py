"""Every file of conf/experiment: it composes, passes its dry run, and its _tiny file runs here."""

import json

import pytest

from rlhf_exp.config import ROOT
from rlhf_exp.config.compose import compose_config
from rlhf_exp.config.model_shape import ASSETS
from rlhf_exp.config.trl_args import build_args
from rlhf_exp.dry_run.show import print_dry_run
from rlhf_exp.errors import ConfigError

EXPERIMENTS = sorted(path.stem for path in (ROOT / "conf" / "experiment").glob("*.yaml"))
BREVITY = ("brevity_lr_1e-5", "brevity_lr_1e-6", "brevity_lr_1e-5_tiny", "brevity_lr_1e-6_tiny")
BY_REWARD_MODEL = [f"hh_rlhf_gpt2_{algo}{twin}" for algo in ("ppo", "grpo") for twin in ("", "_tiny")]
LONGER_BELOW = (*BY_REWARD_MODEL, "brevity_lr_1e-5_tiny", "hh_rlhf_gpt2_reward_model_tiny")


def compose(name, *overrides):
    other = ["reward.path=org/reward_model"] if name in BY_REWARD_MODEL else []
    other += [f"teacher.path={ASSETS / 'tiny'}"] if name == "compare_distill" else []
    return compose_config([f"experiment={name}", "device=cpu", *other, *overrides])


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_composes_with_arguments_that_trl_takes(name):
    build_args(compose(name))


# What the settings of a study are, whatever the model's size would bring.
OWN_ARGS = ("learning_rate", "max_steps", "per_device_train_batch_size", "gradient_accumulation_steps")
OF_TINY = {
    "compare_grpo": (1e-3, 1e-6), "compare_dr_grpo": (1e-3, 1e-6), "compare_ppo": (5e-4, 1e-6),
    "compare_rloo": (1e-3, 1e-6), "compare_kto": (1e-4, 5e-7), "compare_dpo": (1e-4, 5e-7),
    "compare_distill": (1e-3, 1e-6),
    **dict.fromkeys(("compare_sft", "compare_rejection_sampling", "countdown_rejection_sampling"), (1e-3, 2e-5)),
}  # fmt: skip


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if not name.endswith("_tiny")])
def test_a_study_hangs_on_no_default(name):
    small, large = (compose(name, f"model.parameters={size}") for size in ("1e6", "7e10"))
    own = OWN_ARGS[name in OF_TINY :]
    assert {key: small.algo.args[key] for key in own} == {key: large.algo.args[key] for key in own}
    assert small.max_tokens == large.max_tokens
    assert small.eval.batch_size == large.eval.batch_size == 128  # evaluation draws batch after batch from one seed


@pytest.mark.parametrize("name", OF_TINY)
def test_a_study_of_the_tiny_model_lends_no_other_model_its_rate(name):
    rates = tuple(compose(name, f"model={model}").algo.args["learning_rate"] for model in ("tiny", "qwen3_1_7b"))
    assert rates == OF_TINY[name]


def test_a_separate_critic_has_its_own_rate():
    def rate(*overrides):
        return compose("compare_ppo", *overrides).algo.args["critic_learning_rate"]

    assert (rate(), rate("algo.args.critic=separate"), rate("model=gpt2")) == (5e-3, 1e-3, 1e-4)


@pytest.mark.parametrize("name", BREVITY)
def test_brevity_has_its_steps(name):
    cfg = compose(name)
    args = build_args(cfg)
    minibatch = args.per_device_train_batch_size * args.gradient_accumulation_steps
    assert (args.generation_batch_size, minibatch, args.num_generations) == (16, 4, 1)
    per_update = args.generation_batch_size // minibatch * args.num_iterations
    assert args.max_steps / per_update == (100 if name.endswith("tiny") else 600)
    assert cfg.algo.args["critic_learning_rate"] == cfg.algo.args["learning_rate"]


def test_the_two_rates_of_brevity_differ_by_ten_and_in_nothing_else():
    for twin, rate in (("", 1e-5), ("_tiny", 1e-3)):
        high, low = compose(f"brevity_lr_1e-5{twin}"), compose(f"brevity_lr_1e-6{twin}")
        assert (high.algo.args["learning_rate"], low.algo.args["learning_rate"]) == (rate, pytest.approx(rate / 10))
        same = dict.fromkeys(("learning_rate", "critic_learning_rate", "output_dir"))
        assert {**high.algo.args, **same} == {**low.algo.args, **same}
    assert compose("brevity_lr_1e-5").model.name == "gpt2"


@pytest.mark.learning
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_passes_its_dry_run(name, miniatures, capsys):
    cfg = compose(name)
    overrides = [f"model.path={miniatures[cfg.model.name]}"] if cfg.model.name in miniatures else []
    source = "task.of.source" if cfg.task.name == "brevity" else "task.source"
    overrides.append("eval.rows=64")  # problems take their time to draw, and texts to count
    overrides += ["task.train_rows=256"] * (cfg.task.name != "brevity" and cfg.task.source != "file")
    if (cfg.task.of if cfg.task.name == "brevity" else cfg.task).source == "hub":
        overrides.append(f"{source}=generated")
    print_dry_run(compose(name, *overrides))
    assert "\nchecks   all passed; " in capsys.readouterr().out


def test_rows_of_the_hub_that_are_not_cached_are_named(miniatures, capsys, monkeypatch):
    def fail(*args, **kwargs):
        raise ConnectionError("offline")

    monkeypatch.setattr("datasets.load_dataset", fail)
    print_dry_run(compose("countdown_qwen3", f"model.path={miniatures['qwen3_1_7b']}"))
    unchecked = "task.hub_id=Jiayi-Pan/Countdown-Tasks-3to4: cannot be loaded; its rows and prompts"
    assert f"not checked here: {unchecked}; " in capsys.readouterr().out
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    with pytest.raises(ConfigError):
        print_dry_run(compose("countdown_qwen3", f"model.path={miniatures['qwen3_1_7b']}"))


@pytest.mark.learning
@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if name.endswith("_tiny") and name not in LONGER_BELOW])
def test_every_twin_takes_two_steps(name, tmp_path, command_line):
    few = ["task.train_rows=64"] if name.startswith("hh_rlhf") else []
    few += ["algo.args.gradient_accumulation_steps=4"] if name.startswith("gsm8k") else []
    few += ["algo.args.steps_per_generation=4"] if name == "gsm8k_ppo_tiny" else []
    short = ("algo.args.logging_steps=1", "eval.rows=4", "eval.cache_dir=null", "device=cpu", "device.threads=1")
    done = command_line(f"experiment={name}", "algo.args.max_steps=2", *short, *few, "output_dir=run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    assert {"baseline", "trained"} <= set(json.loads((tmp_path / "run" / "evaluation.json").read_text()))
    assert json.loads((tmp_path / "run" / "run.json").read_text())["steps"] == 2
    if name in BREVITY:
        sample = json.loads((tmp_path / "run" / "samples.jsonl").read_text().splitlines()[0])
        assert sample["rewards"] == {"brevity": pytest.approx(2 - len(sample["completion"].split()) / 16)}
