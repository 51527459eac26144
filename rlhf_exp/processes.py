"""The processes of a run, as torchrun starts them: which one this is, and what all of them know or do together.

    processes.is_main()                          # rank 0, which alone writes and prints
    settings = processes.share(settings)         # rank 0's value
    found = processes.join({i: measure(i) for i in processes.take(range(9))})    # measured once, known to all

Every rank makes the same calls in the same order, except `take`, which asks nobody. A single process gets its own value
back, and torch is not imported. Objects travel through gloo, also where gradients travel through NCCL. How the others
come to be where rank 0 is: orders.py.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar

from rlhf_exp.errors import ConfigError, name_error

T = TypeVar("T")

SET_BY_TORCHRUN = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
NUMBERS = ("WORLD_SIZE", "RANK", "LOCAL_RANK")


class MainFailed(RuntimeError):
    """Rank 0 has raised an error in `on_main`; the message says which."""


class _State:
    is_on_main = False
    """Inside `on_main`: the others wait for its end, and would take another call's value for its result."""


_state = _State()


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
    """Lines if the environment does not say how many processes there are, or not how they find each other."""
    given = {name: os.environ.get(name) for name in NUMBERS}
    if wrong := [f"{name}={value}" for name, value in given.items() if value and not value.isdecimal()]:
        return [f"{', '.join(wrong)}: must be a whole number; start with torchrun, or unset WORLD_SIZE"]
    missing = [name for name in SET_BY_TORCHRUN if not os.environ.get(name)]
    if count() == 1 or not missing:
        return []
    return [f"WORLD_SIZE={count()}: without {', '.join(missing)}; start with torchrun, or unset WORLD_SIZE"]


# What all ranks do together


def share(value: T) -> T:
    """Rank 0's value."""
    _refuse_on_main()
    if count() == 1:
        return value
    import torch

    held = [value if is_main() else None]
    torch.distributed.broadcast_object_list(held, src=0, device=torch.device("cpu"))
    return held[0]


def gather(value: T) -> list[T]:
    """The value of each rank, by rank."""
    _refuse_on_main()
    if count() == 1:
        return [value]
    import torch

    found: list[Any] = [None] * count()
    torch.distributed.all_gather_object(found, value)
    return found


def spread(tensors: Iterable[Any]) -> None:
    """Give tensors, on any device, rank 0's values."""
    if count() > 1:
        import torch

        for tensor in tensors:
            torch.distributed.broadcast(tensor.detach(), src=0)


def add_up(values: Sequence[float]) -> list[float]:
    """Each value's sum over the ranks, in float64."""
    if count() == 1:
        return list(values)
    import torch

    sums = torch.tensor(values, dtype=torch.float64)
    torch.distributed.all_reduce(sums)
    return sums.tolist()


def take(items: Sequence[T]) -> Sequence[T]:
    """Every n-th of the items, this rank's part."""
    return items[rank() :: count()]


def join(found: dict[Any, T]) -> dict[Any, T]:
    """The entries of all ranks."""
    return {key: value for part in gather(found) for key, value in part.items()}


def on_main(call: Callable[[], T]) -> T:
    """What `call` returns on rank 0, which alone calls it. Nothing that all ranks do together may be in it.

    Raises:
        Exception: what `call` raises; on other ranks a MainFailed, but a ConfigError as it is.
    """
    _refuse_on_main()
    found, error = None, None
    if is_main():
        try:
            found = _call_alone(call)
        except Exception as raised:
            share((None, raised if isinstance(raised, ConfigError) else MainFailed(f"rank 0: {name_error(raised)}")))
            raise
    found, error = share((found, error))
    if error is not None:
        raise error
    return found


def _call_alone(call: Callable[[], T]) -> T:
    _state.is_on_main = True
    try:
        return call()
    finally:
        _state.is_on_main = False


def _refuse_on_main() -> None:
    if _state.is_on_main:
        raise AssertionError("rank 0 is alone inside on_main: no other function that all ranks call may be used there")


@contextmanager
def around(context: AbstractContextManager[T]) -> Iterator[T]:
    """Inside the `with` of all ranks, what `context` yields to rank 0, which alone enters it, before others come, and
    leaves it, after they have gone."""
    if not is_main():
        yield share(None)
        wait()
        share(None)
        return
    with context as value:
        yield share(value)
        wait()
    share(None)


def wait() -> None:
    """Until every rank is here."""
    gather(None)
