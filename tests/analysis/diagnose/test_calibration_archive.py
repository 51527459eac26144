"""What ships is what the archived runs give, and the failures that were induced on purpose are named as it says."""

from collections import Counter
from types import SimpleNamespace

import pytest

from rlhf_exp.analysis.diagnose.calibration import load_calibration
from rlhf_exp.config import ROOT


@pytest.fixture
def bench(monkeypatch):
    """The modules of bench/calibration."""
    monkeypatch.syspath_prepend(str(ROOT / "bench" / "calibration"))
    import archive
    import tables

    return SimpleNamespace(**vars(archive) | vars(tables))


@pytest.mark.slow
@pytest.mark.learning
def test_induced_failures_are_named_as_often_as_the_shipped_calibration_says(bench):
    calibration = load_calibration()
    found = [bench.judge(run, calibration, set()) for run in bench.read_archive("failures")]
    others = bench.read_archive("others_failures_developed")
    found += [bench.judge(run, calibration, set(), bench.MEANT_OTHERS) for run in others]
    raised = Counter(name for verdict in found for name in verdict["flagged"])
    right = Counter(name for verdict in found for name in verdict["flagged"] & verdict["right"])
    assert {name: [right[name], raised[name]] for name in raised} == calibration.right


@pytest.mark.learning
def test_shipped_calibration_is_that_of_the_archived_runs(bench):
    runs = {kind: bench.read_archive(kind) for kind in (*bench.KINDS, *bench.OTHERS, *bench.REAL)}
    calibration, verdicts, fresh = bench.calibrate(runs)
    assert calibration.scores == load_calibration().scores
    assert calibration == load_calibration() and len(calibration.settings) == calibration.runs > 0
    page = bench.PAGE.read_text(encoding="utf-8")
    for part, _ in bench.list_parts(runs, calibration, verdicts, fresh):
        assert part in page
