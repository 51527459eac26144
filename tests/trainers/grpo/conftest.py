from pathlib import Path

import pytest

from rlhf_exp.config.compose import compose_config
from rlhf_exp.config.trl_args import build_args
from rlhf_exp.experiment import Experiment
from rlhf_exp.models.loading import load_tokenizer, resolve_model
from rlhf_exp.tasks import Task
from rlhf_exp.trainers import build_trainer

ROWS = [{"id": str(i), "prompt": f"use {7 + i} {3 + i} make {53 - i} ." if i % 2 else f"use {3 + i} 8 7 make 53 ."}
        for i in range(8)]  # fmt: skip
SMALL = [
    "device=cpu", "max_tokens=40", "algo.args.per_device_train_batch_size=8", "algo.args.num_generations=4",
    "algo.args.report_to=[]", "algo.args.disable_tqdm=true", "algo.args.save_strategy=no",
]  # fmt: skip


def reward(completions, **columns):
    return [float(len(text) % 7) for text in completions]


@pytest.fixture
def make_parts(tmp_path):
    """Parts of a trainer of the shipped model on eight prompts, 8 completions in groups of 4 per step."""

    def make(*overrides, folder="run"):
        cfg = compose_config(["reward=outcome", *SMALL, f"output_dir={tmp_path / folder}", *overrides])
        source = resolve_model(cfg, Path(tmp_path))
        return Experiment(
            cfg, None, source, load_tokenizer(source), Task("t", ROWS, [], None), [reward], build_args(cfg)
        )

    return make


@pytest.fixture
def make_trainer(make_parts):
    return lambda *overrides, **kwargs: build_trainer(make_parts(*overrides, **kwargs))
