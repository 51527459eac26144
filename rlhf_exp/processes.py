"""The processes of a run, as torchrun starts them: which one this is, and what all of them know or do together.

    processes.is_main()                          # rank 0, which alone writes and prints
    settings = processes.share(settings)         # rank 0's value
    found = processes.join({i: measure(i) for i in processes.take(range(9))})    # measured once, known to all

Every rank makes the same calls in the same order, except `take`, which asks nobody. A single process gets its own value
back, and torch is not imported. Objects travel through gloo, also where gradients travel through NCCL.

Rank 0 alone reads the command line. The others wait for what it starts:

    processes.connect(timeout_s=1800, use_cpu=True)      # rank 0, before torch.distributed is needed
    processes.order((config, folder))                    # rank 0; the others get it from `receive()`
    processes.end(status)                                # rank 0; `receive()` then returns an Ended
"""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

from rlhf_exp.config.values import show
from rlhf_exp.errors import ConfigError, name_error

T = TypeVar("T")

SET_BY_TORCHRUN = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
NUMBERS = ("WORLD_SIZE", "RANK", "LOCAL_RANK")
WAIT = timedelta(days=365)
"""How long a process waits for what rank 0 starts: it may be at work on its own, such as on a sweep's report."""

CONCUR_S = 30.0
"""How long a process that refuses a run waits for the others to refuse it too."""


@dataclass(frozen=True)
class Ended:
    """Rank 0 has nothing further to do; its exit status."""

    status: int


class MainFailed(RuntimeError):
    """Rank 0 has raised an error in `on_main`; the message says which."""


class _State:
    """What this process knows of the others."""

    store: Any = None
    orders = refusals = 0
    has_group = is_broken = False
    opened_with: dict[str, Any] = {}
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


# How the others follow rank 0


def connect(timeout_s: float, use_cpu: bool) -> None:
    """Open the group of all processes, which accelerate then uses. A second call changes nothing.

    `timeout_s`: how long one waits for another in it (TRL's `ddp_timeout`).

    Raises:
        ConfigError: it is open already, with other values.
    """
    asked = {"device.use_cpu": use_cpu, "algo.args.ddp_timeout": timeout_s}
    if problems := [
        f"{name}={show(asked[name])}: the processes of a sweep have one connection, opened with {show(value)};"
        " start this job by a torchrun of its own"
        for name, value in _state.opened_with.items()
        if asked[name] != value
    ]:
        raise ConfigError(problems)
    if count() > 1 and not _state.has_group:
        _post("join", {"timeout_s": timeout_s, "use_cpu": use_cpu, "offline": os.environ.get("HF_HUB_OFFLINE")})
        _join_group(timeout_s, use_cpu, None)


def order(value: Any) -> None:
    """Hand the others what to do, on rank 0, after `connect`."""
    if count() > 1:
        _post("order", None)
        share(value)


def end(status: int) -> None:
    """Tell the others that rank 0 ends, with its exit status."""
    if count() > 1 and not _state.is_broken:
        _post("end", status)


def receive() -> Any:
    """The next order of rank 0, or an Ended."""
    while True:
        kind, value = json.loads(_get_store().get(f"rlhf_exp/order/{_state.orders}"))
        _state.orders += 1
        if kind == "join":
            _join_group(**value)
        else:
            return Ended(value) if kind == "end" else share(None)


def do_all_refuse() -> bool:
    """Whether every rank comes here, since all have refused the run: then they are still in step."""
    if count() == 1:
        return True
    store, job = _get_store(), _state.refusals
    _state.refusals += 1
    store.set(f"rlhf_exp/refused/{job}/{rank()}", "")
    try:
        store.wait([f"rlhf_exp/refused/{job}/{other}" for other in range(count())], timedelta(seconds=CONCUR_S))
    except RuntimeError:
        give_up()
    return not _state.is_broken


def give_up() -> None:
    """The others are at another place, or gone: none of these functions may be called again, but `leave`."""
    _state.is_broken = count() > 1


def is_broken() -> bool:
    """Whether the processes are no longer in step."""
    return _state.is_broken


def leave(status: int) -> int:
    """Close the group; returns the exit status. A process whose others are gone ends here, at once: it would wait for
    them as it closes."""
    if _state.is_broken:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    if _state.has_group:
        import torch

        torch.distributed.destroy_process_group()
        _state.has_group = False
    return status


def _post(kind: str, value: Any) -> None:
    _get_store().set(f"rlhf_exp/order/{_state.orders}", json.dumps([kind, value]))
    _state.orders += 1


def _get_store() -> Any:
    """torchrun's store of keys and values, or one that rank 0 opens."""
    if _state.store is None:
        from torch.distributed import rendezvous

        _state.store = next(rendezvous("env://", timeout=WAIT))[0]
    return _state.store


def _join_group(timeout_s: float, use_cpu: bool, offline: str | None) -> None:
    if offline is not None:  # read as the hub's client is imported
        os.environ["HF_HUB_OFFLINE"] = os.environ["HF_DATASETS_OFFLINE"] = offline
    import torch

    if not use_cpu:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.distributed.init_process_group(
        "gloo" if use_cpu else "cpu:gloo,cuda:nccl",
        store=torch.distributed.PrefixStore("rlhf_exp/group", _get_store()),
        rank=rank(),
        world_size=count(),
        timeout=timedelta(seconds=timeout_s),
    )
    _state.has_group = True
    _state.opened_with = {"device.use_cpu": use_cpu, "algo.args.ddp_timeout": timeout_s}
