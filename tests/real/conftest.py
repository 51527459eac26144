"""Runs on a real chat model: the folder that `make smollm2` makes, without which the tests are skipped."""

import shutil

import pytest

from rlhf_exp.config import hub
from rlhf_exp.models.smollm2 import NAME
from rlhf_exp.runs.load import load_run

SHORT = (
    *("model=smollm2_135m", "device=cpu", "device.threads=1", "max_tokens=8", "eval.rows=4", "eval.most_rows=4"),
    *("algo.args.max_steps=2", "algo.args.logging_steps=1", "++algo.args.warmup_steps=0", "algo.args.save_strategy=no"),
)


@pytest.fixture(scope="session", autouse=True)
def smollm2():
    """The folder of the model."""
    if not (hub.MADE / NAME / "model.safetensors").is_file():
        pytest.skip(f"needs {hub.MADE / NAME}: make smollm2")
    return hub.MADE / NAME


@pytest.fixture
def train(launch, workplace):
    """`train("NAME", ...)` runs an experiment of two steps and loads what it left. Its weights, half a gigabyte, are
    deleted after the test."""
    made = []

    def call(name, *overrides):
        folder = workplace / name
        made.append(folder / "model")
        done = launch(*SHORT, *overrides, f"output_dir={folder}")
        assert done.returncode == 0, done.stderr[-3000:]
        return load_run(folder)

    yield call
    for folder in made:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session", autouse=True)
def processor_without_bf16():
    """Here the default precision of this machine is what is tested."""
