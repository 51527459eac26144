import random

import numpy as np
import pytest

from rlhf_exp.report import study_table, write_report
from rlhf_exp.report.noise import measure_passes
from rlhf_exp.runs.folder import write_json, write_jsonl
from rlhf_exp.runs.load import load_run
from rlhf_exp.stats import SHARES, crossed_interval, share_interval

ROWS = 200


def make_pass(path, seed, completions=2):
    """A run of algo=none: each row is right with its own probability."""
    rng = random.Random(f"pass {seed}")
    chances = [0.1 + 0.8 * row / ROWS for row in range(ROWS)]
    right = [[rng.random() < chance for _ in range(completions)] for chance in chances]
    shares = [sum(row) / completions for row in right]
    samples = [
        {"which": "baseline", "id": f"{row}", "sample": i, "decoding": "sampled", "tokens": 5,
         "truncated": False, "outcome": "correct" if found else "failed", "prompt": "p", "completion": "c"}
        for row, several in enumerate(right) for i, found in enumerate(several)
    ]  # fmt: skip
    section = {"n": ROWS, "completions": completions, "accuracy": share_interval(shares, completions)}
    (path / ".hydra").mkdir(parents=True)
    write_json(path / ".hydra" / "config.yaml", {"algo": {"name": "none", "args": {}}, "eval": {"seed": seed}})
    write_json(path / "run.json", {"status": "finished", "algo": "none", "task": "countdown", "max_tokens": 64})
    write_json(path / "evaluation.json", {"baseline": section})
    write_jsonl(path / "samples.jsonl", samples)
    return path, np.array(shares)


@pytest.fixture
def passes(tmp_path):
    made = [make_pass(tmp_path / str(seed), seed) for seed in range(8)]
    return [path for path, _ in made], np.array([shares for _, shares in made])


def test_the_deviation_between_passes_is_that_of_their_accuracies(passes):
    paths, shares = passes
    mean, deviation = measure_passes([load_run(path) for path in paths])
    assert mean == pytest.approx(crossed_interval(shares, SHARES))
    assert deviation["value"] == pytest.approx(shares.mean(1).std(ddof=1))
    assert deviation["low"] < deviation["value"] < deviation["high"]


def test_the_report_shows_each_pass(passes, tmp_path):
    write_report(passes[0], tmp_path / "out")
    text = (tmp_path / "out" / "report.md").read_text()
    section = text.split("## Measured alone: none\n")[1].split("\n## ")[0]
    names = [line.split("|")[1].strip() for line in section.splitlines() if line.startswith("|")]
    assert names[2:] == [*map(str, range(8)), "mean", "standard deviation"]
    assert study_table(passes[0]).startswith("Measured alone: none:")
