import json

import pytest

from rlhf_exp.analysis.report.groups import group_runs, name_method, sort_runs
from rlhf_exp.runs.load import load_run


@pytest.fixture
def make(tmp_path):
    """A run of any algorithm, with what its config says besides."""

    def build(
        name, algo, seed=0, samples=None, loss_type="grpo", max_tokens=64, inputs=None, engine=None, typed=(), **args
    ):
        info = {
            "algo": algo,
            "loss_type": loss_type,
            "task": "countdown",
            "max_tokens": max_tokens,
            "inputs": inputs or {},
        }
        info |= {"status": "finished", "seed": seed, "eval_engine": engine}
        config = {
            "seed": seed, "max_tokens": max_tokens, "algo": {"name": algo, "args": {"seed": seed} | args},
            "task": {"name": "countdown", "samples": samples}, "reward": {"random": {"seed": seed}},
        }  # fmt: skip
        (tmp_path / name / ".hydra").mkdir(parents=True)
        (tmp_path / name / "run.json").write_text(json.dumps(info))
        (tmp_path / name / ".hydra" / "config.yaml").write_text(json.dumps(config))
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


def test_only_what_differs_within_a_method_is_added_to_its_name(make):
    runs = [make("a", "grpo", beta=0.0), make("b", "grpo", beta=0.1), make("c", "ppo", loss_type=None, beta=0.2)]
    assert list(group_runs(runs)) == ["grpo beta=0.0", "grpo beta=0.1", "ppo"]


def test_budgets_are_named_for_every_method(make):
    runs = [make(f"{loss}{n}", "grpo", loss_type=loss, max_tokens=n) for loss in ("grpo", "dr_grpo") for n in (32, 64)]
    labels = ["grpo max_tokens=32", "grpo max_tokens=64", "dr_grpo max_tokens=32", "dr_grpo max_tokens=64"]
    assert list(group_runs(runs)) == labels


def test_runs_that_were_measured_by_other_engines_are_other_settings(make):
    runs = [make("a", "grpo"), make("b", "grpo", 1, engine="vllm")]
    runs.append(make("c", "ppo", loss_type=None, engine="transformers"))
    runs[1].config["eval"] = {"engine": "auto"}
    labels = ["grpo eval.engine=transformers", "grpo eval.engine=vllm", "ppo eval.engine=transformers"]
    assert list(group_runs(runs)) == labels


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


@pytest.mark.parametrize(
    ("typed", "labels"),
    [(("reward=outcome", "reward=overlong"), ["reward=outcome", "reward=overlong"]),
     (("experiment=fast", "experiment=slow"), ["fast", "slow"]),
     (("", "+algo.args.beta=1e-1"), ["beta=0.0", "beta=1e-1"]),
     (("", ""), ["beta=0.0", "beta=0.1"]),
     (("reward=outcome", "reward=outcome"), ["beta=0.0", "beta=0.1"])],
)  # fmt: skip
def test_settings_of_one_method_are_called_by_what_was_typed(make, typed, labels):
    """What was not typed is read from the config; what does not tell the groups apart is no label."""
    runs = []
    for place, (text, beta) in enumerate(zip(typed, (0.0, 0.1), strict=True)):
        common = [f"seed={place}", f"output_dir=out{place}", "max_tokens=64"]
        runs.append(make(f"{place}", "grpo", beta=beta, typed=[*common, *filter(None, [text])]))
    assert list(group_runs(runs)) == labels


def test_what_was_varied_within_a_method_follows_its_name(make):
    typed = [["algo=grpo", "reward=outcome"], ["algo=grpo", "reward=overlong"], ["algo=ppo", "reward=outcome"]]
    runs = [make("a", "grpo", beta=0.1, typed=typed[0]), make("b", "grpo", beta=0.2, typed=typed[1])]
    runs.append(make("c", "ppo", loss_type=None, typed=typed[2]))
    assert list(group_runs(runs)) == ["grpo reward=outcome", "grpo reward=overlong", "ppo"]


def test_no_label_has_what_follows_from_the_rest_or_belongs_to_the_measurement(make):
    runs = [make(f"{weight}", "grpo", reward_weights=[weight]) for weight in (0.1, 0.2)]
    for run, weight in zip(runs, (0.1, 0.2), strict=True):
        run.config["reward"]["weights"] = {"overlong": weight}
        run.config["eval"] = {"rows": 100 * weight}
    assert list(group_runs(runs)) == ["reward.weights.overlong=0.1", "reward.weights.overlong=0.2"]


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
