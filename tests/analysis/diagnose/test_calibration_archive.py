"""What ships is what the archived runs give."""

import pytest

from rlhf_exp.analysis.diagnose.calibration import load_calibration
from rlhf_exp.config import ROOT


@pytest.mark.learning
def test_shipped_calibration_is_that_of_the_archived_runs(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "bench" / "calibration"))
    from archive import KINDS, OTHERS, read_archive
    from tables import PAGE, calibrate, list_parts

    runs = {kind: read_archive(kind) for kind in (*KINDS, *OTHERS)}
    calibration, verdicts, fresh = calibrate(runs)
    assert calibration.scores == load_calibration().scores
    assert calibration == load_calibration() and len(calibration.settings) == calibration.runs > 0
    page = PAGE.read_text(encoding="utf-8")
    for part, _ in list_parts(runs, calibration, verdicts, fresh):
        assert part in page
