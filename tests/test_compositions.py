"""The compositions that the tests make once (tests/conftest.py) are Hydra's own."""

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from rlhf_exp.config import ROOT
from rlhf_exp.config.compose import register_resolvers


@pytest.mark.parametrize(
    ("name", "overrides"),
    [
        ("config", ["seed=3"]),
        ("config", ["algo=ppo", "task=gsm8k", "model=qwen2_5_3b", "peft=qlora", "reward=brevity", "seed=4"]),
        ("config", ["algo=dpo", "task=hh_rlhf", "model=gpt2", "+algo.args.label_smoothing=0.1", "~loss_type"]),
        ("config", ["experiment=compare_ppo", "max_tokens=99"]),
    ],
)
def test_they_are_hydras(compositions, monkeypatch, name, overrides):
    register_resolvers()
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        made = [OmegaConf.to_yaml(compose(name, overrides, return_hydra_config=True)) for _ in range(2)]
        for place, attribute, original in compositions:
            monkeypatch.setattr(place, attribute, original)
        assert made == [OmegaConf.to_yaml(compose(name, overrides, return_hydra_config=True))] * 2
