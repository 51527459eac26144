"""hardware=: a step divided among GPUs, and whether a run fits a machine that is not here."""

import pytest

from rlhf_exp.config.compose import compose_config
from rlhf_exp.config.model_shape import ASSETS
from rlhf_exp.config.rules import machine
from rlhf_exp.dry_run.show import print_dry_run
from rlhf_exp.errors import ConfigError

STUDIES = {"countdown_qwen3": 64, "gsm8k_ppo": 64, "hh_rlhf_gpt2_ppo": 8, "brevity_lr_1e-5": 4}
HARDWARE = ("here", "gpu_24gb", "gpu_80gb", "gpus_8x80gb")
FEW = ["task.train_rows=64", "eval.rows=16"]
OTHER = ["hardware=gpus_8x80gb", "dry_run=true", *FEW]


def compose(name, hardware, *overrides):
    overrides = (*overrides, f"reward.path={ASSETS / 'tiny'}") if name == "hh_rlhf_gpt2_ppo" else overrides
    return compose_config([f"experiment={name}", f"hardware={hardware}", "dry_run=true", *overrides])


@pytest.mark.parametrize("hardware", HARDWARE)
@pytest.mark.parametrize("name", STUDIES)
def test_a_study_has_the_same_step_on_any_hardware(name, hardware):
    fewer = ["hardware.gpus=4"] if (name, hardware) == ("brevity_lr_1e-5", "gpus_8x80gb") else []
    cfg = compose(name, hardware, *fewer)
    args, gpus = cfg.algo.args, cfg.hardware.gpus or 1
    assert args["per_device_train_batch_size"] * args["gradient_accumulation_steps"] * gpus == STUDIES[name]
    if cfg.algo.name == "ppo":
        minibatches = 1 if name == "gsm8k_ppo" else 4
        assert args["steps_per_generation"] == minibatches * args["gradient_accumulation_steps"]


def test_a_larger_gpu_takes_more_rows_at_once_and_several_share_them():
    def read(hardware, *overrides):
        args = compose("countdown_qwen3", hardware, *overrides).algo.args
        return args["per_device_train_batch_size"], args["gradient_accumulation_steps"]

    assert [read(hardware) for hardware in HARDWARE] == [(4, 16), (4, 16), (16, 4), (8, 1)]
    assert read("gpus_8x80gb", "algo.args.per_device_train_batch_size=2") == (2, 4)
    assert read("gpus_8x80gb", "hardware.gpus=4") == (16, 1)


def test_a_step_that_cannot_be_divided_is_refused():
    key = "algo.args.per_device_train_batch_size"
    with pytest.raises(ConfigError) as caught:
        compose("brevity_lr_1e-5", "gpus_8x80gb")
    [line] = caught.value.problems
    assert line.startswith(f"{key}: a step of 4 rows")
    with pytest.raises(ConfigError, match="^algo.args.gradient_accumulation_steps: 48 rows at once do not divide "):
        compose("gsm8k_grpo", "here", f"{key}=48")
    both = compose("gsm8k_grpo", "here", f"{key}=48", "algo.args.gradient_accumulation_steps=2").algo.args
    assert both["gradient_accumulation_steps"] == 2
    assert compose("gsm8k_grpo", "here", "hardware.batch_factor=3").algo.args["per_device_train_batch_size"] == 8


def test_defaults_without_an_experiment_follow_the_hardware():
    def read(hardware):
        cfg = compose_config([f"hardware={hardware}", "dry_run=true", "model=qwen3_1_7b", "device=auto"])
        args = cfg.algo.args
        return args["per_device_train_batch_size"], args["gradient_accumulation_steps"], cfg.device.bf16

    assert read("here")[:2] == (4, 32)
    assert [read(hardware) for hardware in HARDWARE[1:]] == [(4, 32, True), (16, 8, True), (16, 1, True)]


MISSING = {
    "generation=vllm_server": "vLLM", "generation=vllm_colocate": "vLLM",
    "eval.engine=vllm": "vLLM", "logging=wandb": "wandb", "peft=qlora": "bitsandbytes",
    "model.attn_implementation=flash_attention_2": "flash-attn",
}  # fmt: skip


@pytest.mark.parametrize(("override", "package"), MISSING.items())
def test_a_dry_run_of_another_machine_names_the_packages_that_are_missing_here(capsys, monkeypatch, override, package):
    monkeypatch.setattr(machine, "find_spec", lambda name: None)
    print_dry_run(compose_config([*OTHER, "device=cuda", "model.dtype=bfloat16", "verbose=true", override]))
    lines = capsys.readouterr().out.splitlines()
    typed = override.replace("logging=wandb", "logging.report_to=[wandb]")
    assert f"checks   all others passed; not checked here: {typed}: {package} is not installed" in lines
    [memory] = [line for line in lines if line.startswith("memory, estimated")]
    assert ("without the libraries and vLLM: " in memory) == override.startswith("generation=vllm")
