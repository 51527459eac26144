import re
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name
from typing import get_args

import pytest
import torch

from rlhf_exp.algorithms import ALGORITHMS
from rlhf_exp.config import device
from rlhf_exp.config.compose import compose_config
from rlhf_exp.config.trl_args import build_args
from rlhf_exp.config.trl_arguments import RANGES, load_arguments
from rlhf_exp.errors import ConfigError

TRAINERS = Path(find_spec("trl").origin).parent / "trainer"


def refuse(*overrides):
    with pytest.raises(ConfigError) as caught:
        build_args(compose_config(["device=cpu", *overrides]))
    return caught.value.problems


@pytest.mark.parametrize("loss", ALGORITHMS["grpo"].losses)
def test_every_grpo_loss_builds(loss):
    args = build_args(compose_config(["device=cpu", f"loss_type={loss}"]))
    assert args.loss_type == loss
    assert (args.generation_batch_size, args.use_cpu, args.bf16) == (128, True, False)
    assert (args.seed, args.max_completion_length, args.reward_weights) == (0, 96, [1.0, 0.25])
    assert args.output_dir.endswith("/checkpoints") and args.model_init_kwargs["dtype"] == "float32"


@pytest.mark.parametrize(
    ("typed", "line"),
    [
        (["+algo.args.fp16=true", "device.bf16=true"], "algo.args: TRL refuses them (At most one of fp16 and bf16 can"),
        (["+algo.args.optim=lomo"], "algo.args.optim=lomo: cannot be used (You need to install `lomo_optim`"),
        (["+algo.args.lr_scheduler_kwargs={lr_min: 1}"],
         "algo.args.lr_scheduler_kwargs={lr_min: 1}: cannot be used (get_linear_"),
        (["algo.args.lr_scheduler_type=warmup_stable_decay"],
         "algo.args.lr_scheduler_type=warmup_stable_decay: cannot be used (get"),
        (["+algo.args.cache_implementation=nope"], "algo.args.cache_implementation=nope: cannot be used (Invalid"),
        (["+algo.args.torch_compile_backend=nope"],
         "algo.args.torch_compile_backend=nope: cannot be used (must be one of "),
        (["+algo.args.optim_args=nonsense"], "algo.args.optim_args=nonsense: cannot be used (not enough values"),
        (["+algo.args.accelerator_config=nope.json"],
         "algo.args: TRL refuses them (No such file or directory: nope.json)"),
    ],
)  # fmt: skip
def test_what_trl_refuses_and_what_it_refuses_only_when_training_begins_is_one_line(typed, line):
    [problem] = refuse(*typed)
    assert problem.startswith(line)


def test_an_optimizer_and_a_schedule_of_the_users_pass():
    typed = ["algo=sft", "+algo.args.optim=adafactor", "algo.args.lr_scheduler_type=cosine_with_min_lr"]
    assert build_args(compose_config(["device=cpu", *typed, "+algo.args.lr_scheduler_kwargs={min_lr_rate: 0.1}"]))


def test_a_whole_number_is_a_float_where_trl_has_one():
    args = build_args(compose_config(["algo.args.temperature=3", "algo.args.learning_rate=1"]))
    assert (repr(args.temperature), repr(args.logging_steps)) == ("3.0", "1")


def test_a_gpu_that_torch_does_not_find_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(device, "cuda_major", lambda: 9)
    assert refuse("device=cuda") == ["device.use_cpu=false: torch finds no usable GPU; use device=cpu"]


def test_every_algorithm_has_its_config_class():
    names = {item.name for row in ALGORITHMS.values() for item in fields(resolve_name(row.config_class))}
    assert set(RANGES) <= names


def list_texts(name):
    return {choice for choice in get_args(load_arguments("grpo")[name].annotation) if isinstance(choice, str)}


def test_our_choices_are_those_of_the_installed_trl():
    source = (TRAINERS / "grpo_trainer.py").read_text()
    losses = re.findall(r"self\.loss_type (?:==|in) (\[[^\]]+\]|\"\w+\")", source)
    named = {name for group in losses for name in re.findall(r"\w+", group)}
    assert named | {"hybrid"} == set(ALGORITHMS["grpo"].losses)
    for name in ("scale_rewards", "importance_sampling_level", "multi_objective_aggregation"):
        compared = re.findall(rf"self\.{name} (?:==|!=|in) (\[[^\]]+\]|\"\w+\")", source)
        found = {word for group in compared for word in re.findall(r"\w+", group)}
        assert found == list_texts(name), name
    modes = re.search(r"Unknown vLLM importance sampling level: .*? Possible values are (.*)", source).group(1)
    assert set(re.findall(r"'(\w+)'", modes)) == list_texts("vllm_importance_sampling_mode")
    config = (TRAINERS / "grpo_config.py").read_text()
    assert 'Must be one of `"server"` or\n            `"colocate"`' in config
    source = (TRAINERS / "dpo_trainer.py").read_text()
    assert tuple(re.findall(r'loss_type == "(\w+)":', source)) == ALGORITHMS["dpo"].losses
    source = (TRAINERS / "sft_trainer.py").read_text()
    assert f"args.loss_type not in {ALGORITHMS['sft'].losses}".replace("'", '"') in source
