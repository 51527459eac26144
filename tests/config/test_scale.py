"""scale=: what each engine sets, and what it refuses."""

import os

import pytest

from rlhf_exp.config import device
from rlhf_exp.config.compose import compose_config
from rlhf_exp.config.rules import packages
from rlhf_exp.config.rules import scale as rules
from rlhf_exp.config.trl_args import build_args
from rlhf_exp.errors import ConfigError
from rlhf_exp.models.generation import choose_method

GPU = ["device.use_cpu=false", "device.bf16=false"]


@pytest.fixture
def ranks(monkeypatch):
    """Sets the number of processes."""

    def set_count(count):
        for name, value in {"WORLD_SIZE": count, "RANK": 0, "LOCAL_RANK": 0}.items():
            monkeypatch.setenv(name, str(value))

    return set_count


@pytest.fixture
def installed(monkeypatch):
    monkeypatch.setattr(packages, "find_spec", lambda name: name)
    monkeypatch.setattr(device, "cuda_major", lambda: 8)


def refuse(*overrides):
    with pytest.raises(ConfigError) as refused:
        compose_config(overrides)
    return refused.value.problems


def test_the_launcher_chooses_ddp(ranks):
    assert compose_config(["device=cpu"]).scale.name == "none"
    ranks(2)
    config = compose_config(["device=cpu"])
    assert config.scale.name == "ddp" and config.algo.args["ddp_find_unused_parameters"] is False


def test_a_step_is_as_large_with_any_number_of_processes(ranks):
    one = compose_config(["device=cpu"]).algo.args
    ranks(4)
    four = compose_config(["device=cpu"]).algo.args
    assert 4 * four["per_device_train_batch_size"] == one["per_device_train_batch_size"]
    assert four["gradient_accumulation_steps"] == one["gradient_accumulation_steps"]


def test_a_study_has_the_same_step_with_any_number_of_processes(ranks):
    ranks(2)
    args = compose_config(["experiment=gsm8k_grpo", "device=cpu", "peft=none"]).algo.args
    assert (args["per_device_train_batch_size"], args["gradient_accumulation_steps"]) == (4, 8)


def test_an_engine_needs_several_processes_and_one_process_none(ranks):
    needs = "needs several processes; start with torchrun --nproc_per_node N, or use scale=none"
    assert refuse("device=cpu", "scale=ddp") == [f"scale=ddp: {needs}"]
    assert compose_config(["device=cpu", "scale=ddp", "dry_run=true"]).scale.name == "ddp"
    ranks(3)
    assert refuse("device=cpu", "scale=none", "algo=sft") == [
        "scale=none: is for one process, and here are 3; use scale=ddp"
    ]


@pytest.mark.parametrize("engine", ["fsdp2", "zero2", "zero3"])
def test_a_cpu_has_only_ddp(engine, ranks, monkeypatch):
    monkeypatch.setattr(packages, "find_spec", lambda name: name)
    ranks(2)
    silent = "not on a CPU, where accelerate silently trains with DDP instead; use scale=ddp"
    assert refuse("device=cpu", "algo=sft", f"scale={engine}") == [f"scale={engine}: {silent}"]


def test_an_engine_is_not_left_to_the_next_job(monkeypatch):
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")  # as accelerate leaves it
    build_args(compose_config(["device=cpu", "algo=sft"]))
    assert "ACCELERATE_USE_FSDP" not in os.environ


def test_more_processes_than_gpus_are_refused(ranks, installed, monkeypatch):
    ranks(4)
    config = compose_config([*GPU, "algo=sft"])
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    with pytest.raises(ConfigError) as refused:
        build_args(config)
    assert refused.value.problems == ["torchrun --nproc_per_node 4: one GPU each, and here are 2; at most 2"]


@pytest.mark.parametrize("engine", ["zero2", "zero3"])
def test_ppo_is_refused_with_deepspeed(engine, ranks, installed):
    ranks(2)
    why = "DeepSpeed clips the gradients of policy and critic together; use scale=fsdp2 or scale=ddp"
    assert refuse(*GPU, "algo=ppo", f"scale={engine}") == [f"scale={engine}: not with algo=ppo, since {why}"]
    assert compose_config([*GPU, "algo=ppo", "scale=fsdp2"]).algo.args["fsdp"] is True


def test_deepspeed_must_be_installed(ranks, installed, monkeypatch):
    ranks(2)
    monkeypatch.setattr(packages, "find_spec", lambda name: None)
    assert refuse(*GPU, "algo=sft", "scale=zero2") == [
        "scale=zero2: deepspeed is not installed; pip install deepspeed, or use scale=fsdp2"
    ]


def test_a_group_may_not_span_processes(ranks):
    ranks(2)
    given = ["algo.args.num_generations=16", "algo.args.per_device_train_batch_size=8"]
    assert refuse("device=cpu", *given) == [
        "algo.args.num_generations=16: a group would span processes, of which each samples 8 completions per rollout;"
        " must divide 8, or algo.args.per_device_train_batch_size must be a multiple of 16"
    ]


@pytest.mark.parametrize("engine", ["fsdp2", "zero3"])
def test_sampling_by_generate_is_refused_with_divided_weights(engine, ranks, installed):
    ranks(2)
    key = f"not with scale={engine}, which leaves each process a part of the weights"
    assert refuse(*GPU, f"scale={engine}", "generation=trl") == [f"generation=trl: {key}; use generation=compact"]
    assert choose_method(compose_config([*GPU, f"scale={engine}"])) == "compact"
    line = f"is read by generation=trl alone, {key}; leave it out, or use scale=ddp"
    assert refuse(*GPU, f"scale={engine}", "+algo.args.min_p=0.1") == [f"algo.args.min_p=0.1: {line}"]


def test_what_a_divided_model_cannot_do_is_refused(ranks, installed):
    ranks(2)
    key = "not with scale=fsdp2, which leaves each process a part of the weights"
    assert refuse(*GPU, "scale=fsdp2", "algo=ppo", "algo.target_kl=3") == [
        f"algo.target_kl=3: takes the exact KL, {key}; use scale=ddp"
    ]


def test_an_engine_of_accelerate_launch_is_refused(ranks, monkeypatch):
    ranks(2)
    monkeypatch.setattr(rules, "BY_ACCELERATE", ("ACCELERATE_USE_FSDP",))
    line = "ACCELERATE_USE_FSDP is set, by `accelerate launch`; leave its engine out, and choose by scale="
    assert refuse("device=cpu", "algo=sft") == [f"scale=ddp: {line}"]
