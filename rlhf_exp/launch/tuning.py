"""Tunes settings with Optuna, `hydra/sweeper=optuna`: what its jobs hand back, and what it found.

check_tuning(settings, config)                  # refuses a search on test rows, or for the smallest accuracy
read_objective(Path("outputs/tune/00_x"))       # 0.41: held-out accuracy of the trained model
"""

import shlex
from pathlib import Path

import yaml
from omegaconf import DictConfig

from rlhf_exp.runs.load import load_run

RESULTS = "optimization_results.yaml"
"""Optuna's sweeper writes it into the folder of the sweep."""
NO_TRIAL = "No trials are completed yet."
"""Optuna's error, a ValueError, if it is asked for the best of none."""


def check_tuning(settings: DictConfig, config: DictConfig) -> list[str]:
    """Why this search would not choose well; `config` is that of a job, without what is searched for."""
    problems = []
    if str(settings.sweeper.direction).rpartition(".")[2] != "maximize":
        problems.append("hydra.sweeper.direction: must be maximize; the jobs return held-out accuracy, or the reward")
    if config.eval.split != "validation":
        line = f"eval.split={config.eval.split}: a search chooses settings, so it needs validation rows:"
        problems.append(f"{line} eval.split=validation")
    return problems


def read_objective(folder: Path) -> float | None:
    """The trained model's accuracy on held-out rows, or its mean reward where no answer is graded; None if it was not
    measured."""
    trained = load_run(folder).evaluation.get("trained", {})
    found = trained.get("accuracy") or trained.get("reward", {}).get("mean")
    return found["value"] if found else None


def print_best(folder: Path) -> None:
    """Print what Optuna found best in a sweep's folder, if it was used, and how to measure it."""
    path = folder / RESULTS
    if not path.is_file():
        return
    found = yaml.safe_load(path.read_text(encoding="utf-8"))
    best = shlex.join(f"{key}={value}" for key, value in found["best_params"].items())
    print(f"best    {best}: {found['best_value']:.4g} on the rows that it was chosen on, so less on others")
    print(f"        on test rows: the same command with hydra.mode=RUN, without -m, and with {best} eval.split=test")
