"""What every test may use: the command line in this process, and compositions that are made once.

`command_line`: `python -m rlhf_exp ...` without a new process, which takes 8 s of processor time to import TRL.
"""

import functools
import gc
import os
import pickle
import signal
import sys
import warnings
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO

import omegaconf
import pytest
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.global_hydra import GlobalHydra
from matplotlib.figure import Figure
from omegaconf import OmegaConf

from rlhf_exp.__main__ import main

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing touches the network


def pytest_collection_modifyitems(items):
    """Files with slow tests first: the worker that ends early takes over the quick ones, which share no fixture."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


def pytest_collection_finish():
    gc.collect()
    gc.freeze()  # a run collects before each of its phases: 0.1 s and more over all that the libraries hold


@pytest.fixture(scope="session", autouse=True)
def signals_as_in_a_terminal():
    """`nohup` and a shell's `&` start the tests with signals ignored, which a run then ignores too."""
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


@dataclass(frozen=True)
class Done:
    """How a command ended: its exit status, and what it printed."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture(scope="session")
def command_line():
    """`command_line("algo=grpo", ..., cwd=FOLDER)` calls `python -m rlhf_exp` in this process, in a folder of its own.
    What a process would leave behind is put back."""

    def call(*arguments, cwd):
        with _as_a_process(cwd, ["rlhf_exp", *arguments]) as (out, err):
            status = main()
        return Done(status, out.getvalue(), err.getvalue())

    return call


@contextmanager
def _as_a_process(folder, argv):
    environment = dict(os.environ)
    handlers = {number: signal.getsignal(number) for number in signal.valid_signals() if number != signal.SIGKILL}
    threads = sys.modules["torch"].get_num_threads() if "torch" in sys.modules else None
    with (
        pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(),
        redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err,
    ):  # fmt: skip
        patch.chdir(folder)
        patch.setattr(sys, "argv", argv)
        patch.setattr(Figure, "savefig", lambda figure, path: path.touch())  # 2 s a report; tests/report draws
        GlobalHydra.instance().clear()
        try:
            yield out, err
        finally:
            GlobalHydra.instance().clear()
            os.environ.clear()
            os.environ.update(environment)
            for number, handler in handlers.items():
                if signal.getsignal(number) is not handler:
                    signal.signal(number, handler)
            if threads:
                sys.modules["torch"].set_num_threads(threads)


@pytest.fixture(scope="session", autouse=True)
def compositions():
    """Compose the same overrides once, and read each file and each expression once: Hydra takes 0.15 s for each
    composition, and composes a job of a sweep three times. All checks still run. Kept as bytes, which are copied
    fastest, and which no garbage collection walks through."""
    made, files, compose, load = {}, {}, ConfigLoaderImpl.load_configuration, OmegaConf.load

    def compose_once(loader, *args, **kwargs):
        places = [path.path for path in loader.get_search_path().get_path()]
        key = str((args, kwargs, places, os.getcwd()))
        if key not in made:
            made[key] = pickle.dumps(compose(loader, *args, **kwargs))
        return pickle.loads(made[key])

    def load_once(file):
        if not hasattr(file, "read"):  # a run's own, which may change
            return load(file)
        text = file.read()
        if text not in files:
            files[text] = pickle.dumps(load(StringIO(text)))
        return pickle.loads(files[text])

    parse_once = functools.lru_cache(1000)(omegaconf.grammar_parser.parse)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ConfigLoaderImpl, "load_configuration", compose_once)
        patch.setattr(OmegaConf, "load", load_once)
        patch.setattr(omegaconf.base, "parse", parse_once)
        patch.setattr(omegaconf._utils, "parse", parse_once)
        yield made
