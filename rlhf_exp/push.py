"""Pushes a run's model, with its card, to the hub: the last stage of a run with hub.push=true.

    push(cfg, run_dir)       # the address of the commit; config/rules/experiment.py has checked token and repository

PPO's critic is left out: a model is used without it.
"""

import shlex
from pathlib import Path

from rlhf_exp.config.schema import Config
from rlhf_exp.errors import name_error, say

LEFT_OUT = "critic/*"


def push(cfg: Config, run_dir: Path) -> str | None:
    """Upload `run_dir/model` in one commit, into a new repository if there is none. If that fails, one line says why
    and how to push later; the run has finished all the same.

    Returns:
        the address of the commit; None if it failed.
    """
    from huggingface_hub import HfApi

    assert cfg.hub.repo is not None  # checked by config/rules/experiment.py
    hub = HfApi(library_name="rlhf_exp")
    model, repo, title = run_dir / "model", cfg.hub.repo, f"Trained by rlhf_exp: {run_dir.name}"
    try:
        hub.create_repo(repo, private=cfg.hub.private, exist_ok=True)
        done = hub.upload_folder(repo_id=repo, folder_path=model, ignore_patterns=LEFT_OUT, commit_message=title)
    except Exception as error:  # of the network, the token or the repository; they have no common base class
        later = f"push later with: {push_command(cfg, run_dir)}"
        say(f"the run has finished, but {repo} was not pushed ({name_error(error)}); {later}")
        return None
    return done.commit_url


def push_command(cfg: Config, run_dir: Path) -> str:
    """The command of huggingface_hub that pushes the same."""
    private = ["--private"] if cfg.hub.private else []
    return shlex.join(["hf", "upload", str(cfg.hub.repo), str(run_dir / "model"), ".", "--exclude", LEFT_OUT, *private])
