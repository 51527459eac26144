import pytest

from rlhf_exp.trainers import build_trainer
from tests.building import QUIET, build_experiment, reward_length_of_7

ROWS = [{"id": str(i), "prompt": f"use {7 + i} {3 + i} make {53 - i} ." if i % 2 else f"use {3 + i} 8 7 make 53 ."}
        for i in range(8)]  # fmt: skip
SMALL = [
    "reward=outcome", *QUIET, "max_tokens=40", "algo.args.per_device_train_batch_size=8", "algo.args.num_generations=4"
]  # fmt: skip


@pytest.fixture
def make_parts(tmp_path):
    """Parts of a trainer of the shipped model on eight prompts, 8 completions in groups of 4 per step."""
    return lambda *overrides: build_experiment(tmp_path, *SMALL, *overrides, rows=ROWS, reward=reward_length_of_7)


@pytest.fixture
def make_trainer(make_parts):
    return lambda *overrides: build_trainer(make_parts(*overrides))
