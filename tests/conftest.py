"""What every test may use: the command line in this process, and compositions that are made once.

`command_line`: `python -m rlhf_exp ...` without a new process, which takes 8 s of processor time to import TRL.
"""

import copy
import functools
import gc
import importlib.metadata
import os
import pickle
import re
import signal
import sys
import warnings
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from types import SimpleNamespace

import omegaconf
import pytest
from hydra._internal import defaults_list
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import ConfigRepository
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from matplotlib.figure import Figure
from omegaconf import OmegaConf

from rlhf_exp.__main__ import main

SAVEFIG = Figure.savefig
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


@pytest.fixture(scope="session", autouse=True)
def blank_plots():
    """Plots are empty files, since drawing takes up to 2 s for each report; `drawn` draws them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", lambda figure, path: path.touch())
        yield


@pytest.fixture(scope="session", autouse=True)
def quick_saving_and_training():
    """accelerate collects all garbage whenever training begins, and so does each phase of a run: 0.1 s each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(importlib.metadata, "metadata", functools.cache(importlib.metadata.metadata))
        if "trl.trainer.utils" in sys.modules:
            young = SimpleNamespace(collect=lambda: gc.collect(0))
            patch.setattr("accelerate.utils.memory.gc", young)
            patch.setattr("rlhf_exp.runs.environment.gc", young)
        yield


@pytest.fixture
def drawn(blank_plots, monkeypatch):
    monkeypatch.setattr(Figure, "savefig", SAVEFIG)


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


@pytest.fixture(scope="module")
def workplace(tmp_path_factory):
    """A folder in which the tests of a module run commands."""
    return tmp_path_factory.mktemp("runs")


@pytest.fixture
def launch(command_line, workplace):
    """`launch("algo=grpo", ...)` calls `python -m rlhf_exp` there."""
    return lambda *overrides: command_line(*overrides, cwd=workplace)


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
    """Compose the same options of groups once, and read each file and each expression once: Hydra takes 0.15 s for each
    composition, and composes a job of a sweep three times. Values are set anew, and all checks still run. Kept as
    bytes, which are copied fastest, and which no garbage collection walks through."""
    made = {}
    choose, merge, read, load = (
        defaults_list._create_defaults_list, ConfigLoaderImpl._compose_config_from_defaults_list,
        ConfigRepository.load_config, OmegaConf.load,
    )  # fmt: skip
    parse_rule = OverridesParser.parse_rule
    create_map, embed = defaults_list._create_interpolation_map, ConfigLoaderImpl._load_single_config

    def remember(key, make):
        if key not in made:
            made[key] = pickle.dumps(make())
        return pickle.loads(made[key])

    def choose_once(repo, config_name, overrides, **kwargs):
        values, overrides.config_overrides = overrides.config_overrides, []

        def make():
            return choose(repo, config_name, overrides, **kwargs), vars(overrides)

        chosen, after = remember(("choose", *_places(repo), config_name, str(overrides), str(kwargs)), make)
        vars(overrides).update(after | {"config_overrides": values})
        return chosen

    def merge_once(loader, defaults, repo):
        common = 0  # Hydra's own configs and conf/config.yaml, which nearly all compositions begin with
        while common < len(defaults) and re.fullmatch("hydra/.*|config", defaults[common].config_path):
            common += 1

        def key(number):
            return "merge", *_places(repo), *map(repr, defaults[:number])

        def merge_the_rest():
            first = remember(key(common), lambda: merge(loader, defaults[:common], repo))
            return merge(loader, [SimpleNamespace(config=first), *defaults[common:]], repo)

        return remember(key(len(defaults)), merge_the_rest)

    def embed_once(loader, default, repo):
        return default if hasattr(default, "config") else embed(loader, default, repo)

    def read_once(repo, config_path):
        return remember(("read", *_places(repo), config_path), lambda: read(repo, config_path))

    def map_where_needed(overrides, defaults, self_added):
        return create_map(overrides, defaults, self_added) if "${" in str(defaults) else None

    def load_once(file):
        if not hasattr(file, "read"):  # a run's own, which may change
            return load(file)
        text = file.read()
        return remember(("read", text), lambda: load(StringIO(text)))

    @functools.lru_cache(10_000)
    def parse_override(text, rule):
        return parse_rule(OverridesParser.create(), text, rule)

    parse_once = functools.lru_cache(1000)(omegaconf.grammar_parser.parse)
    replacements = [
        (defaults_list, "_create_defaults_list", choose_once),
        (defaults_list, "_create_interpolation_map", map_where_needed),
        (ConfigLoaderImpl, "_compose_config_from_defaults_list", merge_once),
        (ConfigLoaderImpl, "_load_single_config", embed_once),
        (ConfigRepository, "load_config", read_once),
        (OverridesParser, "parse_rule", lambda parser, *args: copy.copy(parse_override(*args))),
        (OmegaConf, "load", load_once),
        (omegaconf.base, "parse", parse_once),
        (omegaconf._utils, "parse", parse_once),
    ]
    originals = [(place, name, getattr(place, name)) for place, name, _ in replacements]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ConfigStore, "__deepcopy__", lambda store, memo: store, raising=False)  # it is one for all
        for place, name, replacement in replacements:
            patch.setattr(place, name, replacement)
        yield originals


def _places(repo):
    return [source.path for source in repo.get_sources()]
