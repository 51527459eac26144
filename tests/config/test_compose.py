from importlib.util import find_spec
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
from hydra import compose, initialize_config_dir
from hydra.errors import MissingConfigException

from rlhf_exp.algorithms import ALGORITHMS
from rlhf_exp.config import ROOT, device
from rlhf_exp.config.compose import compose_config, register_resolvers
from rlhf_exp.config.keys import known_keys
from rlhf_exp.config.rules import machine
from rlhf_exp.config.schema import TASKS
from rlhf_exp.launch.explain import explain
from rlhf_exp.rewards.table import REWARDS
from rlhf_exp.tasks import find_task

CONF = ROOT / "conf"


def list_options(group):
    return sorted(path.stem for path in (CONF / group).glob("*.yaml"))


def test_every_config_file_composes_and_checks(any_machine, refuse):
    files = sorted([*CONF.rglob("*.yaml"), *(ROOT / "sweeps").rglob("*.yaml")])
    checked = 0
    for file in files:
        group, option = file.parent.name, file.stem
        if group in ("conf", "sweeps"):
            continue
        overrides = [
            f"{group}={option}",
            f"dry_run={'true' if group in ('scale', 'hardware') else 'false'}",
        ]  # a run has processes
        by_reward_model = option.startswith(("hh_rlhf_gpt2_ppo", "hh_rlhf_gpt2_grpo"))
        if (
            option in ("model", "none")
            and group == "reward"
            or group == "task"
            and option in ("hh_rlhf", "file", "module")
            or by_reward_model
        ):
            refuse(*overrides)  # without a trained reward model, a path, a file
        else:
            compose_config(overrides)
        checked += 1
    assert checked == len(files) - 2 - len(list((ROOT / "sweeps").glob("*.yaml")))  # beside config.yaml and online.yaml


def test_the_defaults_are_the_main_job():
    cfg = compose_config()
    assert (cfg.algo.name, cfg.task.name, cfg.model.name) == ("grpo", "countdown", "tiny")
    assert cfg.algo.args["loss_type"] == "grpo"
    assert (cfg.eval.limit, cfg.eval.split, cfg.max_tokens) == (1_400, "test", 96)


def test_a_study_uses_the_main_config_as_its_base():
    register_resolvers()
    with initialize_config_dir(str(ROOT / "sweeps"), version_base="1.3"):
        overrides = [f"hydra.searchpath=[file://{CONF}]", "hydra/launcher=basic"]
        cfg = compose("countdown_loss_x_tokens", overrides, return_hydra_config=True)
    assert cfg.algo.name == "grpo"
    assert dict(cfg.hydra.sweeper.params) == {
        "loss_type": "grpo,dr_grpo",
        "max_tokens": "32,64,96",
        "seed": "0,1,2",
    }


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_every_algorithm_has_its_loss_and_refuses_anothers(algo, refuse):
    row = ALGORITHMS[algo]
    chosen = compose_config([f"algo={algo}"]).algo.args.get("loss_type")
    assert chosen == row.loss or chosen in row.losses
    unnamed = [name for name in ALGORITHMS if not ALGORITHMS[name].losses]
    for other in (name for name in ALGORITHMS if name != algo and (row.losses or name in unnamed)):
        [problem] = refuse(f"algo={algo}", f"loss_type={other}")
        assert (problem.key, problem.kind) == ("loss_type", "conflict" if row.trains else "idle")


def test_a_misspelt_loss_is_refused_with_the_nearest():
    with pytest.raises(MissingConfigException) as caught:
        compose_config(["loss_type=dr_grpoo"])
    line = explain(caught.value, [])
    assert line.startswith("loss_type=dr_grpoo: no such option; must be one of bnpo, cispo, dapo, dpo, dr_grpo, ")
    assert line.endswith("; did you mean dr_grpo?")


def test_what_trl_receives_follows_our_own_keys():
    cfg = compose_config(["max_tokens=7", "seed=3", "device=cpu", "model=gpt2", "output_dir=outputs/x"])
    args = cfg.algo.args
    assert (args["max_completion_length"], args["seed"], args["use_cpu"]) == (7, 3, True)
    assert args["learning_rate"] == cfg.model.learning_rate["grpo"] == 1e-5
    assert args["output_dir"] == "outputs/x/checkpoints"


def test_a_number_in_scientific_notation_is_a_number():
    assert compose_config(["algo.args.learning_rate=1e-3"]).algo.args["learning_rate"] == 1e-3
    assert compose_config().model.learning_rate["grpo"] == 1e-3


def test_dr_grpo_does_not_scale_rewards():
    assert compose_config(["loss_type=dr_grpo"]).algo.args["scale_rewards"] == "none"
    assert "scale_rewards" not in compose_config(["loss_type=grpo"]).algo.args


def test_names_tie_configs_tables_and_modules_together():
    assert set(list_options("algo")) == set(ALGORITHMS)
    assert set(list_options("task")) == set(TASKS)
    in_files = [row.losses for row in ALGORITHMS.values() if row.losses and row.loss is None]
    assert set(list_options("loss_type")) == {loss for losses in in_files for loss in losses}
    for task, keys in TASKS.items():
        assert get_args(get_type_hints(keys)["name"]) == (task,) and find_task(task).Keys is keys
    for row in ALGORITHMS.values():
        assert not row.trains or find_spec(row.trainer.partition(":")[0])
    assert set(list_options("reward")) == {*REWARDS, "none"}
    assert {name for name, reward in REWARDS.items() if reward.function is None} == {"model"}
    assert all(reward.function.__name__ == name for name, reward in REWARDS.items() if reward.function)


def test_known_keys_are_those_of_the_default_config():
    register_resolvers()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        cfg = compose("config")
    for group in cfg:
        assert group in known_keys()
        if hasattr(cfg[group], "keys"):
            assert all(f"{group}.{key}" in known_keys() for key in cfg[group])


def test_a_gpu_that_is_not_there_is_refused(monkeypatch, refuse):
    monkeypatch.setattr(device, "cuda_major", lambda: 0)
    assert refuse("device=cuda")[0].kind == "missing"


@pytest.mark.parametrize(("major", "use_cpu", "bf16"), [(0, True, False), (7, False, False), (9, False, True)])
def test_device_auto_follows_the_machine(monkeypatch, major, use_cpu, bf16):
    monkeypatch.setattr(device, "cuda_major", lambda: major)
    cfg = compose_config(["model=gpt2"])
    assert (cfg.device.use_cpu, cfg.device.bf16) == (use_cpu, bf16)
    assert (cfg.algo.args["use_cpu"], cfg.algo.args["bf16"]) == (use_cpu, bf16)


def test_a_cpu_build_of_torch_is_seen_without_a_driver(monkeypatch):
    monkeypatch.setattr(device, "find_version", lambda name: "2.13.0+cpu")
    device.cuda_major.cache_clear()
    assert device.cuda_major() == 0
    device.cuda_major.cache_clear()


FLASH = "model.attn_implementation=flash_attention_2"


@pytest.mark.parametrize(
    ("overrides", "key"),
    [
        (["logging=wandb"], "logging.report_to"),
        (["peft=qlora"], "peft"),
        ([FLASH, "model.dtype=bfloat16", "device=cuda"], "model.attn_implementation"),
        (["eval.engine=vllm"], "eval.engine"),
    ],
)
def test_a_package_that_is_not_installed_is_refused(overrides, key, any_machine, monkeypatch, refuse):
    monkeypatch.setattr(machine, "find_spec", lambda name: None)
    [problem] = refuse(*overrides)
    assert (problem.key, problem.kind) == (key, "missing") and " is not installed; pip install " in problem


def test_flash_attention_needs_a_gpu_of_ampere(any_machine, monkeypatch, refuse):
    monkeypatch.setattr(device, "cuda_major", lambda: 7)
    assert [problem.kind for problem in refuse(FLASH, "device=cuda")] == ["missing"]


def test_flash_attention_is_chosen_where_it_can_run(any_machine, monkeypatch, refuse):
    monkeypatch.setattr(device, "find_spec", lambda name: name)
    assert compose_config().model.attn_implementation == "sdpa"
    assert compose_config(["peft=qlora"]).model.attn_implementation == "flash_attention_2"
    assert [problem.kind for problem in refuse(FLASH, "device=cuda")] == ["conflict"]
    assert compose_config([FLASH, "model.dtype=bfloat16"]).model.dtype == "bfloat16"


def test_a_refused_run_may_be_written_over(tmp_path):
    (tmp_path / "run.json").write_text('{"status": "refused"}')
    assert compose_config([f"output_dir={tmp_path}"])


def test_a_local_model_needs_its_config(tmp_path, refuse):
    [problem] = refuse(f"model.path={tmp_path}")
    assert (problem.key, problem.kind) == ("model.path", "missing")
    (tmp_path / "config.json").write_text("{}")
    assert compose_config([f"model.path={tmp_path}", "model.parameters=1e6"]).model.path == str(tmp_path)


def test_a_hub_id_passes_unless_its_first_part_is_a_local_folder(tmp_path, monkeypatch, refuse):
    monkeypatch.chdir(tmp_path)
    assert compose_config(["model.path=models/x", "model.parameters=1e6"]).model.path == "models/x"
    Path("models").mkdir()
    assert refuse("model.path=models/x")[0].startswith("model.path=models/x: no such folder")
