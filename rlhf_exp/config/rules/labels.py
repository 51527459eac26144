"""Refuses labels of a run that cannot name a folder, or that W&B would refuse.

check_labels(cfg)  ->  ["run.name=my run: must be ...; did you mean my-run?"]
"""

import re
from typing import Any

from rlhf_exp.config.schema import Config
from rlhf_exp.config.values import show

MOST_NAME, MOST_TAG, MOST_OTHER = 100, 64, 128
"""Letters; of tags and others as many as W&B takes."""

_NAME = re.compile(rf"[A-Za-z0-9][\w.+-]{{0,{MOST_NAME - 1}}}", re.ASCII)
_OTHERS = ("wandb_project", "entity", "group")
_ALLOWED = f"letters, digits, and . _ + - after the first one, at most {MOST_NAME}"


def is_folder_name(name: Any) -> bool:
    """Whether a run's name is a safe name of a folder on every system, and needs no quotes in a shell."""
    return isinstance(name, str) and bool(_NAME.fullmatch(name))


def check_labels(cfg: Config) -> list[str]:
    """Whether the run's name can begin a folder's name, and W&B takes its tags, project, entity and group."""
    problems, name = [], cfg.run.name
    if name is not None and not is_folder_name(name):
        near = re.sub(r"[^\w.+-]+", "-", name, flags=re.ASCII).strip("-._+")[:MOST_NAME]
        problems.append(f"run.name={show(name)}: must be {_ALLOWED}{f'; did you mean {near}?' if near else ''}")
    twice = dict.fromkeys(tag for tag in cfg.run.tags if cfg.run.tags.count(tag) > 1)
    problems += [f"run.tags={show(cfg.run.tags)}: names {show(tag)} twice; leave one out" for tag in twice]
    labels = [("run.tags", tag, MOST_TAG) for tag in cfg.run.tags]
    labels += [
        (f"logging.{key}", getattr(cfg.logging, key), MOST_OTHER) for key in ("wandb_project", "entity", "group")
    ]
    return problems + [
        f"{key}={show(text)}: has {len(text)} letters; must be 1 to {most}"
        for key, text, most in labels
        if text is not None and not 1 <= len(text) <= most
    ]
