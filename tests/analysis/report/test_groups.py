"""How the settings of runs are told apart and what they are called."""

import json

import pytest

from rlhf_exp.analysis.report.groups import group_runs, name_method, sort_runs
from rlhf_exp.runs.load import load_run


@pytest.fixture
def make(tmp_path):
    """A run of any algorithm; `config` says what its config has besides, `args` the trainer's arguments."""

    def build(name, algo="grpo", seed=0, loss_type="grpo", max_tokens=64, engine=None, typed=(), config=(), inputs=(),
              samples=None, **args):  # fmt: skip
        info = {"algo": algo, "loss_type": loss_type, "task": "countdown", "max_tokens": max_tokens,
                "inputs": dict(inputs), "status": "finished", "seed": seed, "eval_engine": engine}  # fmt: skip
        whole = {"seed": seed, "max_tokens": max_tokens, "algo": {"name": algo, "args": {"seed": seed} | args},
                 "task": {"name": "countdown", "samples": samples}, "reward": {"random": {"seed": seed}}}  # fmt: skip
        (tmp_path / name / ".hydra").mkdir(parents=True)
        (tmp_path / name / "run.json").write_text(json.dumps(info))
        (tmp_path / name / ".hydra" / "config.yaml").write_text(json.dumps(whole | dict(config)))
        (tmp_path / name / ".hydra" / "overrides.yaml").write_text(json.dumps(list(typed)))
        return load_run(tmp_path / name)

    return build


@pytest.mark.parametrize(
    ("algo", "given", "name"),
    [("sft", {"loss_type": "nll"}, "sft"), ("sft", {"loss_type": "nll", "samples": "self"}, "rejection sampling"),
     ("dpo", {"loss_type": ["sigmoid"]}, "dpo"), ("ppo", {"loss_type": None}, "ppo"),
     ("grpo", {"loss_type": "dr_grpo"}, "dr_grpo")],
)  # fmt: skip
def test_a_method_is_named_as_people_name_it(make, algo, given, name):
    assert name_method(make("a", algo, **given)) == name


def test_methods_that_differ_in_everything_are_called_by_their_names_in_a_fixed_order(make):
    """One that is not known comes last."""
    runs = [make("a", "unknown"), make("b", "ppo", loss_type=None, vf_coef=0.1), make("c", "sft", learning_rate=1e-3)]
    assert list(group_runs(sort_runs([*runs, make("d", "grpo")]))) == ["sft", "grpo", "ppo", "unknown"]


def of_ppo(**more):
    return {"algo": "ppo", "loss_type": None} | more


def pay(weight):
    """A weight of the reward, which TRL's arguments repeat, and another number of held-out rows."""
    config = {"reward": {"weights": {"overlong": weight}}, "eval": {"rows": 100 * weight}}
    return {"reward_weights": [weight], "config": config}


def type_both(first, second):
    """Runs of two prices, and what was typed for each."""
    common = ["max_tokens=64", "output_dir=x"]
    return [{"beta": beta, "seed": seed, "typed": [*common, f"seed={seed}", *filter(None, [text])]}
            for seed, (beta, text) in enumerate(((0.0, first), (0.1, second)))]  # fmt: skip


BETAS = ["beta=0.0", "beta=0.1"]
LABELS = {
    "only what differs within a method": (
        [{"beta": 0.0}, {"beta": 0.1}, of_ppo(beta=0.2)], ["grpo beta=0.0", "grpo beta=0.1", "ppo"]),
    "budgets for every method": (
        [{"loss_type": loss, "max_tokens": n} for loss in ("grpo", "dr_grpo") for n in (32, 64)],
        [f"{loss} max_tokens={n}" for loss in ("grpo", "dr_grpo") for n in (32, 64)]),
    "the engine that measured": (
        [{}, {"seed": 1, "engine": "vllm", "config": {"eval": {"engine": "auto"}}}, of_ppo(engine="transformers")],
        ["grpo eval.engine=transformers", "grpo eval.engine=vllm", "ppo eval.engine=transformers"]),
    "what was typed": (type_both("reward=outcome", "reward=overlong"), ["reward=outcome", "reward=overlong"]),
    "experiments": (type_both("experiment=fast", "experiment=slow"), ["fast", "slow"]),
    "what was typed for one": (type_both("", "+algo.args.beta=1e-1"), ["beta=0.0", "beta=1e-1"]),
    "the config, where nothing was typed": (type_both("", ""), BETAS),
    "the config, where the same was typed": (type_both("reward=outcome", "reward=outcome"), BETAS),
    "what was varied within a method": (
        [{"beta": 0.1, "typed": ["algo=grpo", "reward=outcome"]}, of_ppo(typed=["algo=ppo", "reward=outcome"]),
         {"beta": 0.2, "typed": ["algo=grpo", "reward=overlong"]}],
        ["grpo reward=outcome", "ppo", "grpo reward=overlong"]),
    "nothing that follows from the rest or belongs to the measurement": (
        [pay(0.1), pay(0.2)], ["reward.weights.overlong=0.1", "reward.weights.overlong=0.2"]),
}  # fmt: skip


@pytest.mark.parametrize("case", LABELS)
def test_settings_are_called_by(make, case):
    runs, labels = LABELS[case]
    assert list(group_runs([make(f"{place}", **given) for place, given in enumerate(runs)])) == labels


@pytest.mark.parametrize(
    ("name", "algo"), [("task.checker", "grpo"), ("task.path", "dpo"), ("reward.functions.short", "ppo"),
                       ("model.path", "sft"), ("start model", "grpo"), ("held-out rows", "grpo")]
)  # fmt: skip
def test_runs_of_other_files_behind_the_same_names_are_other_settings(make, name, algo):
    common = {"task.path": "0" * 64}
    runs = [make("a", algo, inputs=common | {name: "a" * 64}), make("b", algo, 1, inputs=common | {name: "a" * 64}),
            make("c", algo, 2, inputs=common | {name: "b" * 64}), make("d", algo, 3, inputs={})]  # fmt: skip
    groups = group_runs(runs)
    assert {label: [run.path.name for run in group] for label, group in groups.items()} == {
        f"{name} sha256=aaaaaaaa": ["a", "b", "d"], f"{name} sha256=bbbbbbbb": ["c"]
    }  # fmt: skip


def test_what_a_run_drew_by_its_seed_is_no_other_input(make):
    def pair(name, algo):
        return [make(f"{name} {algo} {n}", algo, n, inputs={name: str(n) * 64}) for n in (0, 1)]

    assert len(group_runs(pair("rows to train on", "grpo"))) == 1
    assert len(group_runs(pair("held-out rows", "dpo"))) == 1
    runs = pair("start model", "grpo")
    for run in runs:
        run.config["model"] = {"init": {"hidden_size": 64}}
    assert len(group_runs(runs)) == 1


def test_runs_with_little_in_common_are_called_by_their_folders(make):
    keys = {f"argument_{n}": "a value" for n in range(9)}
    runs = [make("first-0", "grpo", **keys), make("first-1", "grpo", 1, **keys), make("other", "grpo")]
    assert group_runs(runs)["first"] == runs[:2]


@pytest.mark.parametrize("names", [("a", "b"), ("x/a", "y/a")])
def test_settings_whose_labels_would_be_equal_lose_no_run(make, names):
    runs = [make(name, "grpo", seed, typed=["eval.seed=${seed}"]) for seed, name in enumerate(names)]
    for run in runs:
        run.config["eval"] = {"seed": run.info.seed}
    assert sorted(len(group) for group in group_runs(runs).values()) == [1, 1]
