"""scale=: what each engine sets, and what it refuses."""

import os

import pytest

from rlhf_exp.config.compose import compose_config
from rlhf_exp.config.rules import machine
from rlhf_exp.config.trl_args import build_args
from rlhf_exp.errors import ConfigError
from rlhf_exp.models.generation import choose_method

GPU = "device.use_cpu=false device.bf16=false"


@pytest.fixture
def ranks(monkeypatch):
    """Sets the number of processes."""

    def set_count(count):
        for name, value in {"WORLD_SIZE": count, "RANK": 0, "LOCAL_RANK": 0}.items():
            monkeypatch.setenv(name, str(value))

    return set_count


def test_the_launcher_chooses_ddp_and_a_step_keeps_its_size(ranks):
    one = compose_config(["device=cpu"])
    ranks(4)
    four = compose_config(["device=cpu"])
    assert (one.scale.name, four.scale.name) == ("none", "ddp")
    one, four = one.algo.args, four.algo.args
    assert four["ddp_find_unused_parameters"] is False
    assert 4 * four["per_device_train_batch_size"] == one["per_device_train_batch_size"]
    assert four["gradient_accumulation_steps"] == one["gradient_accumulation_steps"]


def test_an_engine_is_not_left_to_the_next_job(monkeypatch):
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")  # as accelerate leaves it
    build_args(compose_config(["device=cpu", "algo=sft"]))
    assert "ACCELERATE_USE_FSDP" not in os.environ


def test_more_processes_than_gpus_are_refused(ranks, any_machine, monkeypatch):
    ranks(4)
    config = compose_config([*GPU.split(), "algo=sft"])
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    with pytest.raises(ConfigError) as refused:
        build_args(config)
    assert refused.value.problems == ["torchrun --nproc_per_node 4: one GPU each, and here are 2; at most 2"]


@pytest.mark.parametrize(
    ("typed", "key"),
    [
        ("scale=none algo=sft", "scale"),
        ("algo=sft scale=fsdp2", "scale"),
        ("algo.args.num_generations=16 algo.args.per_device_train_batch_size=8", "algo.args.num_generations"),
        (f"{GPU} scale=fsdp2 generation=trl", "generation"),
        (f"{GPU} scale=fsdp2 +algo.args.min_p=0.1", "algo.args.min_p"),
        (f"{GPU} scale=fsdp2 algo=ppo algo.args.target_kl=3", "algo.args.target_kl"),
    ],
)  # fmt: skip
def test_what_an_engine_cannot_do_is_refused(typed, key, ranks, any_machine, refuse):
    ranks(2)
    assert [(problem.key, problem.kind) for problem in refuse(*typed.split())] == [(key, "conflict")]


def test_engines_pass_where_they_can_run(ranks, any_machine):
    assert compose_config(["device=cpu", "scale=ddp", "dry_run=true"]).scale.name == "ddp"
    ranks(2)
    assert compose_config([*GPU.split(), "algo=ppo", "scale=fsdp2"]).algo.args["fsdp"] is True
    assert choose_method(compose_config([*GPU.split(), "scale=fsdp2"])) == "compact"


def test_an_engine_of_accelerate_launch_is_refused(ranks, monkeypatch, refuse):
    ranks(2)
    monkeypatch.setattr(machine, "BY_ACCELERATE", ("ACCELERATE_USE_FSDP",))
    [problem] = refuse("algo=sft")
    assert problem.startswith("scale=ddp: ACCELERATE_USE_FSDP is set, by `accelerate launch`")
