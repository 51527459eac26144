from importlib.util import find_spec
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
import torch

from rlhf_exp.algorithms import ALGORITHMS
from rlhf_exp.config import ROOT, device
from rlhf_exp.config.compose import compose_config
from rlhf_exp.config.device import cpu_has_bf16
from rlhf_exp.config.rules import machine
from rlhf_exp.config.schema import TASKS
from rlhf_exp.rewards.table import REWARDS
from rlhf_exp.tasks import find_task

CONF = ROOT / "conf"


def list_options(group):
    return sorted(path.stem for path in (CONF / group).glob("*.yaml"))


def test_every_config_file_composes_and_checks(any_machine, refuse):
    """Those of experiment/ in test_experiments.py, of sweeps/ in test_sweeps.py, of four groups in test_matrix.py."""
    needs_more = {("reward", name) for name in ("environment", "judge", "model", "none")}
    elsewhere = ("algo", "model", "task", "peft", "experiment")
    files = [file for file in sorted(CONF.glob("*/*.yaml")) if file.parent.name not in elsewhere]
    assert len(files) > 35
    for group, option in ((file.parent.name, file.stem) for file in files):
        overrides = [f"{group}={option}", f"dry_run={str(group in ('scale', 'hardware')).lower()}"]
        if (group, option) in needs_more:
            refuse(*overrides)  # an endpoint, a trained reward model, a task without a grader
        else:
            compose_config(overrides)


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_every_algorithm_has_its_loss_and_refuses_anothers(algo, refuse):
    row = ALGORITHMS[algo]
    taught = ["teacher.path=org/name"] * row.has_teacher
    chosen = compose_config([f"algo={algo}", *taught]).algo.args.get("loss_type")
    assert chosen == row.loss or chosen in row.losses
    unnamed = [name for name in ALGORITHMS if not ALGORITHMS[name].losses]
    others = [name for name in ALGORITHMS if name != algo and (row.losses or name in unnamed)]
    for other in {others[0], others[-1]}:
        [problem] = refuse(f"algo={algo}", *taught, f"loss_type={other}")
        assert (problem.key, problem.kind) == ("loss_type", "conflict")


def test_names_tie_configs_tables_and_modules_together():
    assert set(list_options("algo")) == set(ALGORITHMS)
    assert set(list_options("task")) == set(TASKS)
    in_files = [row.losses for row in ALGORITHMS.values() if row.losses and row.loss is None]
    assert set(list_options("loss_type")) == {loss for losses in in_files for loss in losses}
    for task, keys in TASKS.items():
        assert get_args(get_type_hints(keys)["name"]) == (task,) and find_task(task) is keys
    for row in ALGORITHMS.values():
        assert not row.trains or find_spec(row.trainer.partition(":")[0])
    assert set(list_options("reward")) == {*REWARDS, "none"}
    assert {name for name, reward in REWARDS.items() if reward.function is None} == {"judge", "model"}
    assert all(reward.function.__name__ == name for name, reward in REWARDS.items() if reward.function)


@pytest.mark.parametrize("typed", [["model=gpt2"], ["model=gpt2", "peft=lora"], ["model=tiny"]])
@pytest.mark.parametrize(
    ("major", "cpu", "gpt2"), [(0, False, False), (0, True, True), (7, True, False), (9, False, True)]
)
def test_device_auto_follows_the_machine(monkeypatch, major, cpu, gpt2, typed):
    monkeypatch.setattr(device, "cuda_major", lambda: major)
    monkeypatch.setattr(device, "cpu_has_bf16", lambda: cpu)
    cfg = compose_config(typed)
    is_slower = cfg.model.name == "tiny" or cfg.peft.name == "lora" and cfg.device.use_cpu
    assert (cfg.device.use_cpu, cfg.device.bf16) == (not major, gpt2 and not is_slower)
    assert cfg.peft.dtype == ("bfloat16" if major == 9 and typed[-1] == "peft=lora" else "float32")


def test_torch_tells_the_same_of_the_cpu():
    read = cpu_has_bf16.__wrapped__
    assert read() == any(has for name, has in torch.cpu.get_capabilities().items() if name.endswith("bf16"))


def test_a_cpu_build_of_torch_is_seen_without_a_driver(monkeypatch):
    monkeypatch.setattr(device, "find_version", lambda name: "2.13.0+cpu")
    device.cuda_major.cache_clear()
    assert device.cuda_major() == 0
    device.cuda_major.cache_clear()


FLASH = "model.attn_implementation=flash_attention_2"


def test_a_package_that_is_not_installed_is_refused(monkeypatch, refuse):
    """Which keys need which package is in tests/dry_run/test_hardware.py."""
    monkeypatch.setattr(machine, "find_spec", lambda name: None)
    [problem] = refuse("logging=wandb")
    assert (problem.key, problem.kind) == ("logging.report_to", "missing")
    assert " is not installed; pip install " in problem


@pytest.mark.parametrize(
    ("major", "typed", "kind"), [(0, [], "missing"), (7, [FLASH], "missing"), (9, [FLASH], "conflict")]
)
def test_a_gpu_that_is_not_there_or_too_old_is_refused(major, typed, kind, any_machine, monkeypatch, refuse):
    monkeypatch.setattr(device, "cuda_major", lambda: major)
    assert [problem.kind for problem in refuse("device=cuda", *typed)] == [kind]


def test_flash_attention_is_chosen_where_it_can_run(any_machine, monkeypatch):
    monkeypatch.setattr(device, "find_spec", lambda name: name)
    for typed, chosen in {"peft=none": "sdpa", "peft=qlora": "flash_attention_2"}.items():
        assert compose_config([typed]).model.attn_implementation == chosen
    assert compose_config([FLASH, "model.dtype=bfloat16"]).model.dtype == "bfloat16"


def test_a_hub_id_passes_unless_its_first_part_is_a_local_folder(tmp_path, monkeypatch, refuse):
    monkeypatch.chdir(tmp_path)
    assert compose_config(["model.path=models/x", "model.parameters=1e6"]).model.path == "models/x"
    Path("models").mkdir()
    assert refuse("model.path=models/x")[0].startswith("model.path=models/x: no such folder")
