"""python -m rlhf_exp audit task=NAME [KEY=VALUE ...]: checks a task's grader and rewards, without a model.

main(["task=file", "task.path=rows.jsonl", "task.checker=mine.py:check"])     # 1 if a check fails, else 0
"""

import sys
from dataclasses import asdict
from pathlib import Path

from rlhf_exp.commands import run_command
from rlhf_exp.config.hub import prepare_hub
from rlhf_exp.errors import FAILED, tell
from rlhf_exp.launch.arguments import compose_command

USAGE = """\
usage: python -m rlhf_exp audit task=NAME [GROUP=OPTION ...] [KEY=VALUE ...] [-cd FOLDER]

Checks the grader and the rewards of a task as the preflight of a run does, without a model: right answers must get full
marks; empty, corrupted and copied ones none; the same completion the same verdict. Exit status 1 if a check fails.

  python -m rlhf_exp audit task=countdown
  python -m rlhf_exp audit task=file task.path=rows.jsonl task.checker=mine.py:check model=tiny_gpt2
"""


def main(arguments: list[str] | None = None) -> int:
    """Audit what the command line asks for; returns the exit status."""
    return run_command(_work, arguments, USAGE, "audit")


def _work(arguments: list[str]) -> int:
    chosen = any(text.startswith(("algo=", "experiment=")) for text in arguments)
    cfg, _ = compose_command("audit", [] if chosen else ["algo=none"], arguments)
    prepare_hub(cfg)
    # After the command line was checked: transformers and torch take seconds.
    from rlhf_exp.describe.rows import load_tokenizer
    from rlhf_exp.experiment import Experiment
    from rlhf_exp.models.source import locate_start_model
    from rlhf_exp.preflight import describe_check, format_checks
    from rlhf_exp.preflight.grader import check_grader
    from rlhf_exp.rewards import build_rewards
    from rlhf_exp.runs.folder import RunFolder
    from rlhf_exp.runs.records import RunRecord
    from rlhf_exp.tasks import load_task

    tokenizer = load_tokenizer(cfg)
    task = load_task(cfg, tokenizer)
    rewards = [] if cfg.reward.path is not None else build_rewards(cfg, task)  # a reward model has weights
    folder = RunFolder(Path(cfg.output_dir), RunRecord())  # nothing is written into it
    experiment = Experiment(cfg, folder, locate_start_model(cfg), tokenizer, task, rewards)
    found = [describe_check(check, asdict(cfg)) for check in check_grader(experiment, [], strict=True)]
    tell(format_checks(found))
    return FAILED if any(one.status == "failed" for one in found) else 0


if __name__ == "__main__":
    sys.exit(main())
