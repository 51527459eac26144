"""`dry_run=true`: every check, and what the run will be: its size, cost, chosen defaults, and a prompt as it is read.

    print_dry_run(cfg)

It loads no weights. What is on the hub and cannot be had without the network is named, and the rest is checked.
"""

from rlhf_exp.config.schema import Config


def print_dry_run(cfg: Config) -> None:
    """Check as a run would, and print what it will be; what only the network has is named and left unchecked.

    Raises:
        ConfigError: what a run would refuse before it loads weights.
    """
    from rlhf_exp.dry_run.show import print_run  # imports torch

    print_run(cfg)
