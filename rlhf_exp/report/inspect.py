"""Writes the held-out samples of a run as logs of Inspect (https://inspect.aisi.org.uk), without importing it: one of
the start model, and one of the trained model.

    write_logs(load_run(run_dir), run_dir / "inspect")      # then: inspect view --log-dir RUN_DIR/inspect

Their form is version 2 of Inspect's EvalLog, as inspect-ai 0.3 reads it. Each completion of a row is an epoch, a greedy
one the last. The target is empty, since a run keeps no right answers: the grader's outcome is the score.
"""

from hashlib import sha256
from pathlib import Path
from typing import Any

from rlhf_exp.errors import ConfigError
from rlhf_exp.report.groups import name_method
from rlhf_exp.runs.folder import write_json
from rlhf_exp.runs.load import SIDES, Run

OUTCOMES = {"correct": "C", "partial": "P", "failed": "I"}
FACTS = ("name", "algo", "loss_type", "seed", "git_commit", "command")
OF_SAMPLE = ("decoding", "truncated", "kl", "kl_sampled", "kl_outside")


def write_logs(run: Run, out: Path) -> list[Path]:
    """Write a log for each model whose completions the run has kept; returns their paths.

    Raises:
        ConfigError: there are none, or the run's texts must stay in its folder.
    """
    if not run.shows_texts:
        raise ConfigError([f"{run.path}: report.samples=false keeps its texts out of reports, and of Inspect's logs"])
    logs = [_make_log(run, which) for which in SIDES if any(one["which"] == which for one in run.samples)]
    if not logs:
        raise ConfigError([f"{run.path}: holds no completions; Inspect's logs are of samples.jsonl"])
    out.mkdir(parents=True, exist_ok=True)
    paths = []
    for spec, log in ((log["eval"], log) for log in logs):  # Inspect lists files that are named like this
        name = f"{spec['created'].replace(':', '-')}_{spec['task'].replace('_', '-')}_{spec['task_id']}.json"
        write_json(out / name, log)
        paths.append(out / name)
    return paths


def _make_log(run: Run, which: str) -> dict[str, Any]:
    """The EvalLog of one of SIDES."""
    info, section, rows = run.info, run.evaluation[which], [one for one in run.samples if one["which"] == which]
    model = f"{info['model']}, {'start' if which == 'baseline' else f'trained by {name_method(run)}'}"
    last = 1 + max(one.get("sample", 0) for one in rows)
    samples = [_make_sample(one, model, last) for one in rows]
    ids, usage = list(dict.fromkeys(one["id"] for one in rows)), _count_tokens(sum(one["tokens"] for one in rows))
    whole, own = (sha256(f"{run.path.name} {info['started']} {of}".encode()).hexdigest()[:22] for of in ("", which))
    reward = section.get("reward", {}).get("mean")
    scores = []
    for name, metric, figure in (("outcome", "accuracy", section.get("accuracy")), ("reward", "mean", reward)):
        if figure:
            measured = {metric: {"name": metric, "value": figure["value"], "metadata": figure}}
            scores.append({"name": name, "scorer": name, "metrics": measured})
    spec = {"eval_id": own, "run_id": whole, "task_id": own, "created": info["started"], "task": info["task"]}
    spec |= {"model": model, "tags": info.get("tags", []), "metadata": {name: info.get(name) for name in FACTS}}
    spec |= {"dataset": {"name": info["task"], "samples": len(ids), "sample_ids": ids, "shuffled": False}}
    sampling = {name: run.config["eval"][name] for name in ("temperature", "top_p", "seed")}
    ended = info.get("finished") or info["started"]
    return {
        "version": 2,
        "status": "success",
        "eval": {**spec, "config": {"epochs": max(one["epoch"] for one in samples)}},
        "plan": {"steps": [{"solver": "generate"}], "config": {**sampling, "max_tokens": info["max_tokens"]}},
        "results": {"total_samples": len(rows), "completed_samples": len(rows), "scores": scores},
        "stats": {"started_at": info["started"], "completed_at": ended, "model_usage": {model: usage}},
        "samples": samples,
    }


def _make_sample(one: dict[str, Any], model: str, last: int) -> dict[str, Any]:
    """The EvalSample of a line of samples.jsonl; `last` is the last epoch without greedy ones."""
    prompt, completion, usage = one.get("messages") or one["prompt"], one["completion"], _count_tokens(one["tokens"])
    asked = one.get("messages") or [{"role": "user", "content": prompt}]
    reply = {"role": "assistant", "content": completion, "source": "generate", "model": model}
    choice = {"message": reply, "stop_reason": "max_tokens" if one["truncated"] else "stop"}
    scores: dict[str, dict[str, Any]] = {}
    if "outcome" in one:
        scores["outcome"] = {"value": OUTCOMES[one["outcome"]], "answer": one.get("extracted")}
    if "reward" in one:
        scores["reward"] = {"value": one["reward"], "metadata": one["rewards"]}
    epoch = last + 1 if one.get("decoding") == "greedy" else one.get("sample", 0) + 1
    sample = {"id": one["id"], "epoch": epoch, "input": prompt, "target": "", "messages": [*asked, reply]}
    sample["output"] = {"model": model, "choices": [choice], "completion": completion, "usage": usage}
    metadata = {name: one[name] for name in OF_SAMPLE if name in one}
    return sample | {"model_usage": {model: usage}, "scores": scores, "metadata": metadata}


def _count_tokens(output: int) -> dict[str, int]:
    """Usage; a run counts the tokens of completions alone."""
    return {"input_tokens": 0, "output_tokens": output, "total_tokens": output}
