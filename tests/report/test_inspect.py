"""Inspect's logs of a run: their shape, and that inspect-ai reads them, where it is installed."""

import json

import pytest

from rlhf_exp.report.__main__ import main
from rlhf_exp.runs.load import load_run
from tests.report.test_golden import GOLDEN


@pytest.fixture
def run(run_dir):
    """A run with two sampled completions and a greedy one of each row."""
    return load_run(run_dir)


def write(run):
    """Each log by its model."""
    assert main([str(run.path), "--inspect"]) == 0
    logs = {path: json.loads(path.read_text()) for path in (run.path / "inspect").iterdir()}
    return {log["eval"]["model"]: (path, log) for path, log in logs.items()}


def test_each_model_has_a_log_with_all_its_samples(run):
    logs = write(run)
    assert sorted(logs) == ["tiny, start", "tiny, trained by grpo"]
    for which, (path, log) in zip(("baseline", "trained"), (logs[name] for name in sorted(logs)), strict=True):
        rows = [one for one in run.samples if one["which"] == which]
        assert path.name == f"{run.info['started'].replace(':', '-')}_countdown_{log['eval']['task_id']}.json"
        assert (log["version"], log["status"]) == (2, "success")
        assert [one["output"]["choices"][0]["message"]["content"] for one in log["samples"]] == [
            one["completion"] for one in rows
        ]
        accuracy = run.evaluation[which]["accuracy"]["value"]
        assert log["results"]["scores"][0]["metrics"]["accuracy"]["value"] == accuracy
        assert len({(one["id"], one["epoch"]) for one in log["samples"]}) == len(rows)
        sampled = [one["scores"]["outcome"]["value"] for one in log["samples"] if one["epoch"] <= 2]
        assert sampled.count("C") / len(sampled) == pytest.approx(accuracy)
        greedy = {
            one["metadata"]["decoding"] for one in log["samples"] if one["epoch"] == log["eval"]["config"]["epochs"]
        }
        assert greedy == {"greedy"}
        assert [one["scores"]["reward"]["value"] for one in log["samples"]] == [one["reward"] for one in rows]


def test_a_chat_prompt_is_messages(run):
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2 + 2?"}]
    run.samples[:] = [one | {"messages": messages, "prompt": "2 + 2?"} for one in run.samples]
    (run.path / "samples.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in run.samples))
    sample = write(run)["tiny, start"][1]["samples"][0]
    assert sample["input"] == messages and sample["messages"][:2] == messages


def test_what_inspect_ai_reads_is_what_was_written(run):
    log = pytest.importorskip("inspect_ai.log", reason="inspect-ai is not installed")
    for path, written in write(run).values():
        read = log.read_eval_log(str(path))
        assert (read.status, len(read.samples)) == ("success", len(written["samples"]))
        for one, sample in zip(written["samples"], read.samples, strict=True):
            assert (sample.id, sample.epoch, sample.input) == (one["id"], one["epoch"], one["input"])
            assert sample.output.completion == one["output"]["completion"]
            assert sample.scores["outcome"].value == one["scores"]["outcome"]["value"]
    assert len(log.list_eval_logs(str(run.path / "inspect"))) == 2


def test_what_has_no_log_is_refused_in_one_line(run, capsys):
    def refuse(*arguments):
        assert main([*arguments, "--inspect"]) == 2
        [line] = capsys.readouterr().err.splitlines()
        return line

    assert "holds no completions" in refuse(str(GOLDEN / "reward_model"))
    assert refuse(str(run.path), "--against", "grpo").endswith("--against: has no effect with --inspect")
    config = run.path / ".hydra" / "config.yaml"
    config.write_text(f"report:\n  samples: false\n{config.read_text()}")
    assert "report.samples=false" in refuse(str(run.path)) and not (run.path / "inspect").exists()
