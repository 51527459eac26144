"""The processes of a run, as torchrun starts them: which one this is, and what all of them know or do together.

    processes.connect(timeout_s=1800, use_cpu=True)          # every rank, before any of the functions below
    processes.is_main()                                      # rank 0, which alone writes and prints
    settings = processes.broadcast(settings)                 # rank 0's value
    found = processes.gather_dict({i: measure(i) for i in processes.shard(range(9))})  # measured once, known to all

Each rank runs the same command line, so every rank makes the same calls in the same order, except `shard`, which asks
nobody. A single process gets its own value back, and torch is not imported. Objects travel through gloo, also where
gradients travel through NCCL. When one rank ends with an error, torchrun ends the others.
"""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from typing import Any, ParamSpec, TypeVar

from rlhf_exp.errors import ALARMED, ConfigError

P = ParamSpec("P")
T = TypeVar("T")

SET_BY_TORCHRUN = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
GRACE_S = 5.0
"""How long a rank with an error waits before it says so: torchrun ends it meanwhile if rank 0 has the same error."""


def rank() -> int:
    """The number of this process, from 0."""
    return _read_number("RANK", 0) if count() > 1 else 0


def count() -> int:
    """How many processes there are; 1 if WORLD_SIZE is empty, as schedulers leave it, or no number (see `check`)."""
    return max(1, _read_number("WORLD_SIZE", 1))


def _read_number(name: str, default: int) -> int:
    value = os.environ.get(name, "")
    return int(value) if value.isdecimal() else default


def is_main() -> bool:
    """Whether this is rank 0."""
    return rank() == 0


def check() -> list[str]:
    """A line if the environment does not say how many processes there are, or not how they find each other."""
    given = {name: os.environ.get(name, "") for name in SET_BY_TORCHRUN}
    missing = [name for name, value in given.items() if not value]
    numbers = [(name, given[name]) for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE") if given[name]]
    if wrong := [f"{name}={value}" for name, value in numbers if not value.isdecimal()]:
        return [f"{', '.join(wrong)}: must be a whole number; start with torchrun, or unset WORLD_SIZE"]
    if count() > 1 and missing:
        return [f"WORLD_SIZE={count()}: without {', '.join(missing)}; start with torchrun, or unset WORLD_SIZE"]
    return []


def connect(timeout_s: float, use_cpu: bool) -> None:
    """Open the group of all ranks, which accelerate then uses too. Later jobs of a sweep use the first one's.

    `timeout_s`: how long one rank waits for another (TRL's `ddp_timeout`, which TRL itself would read too late).
    """
    if count() == 1:
        return
    import torch

    if torch.distributed.is_initialized():
        return
    if not use_cpu:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    backend = "gloo" if use_cpu else "cpu:gloo,cuda:nccl"
    torch.distributed.init_process_group(backend, timeout=timedelta(seconds=timeout_s))


def leave(status: int) -> int:
    """The exit status. One of several processes ends here, and closes the group first if all went well; after an
    error or a signal other ranks may be gone. Python's own end is left out: now and then gloo's threads abort it after
    all is done, and torchrun would call the run failed. After a signal or an alarm rank 0 still writes its report,
    which torchrun would cut off if another rank ended with an error."""
    if count() == 1:
        return status
    if not status and (torch := sys.modules.get("torch")) and torch.distributed.is_initialized():
        barrier()  # rank 0 still writes its report
        torch.distributed.destroy_process_group()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status if is_main() or status < ALARMED else 0)


# What all ranks do together


def broadcast(value: T) -> T:
    """Rank 0's value."""
    if count() == 1:
        return value
    import torch

    held: list[Any] = [value if is_main() else None]
    torch.distributed.broadcast_object_list(held, src=0, device=torch.device("cpu"))
    return held[0]


def gather(value: T) -> list[T]:
    """The value of each rank, by rank."""
    if count() == 1:
        return [value]
    import torch

    found: list[Any] = [None] * count()
    torch.distributed.all_gather_object(found, value)
    return found


def broadcast_tensors(tensors: Iterable[Any]) -> None:
    """Give tensors, on any device, rank 0's values."""
    if count() > 1:
        import torch

        for tensor in tensors:
            torch.distributed.broadcast(tensor.detach(), src=0)


def sum_over_ranks(values: Sequence[float]) -> list[float]:
    """Each value's sum over the ranks, in float64."""
    if count() == 1:
        return list(values)
    import torch

    sums = torch.tensor(values, dtype=torch.float64)
    torch.distributed.all_reduce(sums)
    return sums.tolist()


def shard(items: Sequence[T]) -> Sequence[T]:
    """Every n-th of the items, this rank's part."""
    return items[rank() :: count()]


def gather_dict(found: dict[Any, T]) -> dict[Any, T]:
    """The entries of all ranks."""
    return {key: value for part in gather(found) for key, value in part.items()}


def on_main(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What `call` returns on rank 0, which alone calls it. Nothing that all ranks do together may be in it.

    Raises:
        ConfigError: `call` raises it, on every rank; another error is raised on rank 0 alone, which then ends.
    """
    found: Any = None
    refused = None
    if is_main():
        try:
            found = call(*args, **kwargs)
        except ConfigError as error:
            refused = error
    found, refused = broadcast((found, refused))
    if refused is not None:
        raise refused
    return found


@contextmanager
def enter_on_main(context: AbstractContextManager[T]) -> Iterator[T]:
    """Inside the `with` of all ranks, what `context` yields to rank 0, which alone enters it, before others come, and
    leaves it, after they have gone."""
    entered: AbstractContextManager[Any] = context if is_main() else nullcontext()
    with entered as value:
        yield broadcast(value)
        barrier()
    barrier()


def barrier() -> None:
    """Wait until every rank is here."""
    gather(None)
