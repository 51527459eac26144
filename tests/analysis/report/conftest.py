"""Run folders, shaped as `python -m rlhf_exp` writes them.

`run_dir` and `dpo_dir`: copies of golden runs. `make_run`: a small run of grpo with a seed, a loss and a gain, for
comparisons. `edit` changes a JSON file of a run.
"""

import json
import random
import shutil
from pathlib import Path

import pytest

from rlhf_exp.evaluation.metrics import compare, summarise
from rlhf_exp.runs.load import load_run
from rlhf_exp.runs.records import Completion, write_lines

GOLDEN = Path(__file__).parent / "golden"
ROWS = 128


def table_rows(out, title):
    """The cells of the table below a heading of out/report.md, without its head."""
    section = (out / "report.md").read_text().split(f"## {title}\n")[1]
    lines = [line for line in section.split("\n##")[0].splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


@pytest.fixture(scope="session")
def make_run(tmp_path_factory):
    """Each run is made once, and copied where a test wants it."""
    made = tmp_path_factory.mktemp("runs")

    def make(path, seed=0, loss_type="grpo", gain=0.25):
        source = made / f"{seed}-{loss_type}-{gain}"
        if not source.exists():
            _make_run(source, seed, loss_type, gain)
        return shutil.copytree(source, path)

    return make


@pytest.fixture
def make_groups(tmp_path, make_run):
    """make_groups(2, grpo=0.3, bnpo=0.0): runs by their loss, of so many seeds and with these gains."""

    def make(seeds, **gains):
        return {
            loss: [load_run(make_run(tmp_path / f"{loss}{seed}", seed, loss, gain)) for seed in range(seeds)]
            for loss, gain in gains.items()
        }

    return make


@pytest.fixture
def run_dir(tmp_path):
    return shutil.copytree(GOLDEN / "grpo", tmp_path / "run")


@pytest.fixture
def dpo_dir(tmp_path):
    return shutil.copytree(GOLDEN / "dpo", tmp_path / "dpo")


@pytest.fixture
def edit():
    """edit(run_dir, "run.json", status="failed"); a dotted name is a nested key, and Ellipsis removes one."""

    def edit(path, file, changes=(), **more):
        content = json.loads((path / file).read_text())
        for name, value in (dict(changes) | more).items():
            *outer, last = name.split(".")
            place = content
            for key in outer:
                place = place.setdefault(key, {})
            if value is ...:
                place.pop(last, None)
            else:
                place[last] = value
        (path / file).write_text(json.dumps(content))

    return edit


@pytest.fixture
def edit_info(edit):
    return lambda path, **changes: edit(path, "run.json", **changes)


def _make_run(path, seed, loss_type, gain):
    """A finished run whose accuracy goes from about 0.25 to 0.25 + gain: of each row one completion a side."""
    rng = random.Random(f"{seed} {loss_type}")
    sides = {
        "baseline": [rng.random() < 0.25 for _ in range(ROWS)],
        "trained": [rng.random() < 0.25 + gain for _ in range(ROWS)],
    }
    found, samples = {}, []
    for which, right in sides.items():
        found[which] = []
        for row, outcome in enumerate("correct" if one else "failed" for one in right):
            tokens, reward = rng.randrange(10, 64), float(right[row])
            kl = 0.0 if which == "baseline" else rng.gauss(4, 2)
            known = {"which": which, "id": f"row-{row}", "sample": 0, "decoding": "sampled", "prompt": "p",
                     "completion": "c", "tokens": tokens, "outcome": outcome, "truncated": False,
                     "rewards": {"outcome": reward}, "reward": reward, "kl": kl}  # fmt: skip
            found[which].append(Completion(row=row, ids=[0] * tokens, **known))
            samples.append(found[which][-1])
    evaluation = {which: summarise(completions, 64) for which, completions in found.items()}
    evaluation["paired"] = compare(*found.values(), max_tokens=64)
    args = {"seed": seed, "beta": 0.05, "learning_rate": 5e-4, "loss_type": loss_type}
    config = {"seed": seed, "max_tokens": 64, "algo": {"name": "grpo", "args": args}}
    info = {"status": "finished", "algo": "grpo", "task": "countdown", "loss_type": loss_type, "model": "tiny",
            "seed": seed, "max_tokens": 64, "started": f"2026-01-01T12:0{seed}:00"}  # fmt: skip
    (path / ".hydra").mkdir(parents=True)
    for name, content in {"run.json": info, "evaluation.json": evaluation, ".hydra/config.yaml": config}.items():
        (path / name).write_text(json.dumps(content))  # JSON is YAML
    write_lines(path / "samples.jsonl", samples)
