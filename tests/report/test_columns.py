from dataclasses import replace

import pytest

from rlhf_exp.report.columns import FAILED, KL, LENIENT, PARTIAL, TOKENS, TRUNCATION
from rlhf_exp.runs.load import load_run


@pytest.fixture
def run(run_dir):
    """Both trained completions of its first row are cut off, one of them is partial; all others are correct."""
    run = load_run(run_dir)
    samples = [sample | {"truncated": False, "outcome": "correct"} for sample in run.samples]
    trained = [place for place, sample in enumerate(samples) if sample["which"] == "trained"]
    for place in trained[:2]:
        samples[place]["truncated"] = True
    samples[trained[0]]["outcome"] = "partial"
    return replace(run, samples=samples)


def test_outcomes_and_cut_off_completions_are_read_of_each_row_and_side(run):
    rows = len(TRUNCATION.rows(run))
    assert rows > 2 and sum(TRUNCATION.rows(run).values()) == 1 and sum(TRUNCATION.start(run).values()) == 0
    assert sum(PARTIAL.rows(run).values()) == 0.5 and sum(FAILED.rows(run).values()) == 0
    share = PARTIAL.read(run)
    assert share["value"] == pytest.approx(0.5 / rows) and 0 <= share["low"] < share["value"] < share["high"]
    assert set(TOKENS.start(run)) == set(TOKENS.rows(run)) and set(KL.start(run).values()) == {0.0}


def test_a_run_without_the_figure_has_none(run):
    ungraded = replace(run, samples=[{k: v for k, v in one.items() if k != "outcome"} for one in run.samples])
    assert PARTIAL.read(ungraded) is None and PARTIAL.rows(ungraded) == {} and LENIENT.rows(ungraded) == {}
