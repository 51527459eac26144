"""What the processes besides rank 0 do: they take part in the runs that rank 0 starts, and print nothing.

follow()     # the exit status
"""

import os
import signal
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from rlhf_exp import orders, processes
from rlhf_exp.cli.subcommand import hide_bars
from rlhf_exp.errors import FAILED, REFUSED, ConfigError
from rlhf_exp.runs.failures import record_failure
from rlhf_exp.runs.stopping import Stop


def follow() -> int:
    """Do what rank 0 orders until it ends; returns the exit status. What goes wrong is in the run folder, and rank 0
    says it."""
    hide_bars()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Python's own handler would wait for `receive` to return
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
        while not isinstance(order := orders.receive(), orders.Ended):
            status = _take_part(*order)
            if orders.is_broken():
                return status
    return order.status


def _take_part(config: Any, folder: Path) -> int:
    try:
        from rlhf_exp.pipeline import run

        return run(config, folder)
    except ConfigError:
        return REFUSED
    except KeyboardInterrupt as error:
        return Stop.of(error).status
    except processes.MainFailed:
        return FAILED  # in step, or noted in the folder
    except BaseException as error:  # SystemExit too: a reward may raise anything
        if not orders.is_broken():  # else it is noted
            record_failure(folder, error)
        return FAILED
