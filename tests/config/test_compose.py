from importlib.util import find_spec
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
from hydra import compose, initialize_config_dir
from hydra.errors import MissingConfigException

from rlhf_exp.algorithms import ALGORITHMS
from rlhf_exp.cli.explain import explain
from rlhf_exp.config import ROOT, device
from rlhf_exp.config.compose import compose_config, register_resolvers
from rlhf_exp.config.keys import known_keys
from rlhf_exp.config.rules import packages
from rlhf_exp.config.schema import REWARDS, TASKS
from rlhf_exp.errors import ConfigError
from rlhf_exp.tasks import find_task

CONF = ROOT / "conf"
OFFLINE = [name for name, row in ALGORITHMS.items() if not row.online and row.trains]


def list_options(group):
    return sorted(path.stem for path in (CONF / group).glob("*.yaml"))


def refuse(*overrides):
    with pytest.raises(ConfigError) as caught:
        compose_config(overrides)
    return caught.value.problems


@pytest.fixture
def any_machine(monkeypatch):
    """A machine with a GPU and every optional package."""
    monkeypatch.setattr(device, "cuda_major", lambda: 9)
    monkeypatch.setattr(packages, "find_spec", lambda name: name)


def test_every_config_file_composes_and_checks(any_machine):
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
def test_every_algorithm_has_its_loss_and_refuses_anothers(algo):
    row = ALGORITHMS[algo]
    chosen = compose_config([f"algo={algo}"]).algo.args.get("loss_type")
    assert chosen == row.loss or chosen in row.losses
    unnamed = [name for name in ALGORITHMS if not ALGORITHMS[name].losses]
    for other in (name for name in ALGORITHMS if name != algo and (row.losses or name in unnamed)):
        [line] = refuse(f"algo={algo}", f"loss_type={other}")
        assert (f"not a loss of algo={algo}" if row.trains else "has no effect") in line


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
    assert all(callable(getattr(reward, "build", None) or getattr(reward, name)) for name, reward in REWARDS.items())


def test_known_keys_are_those_of_the_default_config():
    register_resolvers()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        cfg = compose("config")
    for group in cfg:
        assert group in known_keys()
        if hasattr(cfg[group], "keys"):
            assert all(f"{group}.{key}" in known_keys() for key in cfg[group])


def test_problems_come_in_order_all_at_once():
    assert refuse("+task.lo=1", "dry_run=maybe", "seed=-1", "eval.top_p=0", "task.low=40") == [
        "task.lo=1: no such key; did you mean task.low?",
        "dry_run=maybe: must be true or false",
        "seed=-1: must be a whole number >= 0, <= 4294967295",
        "eval.top_p=0: must be a number > 0, <= 1",
    ]


def test_combinations_and_files_come_after_types():
    assert refuse("task.low=40", "task.high=30", "output_dir=/dev/null/x") == [
        "task.low=40: must be at most task.high=30",
        "output_dir=/dev/null/x: cannot be written, /dev/null is not a folder",
    ]


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (["max_tokens=0"], "max_tokens=0: must be a whole number >= 1, <= 1000000"),
        (["max_tokens=abc"], "max_tokens=abc: must be a whole number >= 1, <= 1000000"),
        (["max_tokens=null"], "max_tokens=null: must be a whole number >= 1, <= 1000000"),
        (["max_tokens=12.5"], "max_tokens=12.5: must be a whole number >= 1, <= 1000000"),
        (["+modle=tiny"], "modle=tiny: no such key; did you mean model?"),
        (
            ["task.prompt=chta"],
            "task.prompt=chta: must be one of auto, plain, chat; did you mean chat?",
        ),
        (["task.path=${nope}"], "task.path: Interpolation key 'nope' not found"),
        (
            ["algo=sft", "loss_type=dapo"],
            "loss_type=dapo: not a loss of algo=sft, must be one of nll, dft",
        ),
        (
            ["+reward.weights.outcom=1"],
            "reward.weights.outcom: no such reward; must be one of brevity, constant, graduated, length_efficiency,"
            " model, outcome, overlong, process, random, repetition, self_consistency, think_format; did you mean"
            " outcome?",
        ),
        (["task.source=file"], "task.source=file: needs task.path, a JSONL file with nums and target"),
        (["task.source=file", "task.path=nope.jsonl"], "task.path=nope.jsonl: no such file"),
        (
            ["task=hh_rlhf"],
            "algo=grpo: needs a reward; use reward=model reward.path=RUN_DIR, a run of algo=reward_model,"
            " or add your own: +reward.functions.NAME=FILE.py:FUNCTION +reward.weights.NAME=1",
        ),
        (
            ["task=gsm8k", "reward=none"],
            "algo=grpo: needs a reward; use reward=outcome, or reward=model reward.path=RUN_DIR, a run of"
            " algo=reward_model,"
            " or add your own: +reward.functions.NAME=FILE.py:FUNCTION +reward.weights.NAME=1",
        ),
        (
            ["task=hh_rlhf", "reward=outcome", "algo=dpo"],
            "reward.weights.outcome: task=hh_rlhf has no right answers to grade; use reward=model"
            " reward.path=RUN_DIR, a run of algo=reward_model,"
            " or add your own: +reward.functions.NAME=FILE.py:FUNCTION +reward.weights.NAME=1",
        ),
        (
            ["reward=model"],
            "reward=model: needs reward.path, the folder of a run of algo=reward_model, or a hub id",
        ),
        (
            ["reward.path=somebody/model"],
            "reward.path=somebody/model: not with these rewards; add +reward.weights.model=1.0",
        ),
        (
            ["reward=model", "reward.path=./nope"],
            "reward.path=./nope: no such folder; must be the folder of a run of algo=reward_model",
        ),
        (
            ["task.samples=self"],
            f"task.samples=self: algo=grpo learns from samples of its own; allowed with {', '.join(OFFLINE)}",
        ),
        (
            ["algo=sft", "task.samples=outputs/nope"],
            "task.samples=outputs/nope: holds no samples.jsonl; must be self, or a folder that"
            " `python -m rlhf_exp sample task=countdown` has made",
        ),
        (
            ["algo=dpo", "loss_type=grpo"],
            "loss_type=grpo: not a loss of algo=dpo, must be one of sigmoid, hinge, ipo, exo_pair, nca_pair, robust,"
            " bco_pair, sppo_hard, aot, aot_unpaired, apo_zero, apo_down, discopop, sft, sigmoid_norm",
        ),
        (
            ["task=hh_rlhf", "algo=dpo", "task.subsets=[harmless]"],
            "task.subsets=[harmless]: must be a list, each one of harmless-base, helpful-base, helpful-online,"
            " helpful-rejection-sampled",
        ),
        (
            ["model=tiny_gpt2", "model.init.architecture=gpt3"],
            "model.init.architecture=gpt3: must be one of gpt2, qwen2, qwen3; did you mean gpt2?",
        ),
        (
            ["task.traces.patience=[96,24]"],
            "task.traces.patience=[96, 24]: must hold the lower bound first: [24, 96]",
        ),
        (
            ["task.traces.novice.operations=[1,2,3]"],
            "task.traces.novice.operations=[1, 2, 3]: must be a list of 4, each a number > 0, <= 1000000",
        ),
        (
            ["task.traces.skilled.temperature=0"],
            "task.traces.skilled.temperature=0.0: must not be 0; 0.1 orders attempts by their distance",
        ),
        (["task.numbers=[]"], "task.numbers=[]: must hold how many numbers a problem has, such as [3]"),
        (
            ["model=tiny_untrained", "model.path=gpt2"],
            "model.path=gpt2: not with model=tiny_untrained, which starts from random weights",
        ),
        (["model=gpt2", "model.path=null"], "model.path=null: model=gpt2 needs a hub id or a folder"),
        (
            ["model.path=./nope"],
            "model.path=./nope: no such folder; must be a model's folder or a hub id like org/name",
        ),
        (
            ["generation=compact", "+algo.args.use_vllm=true"],
            "generation=compact: not with algo.args.use_vllm=true; use generation=vllm_colocate",
        ),
    ],
)
def test_a_mistake_is_one_line(overrides, line):
    assert refuse(*overrides) == [line]


def test_a_gpu_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setattr(device, "cuda_major", lambda: 0)
    assert refuse("device=cuda") == [
        "device=cuda: no usable GPU, or a CPU build of torch; use device=cpu or device=auto"
    ]


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


def test_a_logger_that_is_not_installed_is_refused(monkeypatch):
    monkeypatch.setattr(packages, "find_spec", lambda name: None)
    assert refuse("logging=wandb") == ["logging=wandb: wandb is not installed; pip install wandb, or logging=file"]


def test_4_bit_needs_bitsandbytes_and_half_precision_by_default(monkeypatch):
    assert compose_config(["peft=qlora"]).model.dtype == "bfloat16"
    monkeypatch.setattr(packages, "find_spec", lambda name: None)
    assert refuse("peft=qlora") == ["peft=qlora: bitsandbytes is not installed; pip install bitsandbytes, or peft=lora"]


FLASH = "model.attn_implementation=flash_attention_2"


def test_flash_attention_is_refused_where_it_cannot_run(any_machine, monkeypatch):
    monkeypatch.setattr(packages, "find_spec", lambda name: None)
    way = "pip install --no-build-isolation flash-attn (docs/gpu.md), or model.attn_implementation=sdpa"
    assert refuse(FLASH, "model.dtype=bfloat16") == [f"{FLASH}: flash-attn is not installed; {way}"]
    monkeypatch.setattr(device, "cuda_major", lambda: 7)
    assert refuse(FLASH) == [f"{FLASH}: needs a GPU of Ampere or newer; use model.attn_implementation=sdpa"]


def test_flash_attention_is_chosen_where_it_can_run(any_machine, monkeypatch):
    monkeypatch.setattr(device, "find_spec", lambda name: name)
    assert compose_config().model.attn_implementation == "sdpa"
    assert compose_config(["peft=qlora"]).model.attn_implementation == "flash_attention_2"
    assert refuse(FLASH) == [
        f"{FLASH}: needs half precision; add model.dtype=bfloat16, or use model.attn_implementation=sdpa"
    ]
    assert compose_config([FLASH, "model.dtype=bfloat16"]).model.dtype == "bfloat16"


def test_a_refused_run_may_be_written_over(tmp_path):
    (tmp_path / "run.json").write_text('{"status": "refused"}')
    assert compose_config([f"output_dir={tmp_path}"])


def test_a_local_model_needs_its_config(tmp_path):
    assert refuse(f"model.path={tmp_path}") == [
        f"model.path={tmp_path}: has no config.json; must be a model's folder or a hub id like org/name"
    ]
    (tmp_path / "config.json").write_text("{}")
    assert compose_config([f"model.path={tmp_path}", "model.parameters=1e6"]).model.path == str(tmp_path)


def test_a_hub_id_passes_unless_its_first_part_is_a_local_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert compose_config(["model.path=models/x", "model.parameters=1e6"]).model.path == "models/x"
    Path("models").mkdir()
    assert refuse("model.path=models/x")[0].startswith("model.path=models/x: no such folder")
