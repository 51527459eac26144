"""hardware=: a step divided among GPUs, and whether a run fits a machine that is not here."""

import re

import pytest

from rlhf_exp.config.compose import compose_config
from rlhf_exp.config.rules import machine
from rlhf_exp.dry_run.show import print_dry_run
from rlhf_exp.errors import ConfigError

STUDIES = {"countdown_qwen3": 64, "gsm8k_ppo": 64, "hh_rlhf_gpt2_ppo": 8, "brevity_lr_1e-5": 4}
HARDWARE = ("here", "gpu_24gb", "gpu_80gb", "gpus_8x80gb")
FEW = ["task.train_rows=64", "eval.rows=16"]
OTHER = ["hardware=gpus_8x80gb", "dry_run=true", *FEW]


def compose(name, hardware, *overrides):
    overrides = (*overrides, "reward.path=examples") if name == "hh_rlhf_gpt2_ppo" else overrides
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


@pytest.fixture
def show(capsys):
    """show("gpu_24gb", "peft=lora"): the lines of a dry run, with all details, and what failed."""

    def call(hardware, *overrides):
        problems, typed = [], ("task.source=generated", "verbose=true", *FEW, *overrides)
        try:
            print_dry_run(compose("countdown_qwen3", hardware, *typed))
        except ConfigError as error:
            problems = error.problems
        return capsys.readouterr().out.splitlines(), problems

    return call


NEEDS = "DOES NOT FIT: training needs .*, MORE than the 24 GB of hardware=gpu_24gb; less is needed with .*peft=lora.*"


@pytest.mark.parametrize(
    ("hardware", "overrides", "verdict"),
    [("gpu_24gb", [], NEEDS), ("gpu_24gb", ["peft=lora"], "fits: .* of the 24 GB of hardware=gpu_24gb"),
     ("gpus_8x80gb", [], "fits: .* of the 80 GB of each GPU of hardware=gpus_8x80gb")],
)  # fmt: skip
def test_the_dry_run_says_whether_it_fits(show, hardware, overrides, verdict):
    (head, _, _, memory, *_), problems = show(hardware, *overrides)
    assert f", on hardware={hardware}; " in head
    assert re.fullmatch(f"memory   {verdict}", memory)
    assert problems == ([memory.replace("   DOES NOT FIT", "")] if verdict == NEEDS else [])


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


def test_engines_divide_gradients_and_moments_and_evaluation_has_two_models(show):
    def read_phases(*overrides):
        [line] = [x for x in show("gpus_8x80gb", *overrides)[0] if x.startswith("memory, estimated")]
        named = (figure.split() for figure in line.partition(": ")[2].split(", "))
        return {name: float(number.replace(",", "")) for name, number, _ in named}

    whole, divided = read_phases(), read_phases("scale=fsdp2", "eval.every=5")
    weights = 1_720_574_976 * 4 / 1e9
    spared = weights * (2 + 2) - weights * (2 + 1) / 8  # DDP has each gradient twice
    assert whole["training"] - divided["training"] == pytest.approx(spared, abs=0.02)
    assert whole["evaluation"] == divided["evaluation"] and whole["evaluation"] > 2 * weights
    held = divided["validation"] - divided["evaluation"]
    assert "validation" not in whole and held == pytest.approx(2 * weights / 8, abs=0.02)


def test_what_only_measures_has_a_verdict_and_too_large_an_evaluation_its_own_remedy(show, capsys):
    print_dry_run(compose_config(["algo=none", "hardware=gpu_24gb", "dry_run=true", *FEW]))
    memory = capsys.readouterr().out.splitlines()[3]
    assert re.fullmatch("memory   fits: evaluation needs .* of the 24 GB of hardware=gpu_24gb", memory)
    _, [problem] = show("gpus_8x80gb", "eval.batch_size=4096", "max_tokens=1024")
    assert "each GPU of hardware=gpus_8x80gb; less is needed with eval.batch_size=2048" in problem


def test_hardware_of_the_users_own():
    own = ["hardware.name=mine", "hardware.gpus=2", "hardware.memory_gb=48", "scale=ddp"]
    cfg = compose_config([*own, "dry_run=true"])
    assert cfg.algo.args["per_device_train_batch_size"] == 64
