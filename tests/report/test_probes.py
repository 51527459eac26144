import json

import pytest

from rlhf_exp.evaluation.probes import summarise_probes
from rlhf_exp.report import write_report
from rlhf_exp.report.page import Pair, Table, to_html
from rlhf_exp.report.probes import describe_probes
from rlhf_exp.report.single import describe_run
from rlhf_exp.runs.figures import percent
from rlhf_exp.runs.load import load_run
from tests.report.conftest import table_rows


@pytest.fixture
def probed(tmp_path, make_run, edit):
    """Two seeds with probes, whose trained model refuses more; and one run without probes."""

    def make(seed):
        path = make_run(tmp_path / str(seed), seed)
        lines = [{"which": which, "kind": "over_refusal", "id": f"over_refusal {i}", "decoding": "greedy",
                  "prompt": "<b>How?</b>", "completion": "<script>", "verdict": which == "trained" and i % 2 == seed,
                  "why": "i can't"} for which in ("baseline", "trained") for i in range(16)]  # fmt: skip
        facts = {"left_out": 0, "unknown_words": 7, "max_tokens": 8}
        edit(path, "evaluation.json", probes=summarise_probes(lines), probe_facts=facts)
        (path / "probes.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        return path

    return [make(0), make(1), make_run(tmp_path / "without", 0, "dr_grpo")]


def test_a_run_shows_its_shares_and_two_samples_of_each_kind_changed_ones_first(probed, edit):
    run = load_run(probed[1])
    blocks = describe_probes(run)
    table, *_ = [block for block in blocks if isinstance(block, Table)]
    share = run.evaluation["probes"]["over_refusal"]["trained"]["share"]
    assert [row[1:6] for row in table.rows] == [["16", "16", "0.0% [0.0, 19.4]", "16", percent(share)]]
    pairs = [block for block in blocks if isinstance(block, Pair)]
    assert [pair.title for pair in pairs] == ["over_refusal 1, greedy", "over_refusal 3, greedy"]
    assert "<script>alert" not in to_html(blocks, {}) and all(block in describe_run(run) for block in blocks)
    assert describe_probes(load_run(probed[2])) == []
    edit(probed[1], ".hydra/config.yaml", {"report.samples": False})
    assert not any(isinstance(block, Pair) for block in describe_probes(load_run(probed[1])))


def test_a_comparison_shows_the_shares_of_each_setting_over_its_seeds(probed):
    page = write_report(probed, probed[0].parent / "out")
    rows = [[cell.split()[0] for cell in row] for row in table_rows(page.parent, "Failure-mode probes")]
    assert sorted(rows) == [["dr_grpo", "1", "-", "-"], ["grpo", "2", "0.0%", "50.0%"]]
