import json
import random

import numpy as np
import pytest

from rlhf_exp.report import study_table, write_report
from rlhf_exp.report.noise import measure_passes
from rlhf_exp.runs.load import load_run
from rlhf_exp.stats import share_interval

ROWS = 200


def make_pass(path, seed, first=0, completions=2):
    """A run of algo=none: each row is right with its own probability."""
    rng = random.Random(f"pass {seed}")
    chances = [0.1 + 0.8 * (first + row) / (first + ROWS) for row in range(ROWS)]
    right = [[rng.random() < chance for _ in range(completions)] for chance in chances]
    shares = [sum(row) / completions for row in right]
    samples = [
        {"which": "baseline", "id": f"{first + row}", "sample": i, "decoding": "sampled", "tokens": 5,
         "truncated": False, "outcome": "correct" if found else "failed", "prompt": "p", "completion": "c"}
        for row, several in enumerate(right) for i, found in enumerate(several)
    ]  # fmt: skip
    section = {"n": ROWS, "completions": completions, "accuracy": share_interval(shares, completions)}
    config = {"algo": {"name": "none", "args": {}}, "eval": {"seed": seed, "completions": 1}, "seed": 0}
    info = {"status": "finished", "algo": "none", "task": "countdown", "model": "tiny", "max_tokens": 64, "seed": 0}
    (path / ".hydra").mkdir(parents=True)
    (path / ".hydra" / "config.yaml").write_text(json.dumps(config))
    (path / "run.json").write_text(json.dumps(info))
    (path / "evaluation.json").write_text(json.dumps({"baseline": section}))
    (path / "samples.jsonl").write_text("".join(f"{json.dumps(sample)}\n" for sample in samples))
    return path, np.array(shares)


@pytest.fixture
def passes(tmp_path):
    made = [make_pass(tmp_path / str(seed), seed) for seed in range(8)]
    return [path for path, _ in made], np.array([shares for _, shares in made])


def test_the_deviation_between_passes_stands_beside_the_errors_that_sampling_and_intervals_say(passes):
    paths, shares = passes
    found = measure_passes([load_run(path) for path in paths])
    assert found.mean["value"] == pytest.approx(shares.mean())
    assert found.deviation["value"] == pytest.approx(shares.mean(1).std(ddof=1))
    assert found.deviation["low"] < found.by_sampling < found.deviation["high"]
    slow = np.mean([np.var(shares[:, row], ddof=1) for row in range(ROWS)]) / ROWS
    assert found.by_sampling == pytest.approx(slow**0.5)
    by_rows = np.mean([(one.var(ddof=1) / ROWS) ** 0.5 for one in shares])
    assert found.by_intervals == pytest.approx(by_rows, rel=0.05)


def test_passes_over_other_rows_have_no_error_of_sampling_alone(tmp_path):
    paths = [make_pass(tmp_path / str(seed), seed, first=seed)[0] for seed in range(3)]
    assert measure_passes([load_run(path) for path in paths]).by_sampling is None


def test_the_report_shows_each_pass_and_what_two_settings_would_show(passes, tmp_path):
    write_report(passes[0], tmp_path / "out")
    text = (tmp_path / "out" / "report.md").read_text()
    section = text.split("## Measured alone: none\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    assert [line.split("|")[1].strip() for line in lines[2:11]] == [*map(str, range(8)), "mean"]
    plan = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[-3:]]
    assert [row[0] for row in plan] == ["0.0", "2.0", "4.0"]
    assert [row[1] == "-" for row in plan] == [False, True, True]
    assert all(float(row[3]) < float(row[2]) for row in plan)
    table = study_table(passes[0])
    assert table.startswith("Measured alone: none:") and "standard deviation between passes, measured" in table
