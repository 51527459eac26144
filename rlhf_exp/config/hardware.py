"""Divides a step into passes, by the number of processes and by what fits at once on the hardware.

    count_processes(cfg)                        # here; in a dry run those of hardware=
    count_rows(4, 128, cfg)                     # rows of a pass in each process
    count_passes(128, cfg)                      # passes of a step

In conf/experiment they are ${rlhf_exp.rows:4,128} and ${rlhf_exp.passes:128}, so that a study has the same step on any
hardware.
"""

from typing import Any

from rlhf_exp import processes


def count_processes(cfg: Any) -> int:
    """The processes of the run, of a composed or a checked config: in a dry run, one for each GPU of `hardware`."""
    return foretold(cfg) or processes.count()


def foretold(cfg: Any) -> int:
    """The number of GPUs of another machine that a dry run is about; 0 if it is about this one."""
    return int(cfg.hardware.gpus or 0) if cfg.dry_run else 0


def count_rows(at_once: int, step: int, cfg: Any) -> int:
    """Rows of a forward and backward pass in each process, of a step of `step` rows.

    Args:
        at_once: as many as fit on a GPU of 24 GB.

    Raises:
        ValueError: there are fewer rows than processes.
    """
    n = count_processes(cfg)
    if step < n:
        raise ValueError(f"a step of {step} rows cannot be divided among {n} processes; start at most {step}")
    return min(step // n, at_once * int(cfg.hardware.batch_factor or 1))


def count_passes(step: int, cfg: Any) -> int:
    """Passes of `algo.args.per_device_train_batch_size` rows in each process, for a step of at most `step` rows."""
    rows = cfg.algo.args.per_device_train_batch_size
    return max(1, step // (rows * count_processes(cfg)))
