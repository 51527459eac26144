"""Every algorithm learns: few steps, held-out rows, the shipped model and one that was trained on stories."""

import json
from pathlib import Path

import pytest


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.learning)


@pytest.fixture(scope="session")
def workplace(tmp_path_factory):
    return tmp_path_factory.mktemp("learning")


@pytest.fixture
def learn(launch, workplace):
    """(evaluation.json, the losses) of one run; runs in one folder share what they sample from the start model."""

    def run(name, *overrides, split="validation"):
        held_out = ["device=cpu", f"eval.split={split}", "eval.most_rows=512", "eval.start_completions=1"]
        held_out += ["eval.every=null"]  # nothing is measured during training, which takes a tenth of the time
        held_out += ["task.baselines=false"] if "task=countdown" in overrides else []
        done = launch(*held_out, *overrides, f"output_dir={name}")
        assert done.returncode == 0, done.stderr[-2000:]
        rows = map(json.loads, (workplace / name / "metrics.jsonl").read_text().splitlines())
        evaluation = json.loads((workplace / name / "evaluation.json").read_text())
        return evaluation, [row["loss"] for row in rows if "loss" in row]

    return run
