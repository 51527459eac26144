import json

import pytest

from tests.building import QUIET, UNTRAINED
from tests.preflight.test_first_steps import BROKEN

BRIEF = [*QUIET, "eval.rows=8", "eval.start_completions=1", "task.baselines=false", "max_tokens=8",
         "algo.args.max_steps=1", "algo.args.per_device_train_batch_size=8", "algo.args.num_generations=2",
         "eval.cache_dir=null"]  # fmt: skip
SHORT = [*UNTRAINED, *BRIEF]
LEARNS = [*BRIEF, "max_tokens=24", "algo.args.per_device_train_batch_size=16", "algo.args.num_generations=4",
          "algo.args.max_steps=6"]  # fmt: skip
"""Of the shipped model, whose rewards differ."""


@pytest.fixture
def generous(workplace):
    """Overrides of a task whose checker accepts everything."""
    (workplace / "mine.py").write_text("def check(completion, row):\n    return True\n")
    rows = [{"prompt": f"use {n} 2 3 make 5 .", "answer": str(n)} for n in range(1, 20)]
    for split in ("train", "test"):
        (workplace / f"{split}.jsonl").write_text("\n".join(json.dumps(row) for row in rows[split == "test" :: 2]))
    return ["task=file", "task.path=.", "task.answer_column=answer", "task.checker=mine.py:check", "eval.rows=null"]


def squeeze(text):
    return " ".join(text.split())


def read(folder, name):
    return json.loads((folder / name).read_text())


def test_preflight_only_ends_before_training_with_its_table_and_its_file(launch, workplace):
    done = launch(*SHORT, "preflight=only", "output_dir=only")
    assert done.returncode == 0, done.stderr
    record, checks = read(workplace / "only", "run.json"), read(workplace / "only", "preflight.json")["checks"]
    assert (record["status"], record["preflight"], record["steps"]) == ("finished", "only", 0)
    assert "preflight" in record["seconds"] and not (workplace / "only" / "model").exists()
    assert {"name": "oracle_max", "status": "passed"}.items() <= checks[0].items()
    assert "oracle_max passed" in squeeze(done.stdout)
    assert done.stdout.splitlines()[-1].startswith("preflight=only: nothing was trained; ")


def test_a_failed_check_refuses_the_run_by_name_and_off_skips_all_checks(launch, workplace, generous):
    done = launch(*SHORT, *generous, "output_dir=generous")
    assert done.returncode == 2
    first, *_ = done.stderr.splitlines()
    assert first.startswith("rlhf_exp: preflight, floor_gap: full marks for nothing on ")
    assert first.endswith("; preflight=off skips the checks")
    assert read(workplace / "generous", "run.json")["status"] == "refused"
    done = launch(*SHORT, *generous, f"algo.trainer={BROKEN}:Frozen", "output_dir=generous", "preflight=off")
    assert done.returncode == 0, done.stderr
    assert not (workplace / "generous" / "preflight.json").exists()


def test_audit_prints_the_table_and_fails_with_a_check(launch, generous):
    done = launch("audit", "task=countdown", "eval.rows=8")
    assert (done.returncode, done.stderr) == (0, "")
    assert "oracle_max passed" in squeeze(done.stdout) and "the start model was not measured" in done.stdout
    done = launch("audit", *generous)
    assert done.returncode == 1 and "floor_gap failed full marks for nothing" in squeeze(done.stdout)
    assert launch("audit", "task=countdwn").returncode == 2


def test_a_run_that_fails_in_its_first_steps_says_so_in_a_line_and_leaves_a_readable_folder(launch, workplace):
    done = launch(*LEARNS, f"algo.trainer={BROKEN}:Frozen", "output_dir=frozen")
    assert done.returncode == 1
    *_, line = done.stderr.strip().splitlines()
    assert line.startswith(
        "rlhf_exp: failed: FailedCheck: preflight, parameters_change: 46 of 94 tensors changed, and 47 should: the opt"
    )
    record, checks = read(workplace / "frozen", "run.json"), read(workplace / "frozen", "preflight.json")["checks"]
    assert record["status"] == "failed" and "parameters_change" in record["error"]
    found = {one["name"]: one["status"] for one in checks}
    assert (found["parameters_change"], found["memory"]) == ("failed", "passed")
    assert (workplace / "frozen" / "report.html").is_file()
