"""Refuses TRL's arguments with which a resumed run would differ from an uninterrupted one."""

from rlhf_exp.config.schema import Config

INEXACT = {
    "save_only_model": "no run could be resumed from its checkpoints; leave it out, or use algo.args.save_strategy=no",
    "ignore_data_skip": "a resumed run would begin its epoch again; leave it out",
}


def check_saving(cfg: Config) -> list[str]:
    """Whether checkpoints hold all that resuming needs, and are read in full."""
    return [f"algo.args.{name}=true: {why}" for name, why in INEXACT.items() if cfg.algo.args.get(name) is True]
