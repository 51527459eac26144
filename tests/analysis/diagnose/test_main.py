"""The command: folders of ours, logs of others, and bad input, which is one line and status 2."""

import errno
import json
import os
import shutil
from pathlib import Path

import pytest

from rlhf_exp.analysis.diagnose.__main__ import main
from rlhf_exp.analysis.diagnose.foreign import guess_algo
from tests.analysis.diagnose.cases import make_metrics

GOLDEN = Path(__file__).parent.parent / "report" / "golden"


def write_state(path, algo="grpo", courses=None, rows=40):
    rows = make_metrics(algo, courses, rows)
    path.write_text(json.dumps({"log_history": [*rows, {"step": rows[-1]["step"], "train_runtime": 3.0}]}))
    return path


def test_a_trainers_state_is_diagnosed(tmp_path, capsys):
    courses = {
        "grad_norm": lambda x: None if x == 0.5 else 0.5 if x < 0.5 else 1e4,
        "entropy": None,
        "probe/entropy": None,
    }
    assert main(["--trl", str(write_state(tmp_path / "trainer_state.json", courses=courses))]) == 0
    told = capsys.readouterr().out
    assert "gradient_spike at steps" in told and "try: a lower learning_rate" in told
    assert "give --learning-rate for figures" in told and "give --beta" in told
    assert "entropy_collapse (probe/entropy|entropy)" in told


@pytest.mark.parametrize("cause", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_diagnosis_that_cannot_be_written_is_one_line(tmp_path, capsys, monkeypatch, cause):
    shutil.copytree(GOLDEN / "grpo", tmp_path / "run")

    def refuse(path, *args, **kwargs):
        raise OSError(cause, os.strerror(cause))  # a full disk names no file

    monkeypatch.setattr(Path, "write_text", refuse)
    assert main([str(tmp_path / "run"), "--write"]) == 2
    said = f"rlhf_exp diagnose: {tmp_path}/run/diagnosis.json: {os.strerror(cause)}\n"
    assert capsys.readouterr().err == said and [*tmp_path.rglob(".diagnosis*")] == []


LOGGED = {"learning_rate": lambda x: 2e-5 * min(1.0, 5 * x), "probe/kl": None, "probe/entropy": None}
DRIFTS = LOGGED | {"kl": lambda x: 4 * x}
SPIKES = LOGGED | {"grad_norm": lambda x: 5e3 if 0.4 < x < 0.6 else 0.5}
NO_KL = SPIKES | {"kl": None}
BOTH = ["--beta", "0.04", "--learning-rate", "1e-5"]


@pytest.mark.parametrize(
    ("algo", "courses", "flags", "lines"),
    [
        ("grpo", DRIFTS, [], ["try: a higher beta", "arguments of GRPOConfig", "give --beta", "cause: beta holds"]),
        ("grpo", DRIFTS, ["--beta", "0.04"], ["try: beta=0.08", "beta 0.04 holds the policy"]),
        ("grpo", DRIFTS | {"grad_norm": SPIKES["grad_norm"]}, BOTH, ["try first: learning_rate=5e-06"]),
        ("grpo", DRIFTS, ["--beta", "100"], ["try: beta=0.05", "; beta=100 is 2,000 times its default 0.05"]),
        ("grpo", SPIKES, [], ["try: learning_rate=5e-06", "0.5 -> 0.5, peak 5e+03 at step ", "rate 2e-05 is too"]),
        ("grpo", NO_KL | {"grad_norm": lambda x: 0.5, "entropy": lambda x: 0.4 + 4 * x}, [], ["try: learning_rate="]),
        ("dpo", LOGGED | {"logps/chosen": lambda x: -8 - 100 * x}, [], ["try: learning_rate=5e-06", "of DPOConfig"]),
        ("ppo", DRIFTS | {"ppo/kl": lambda x: 90 * x}, ["--beta", "0.1"], ["try: kl_coef=0.2", "of PPOConfig"]),
    ],
)
def test_a_log_is_answered_in_the_names_of_trl_with_its_figures(tmp_path, capsys, algo, courses, flags, lines):
    assert main(["--trl", str(write_state(tmp_path / "s.json", algo, courses)), *flags]) == 0
    told = capsys.readouterr().out
    assert [line for line in lines if line not in told] == []
    assert "algo." not in told and "reward.weights" not in told
    assert ("give --beta" in told) == (algo != "ppo" and "--beta" not in flags and courses.get("kl", True) is not None)
    assert "give --learning-rate" not in told


def test_a_folder_of_trl_is_the_log_of_its_newest_checkpoint(tmp_path, capsys):
    for step in (90, 100):
        (tmp_path / f"checkpoint-{step}").mkdir()
        write_state(tmp_path / f"checkpoint-{step}" / "trainer_state.json")
    assert main(["--trl", str(tmp_path)]) == 0
    assert f"{tmp_path / 'checkpoint-100' / 'trainer_state.json'}: " in capsys.readouterr().out
    write_state(tmp_path / "trainer_state.json")
    assert main(["--trl", str(tmp_path)]) == 0
    assert f"{tmp_path / 'trainer_state.json'}: " in capsys.readouterr().out


@pytest.mark.parametrize(("series", "algo"), [(["kl"], "kto"), ([], "dpo")])
def test_kto_is_told_from_dpo_by_its_kl(series, algo):
    assert guess_algo([dict.fromkeys(["rewards/chosen", "logps/chosen", *series], 0.1)]) == algo


def test_a_table_of_wandb_is_diagnosed_under_our_names(tmp_path, capsys):
    lines = ["Step,run - train/reward,run - train/reward__MIN,run - train/grad_norm,run - train/reward_std"]
    lines += [f"{i},{0.5 - 0.02 * i:.3f},0,{'NaN' if i == 19 else 0.4},0.1" for i in range(20)]
    table = tmp_path / "export.csv"
    table.write_text("\n".join(lines))
    assert main(["--wandb", str(table)]) == 0
    told = capsys.readouterr().out
    assert "nonfinite_loss at steps 19 to 19" in told and "reward 0.48 -> " in told


def test_a_folder_is_diagnosed_and_written_to_only_if_asked(tmp_path, capsys):
    run_dir = shutil.copytree(GOLDEN / "grpo", tmp_path / "run")
    before = (run_dir / "diagnosis.json").read_text()
    assert main([str(run_dir)]) == 0
    assert "rules checked" in capsys.readouterr().out
    assert (run_dir / "diagnosis.json").read_text() == before
    (run_dir / "diagnosis.json").unlink()
    assert main([str(run_dir), "--write"]) == 0
    assert set(json.loads((run_dir / "diagnosis.json").read_text())) >= {"findings", "health"}


BAD = {
    "no folder": (["nowhere"], "no such folder"),
    "a folder without metrics": (["empty"], "nothing to diagnose in it"),
    "nothing named": ([], "nothing to diagnose; name"),
    "no file": (["--trl", "nope.json"], "--trl nope.json: no such file"),
    "a folder without a log": (["--trl", "empty"], "empty: no trainer_state.json in it"),
    "a price below 0": (["--trl", "foreign.json", "--beta", "-1"], "--beta=-1.0: must be greater than or equal to 0"),
    "a rate of 0": (["--trl", "foreign.json", "--learning-rate", "0"], "--learning-rate=0.0: must be"),
    "a price beside a run": (["empty", "--beta", "0.1"], "--beta: only with --trl or --wandb"),
    "half a file": (["--trl", "half.json"], "not valid JSON"),
    "another file": (["--trl", "other.json"], "log_history"),
    "no needed series": (["--trl", "foreign.json"], "rules read"),
    "a table without steps": (["--wandb", "table.csv"], "no row with a step"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_input_is_one_line(tmp_path, monkeypatch, capsys, kind):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "run.json").write_text('{"status": "failed"}')
    (tmp_path / "half.json").write_text('{"log_history": [{"step": 1, "lo')
    (tmp_path / "other.json").write_text('{"history": []}')
    (tmp_path / "foreign.json").write_text(json.dumps({"log_history": [{"step": i, "speed": 2.0} for i in range(20)]}))
    (tmp_path / "table.csv").write_text("speed,place\n1,2\n")
    arguments, part = BAD[kind]
    assert main(arguments) == 2
    told = capsys.readouterr().err
    assert part in told
    assert len(told.splitlines()) == 1
