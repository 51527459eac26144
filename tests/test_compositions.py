"""The compositions that the tests make once (tests/conftest.py) are Hydra's own."""

import pytest
from omegaconf import OmegaConf

from rlhf_exp.config import compose


@pytest.mark.parametrize(
    "overrides",
    [
        ["task=countdown", "seed=3", "algo=grpo"],
        ["algo=ppo", "task=gsm8k", "model=qwen2_5_3b", "peft=qlora", "reward=brevity", "seed=4"],
        ["algo=dpo", "task=hh_rlhf", "model=gpt2", "+algo.args.label_smoothing=0.1", "~loss_type"],
        ["experiment=compare_ppo", "max_tokens=99"],
    ],
)
def test_they_are_hydras(composed_once, overrides):
    made = []
    for compose_files in (composed_once, compose.compose_files, compose.compose_files):
        cfg, settings = compose_files(overrides)
        cfg.output_dir = settings.job.override_dirname = settings.runtime.cwd = ""  # of the time, and read by nothing
        made.append(OmegaConf.to_yaml(cfg) + OmegaConf.to_yaml(settings))
    assert made[0] == made[1] == made[2]
