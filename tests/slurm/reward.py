"""Rewards of a job that is long at work, or takes more memory than it may. `SLOW` and `HUNGRY` name jobs by number."""

import os
import time

NUMBER = os.environ.get("SLURM_ARRAY_TASK_ID", "none")
FIRST_TIME = "SLURM_RESTART_COUNT" not in os.environ
taken = []


def letters(completions, **kwargs):
    """The number of letters. It takes a second when a slow job runs for the first time, so that what is to end the job
    finds it at work."""
    if FIRST_TIME and NUMBER in os.environ.get("SLOW", "").split(","):
        time.sleep(1)
    if NUMBER in os.environ.get("HUNGRY", "").split(","):
        taken.append(b"x" * 500_000_000)
    return [float(len(set(text))) for text in completions]
