import pytest

from rlhf_exp.analysis.frame import stack
from rlhf_exp.analysis.report import write_report
from rlhf_exp.analysis.report.noise import measure_passes
from rlhf_exp.analysis.stats import SHARES, crossed_interval
from rlhf_exp.runs.load import load_run
from tests.analysis.report.conftest import table_rows


@pytest.fixture
def passes(tmp_path, make_run, edit):
    """Runs of algo=none over eval.seed."""
    paths = [make_run(tmp_path / str(seed), seed) for seed in range(8)]
    for seed, path in enumerate(paths):
        edit(path, "run.json", algo="none", loss_type=...)
        edit(path, "evaluation.json", trained=..., paired=...)
        edit(path, ".hydra/config.yaml", {"algo": {"name": "none"}, "seed": 0, "eval": {"seed": seed}})
    return paths


def test_the_deviation_between_passes_is_that_of_their_accuracies(passes):
    runs = list(map(load_run, passes))
    shares = stack(runs, "baseline", "accuracy")
    mean, deviation = measure_passes(runs)
    assert mean == pytest.approx(crossed_interval(shares, SHARES))
    assert deviation["value"] == pytest.approx(shares.mean(1).std(ddof=1))
    assert deviation["low"] < deviation["value"] < deviation["high"]


def test_the_report_shows_each_pass(passes, tmp_path):
    said = []
    write_report(passes, tmp_path / "out", show=said.append)
    names = [row[0] for row in table_rows(tmp_path / "out", "Measured alone: none")]
    assert names == [*map(str, range(8)), "mean", "standard deviation"]
    assert said[0].startswith("Measured alone: none:")
