"""How the other processes follow rank 0, which alone reads the command line: they wait for what it starts.

    orders.connect(timeout_s=1800, use_cpu=True)      # rank 0, before torch.distributed is needed
    orders.give((config, folder))                     # rank 0; the others get it from `receive()`
    orders.end(status)                                # rank 0; `receive()` then returns an Ended

And how they part when one of them cannot follow: `do_all_refuse`, `give_up`, `leave`.
"""

import json
import os
import sys
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from rlhf_exp.config.values import show
from rlhf_exp.errors import ConfigError
from rlhf_exp.processes import count, rank, share

WAIT = timedelta(days=365)
"""How long a process waits for what rank 0 starts: it may be at work on its own, such as on a sweep's report."""

CONCUR_S = 30.0
"""How long a process that refuses a run waits for the others to refuse it too."""


@dataclass(frozen=True)
class Ended:
    """Rank 0 has nothing further to do; its exit status."""

    status: int


class _State:
    """What this process knows of the others."""

    store: Any = None
    orders = refusals = 0
    has_group = is_broken = False
    opened_with: dict[str, Any] = {}


_state = _State()


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


def give(value: Any) -> None:
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
