"""What every test may use: the command line in this process, and compositions that are made once.

`command_line`: `python -m rlhf_exp ...` without a new process, which takes 8 s of processor time to import TRL.
"""

import functools
import gc
import importlib.metadata
import os
import pickle
import signal
import sys
import warnings
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from subprocess import CompletedProcess
from types import SimpleNamespace

import pytest
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.sources_registry import SourcesRegistry
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.plugins import Plugins
from hydra.errors import HydraException
from omegaconf import grammar_parser
from omegaconf.errors import OmegaConfBaseException

from rlhf_exp import processes
from rlhf_exp.__main__ import main
from rlhf_exp.analysis.report import page, plots
from rlhf_exp.config import ROOT, compose, device
from rlhf_exp.launch import jobs

TYPED_DEFAULTS = {"algo=grpo", "task=countdown", "model=tiny", "peft=none"}
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing touches the network


def pytest_collection_modifyitems(items):
    """Files with slow tests first: the worker that ends early takes over the quick ones, which share no fixture."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


def pytest_collection_finish():
    gc.collect()
    gc.freeze()  # a run collects before each of its phases: 0.1 s and more over all that the libraries hold
    gc.set_threshold(20_000, 20, 100)  # libraries that are imported later are searched seldom


@pytest.fixture(scope="session", autouse=True)
def signals_as_in_a_terminal():
    """`nohup` and a shell's `&` start the tests with signals ignored, which a run then ignores too."""
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


@pytest.fixture(scope="session", autouse=True)
def processor_without_bf16():
    """Defaults of a run in this process are those of any machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device, "cpu_has_bf16", lambda: False)
        yield


def draw_nothing(plot, out):
    """An empty file in a plot's place, since drawing takes up to 2 s for each report."""
    path = out / "plots" / f"{plot.name}.png"
    path.parent.mkdir(exist_ok=True)
    path.touch()
    return path


@pytest.fixture(scope="session", autouse=True)
def blank_plots():
    """`drawn` draws them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page, "draw", draw_nothing)
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
    monkeypatch.setattr(page, "draw", plots.draw)


@pytest.fixture(scope="session")
def command_line():
    """`command_line("algo=grpo", ..., cwd=FOLDER)` calls `python -m rlhf_exp` in this process, in a folder of its own.
    What a process would leave behind is put back."""

    def call(*arguments, cwd):
        with _as_a_process(cwd, ["rlhf_exp", *arguments]) as (out, err):
            status = main()
        return CompletedProcess(arguments, status, out.getvalue(), err.getvalue())

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


@pytest.fixture(scope="session")
def miniatures(tmp_path_factory):
    """For each model of the hub a folder with its architecture in miniature, and no weights."""
    from transformers import GPT2Config, Qwen2Config, Qwen3Config

    from rlhf_exp.models.untrained import build_byte_tokenizer

    template = "{% for m in messages %}{{ m.content }}{% endfor %}"
    template += "{% if enable_thinking is false %}<think></think>{% endif %}"
    sizes = {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 2, "max_position_embeddings": 4096}
    made = {"gpt2": GPT2Config, "qwen2_5_0_5b": Qwen2Config, "qwen2_5_3b": Qwen2Config, "qwen3_1_7b": Qwen3Config}
    for name, config in made.items():
        made[name] = tmp_path_factory.mktemp(name)
        tokenizer = build_byte_tokenizer()
        tokenizer.chat_template = None if name == "gpt2" else template
        tokenizer.model_max_length = 4096
        tokenizer.save_pretrained(made[name])
        config(**sizes, vocab_size=len(tokenizer)).save_pretrained(made[name])
    return made


@pytest.fixture(scope="session", autouse=True)
def composed_once():
    """Compose the same options of groups once, since Hydra takes 0.1 s for each composition; values are set anew, by
    Hydra's own function, and all checks still run. Kept as bytes, which are copied fastest."""
    made, compose_files, read = {}, compose.compose_files, {}
    Plugins.instance()  # runs the modules of Hydra's plugins again: their classes are those of the registry alone
    load = {kind: kind.load_config for kind in map(SourcesRegistry.instance().resolve, ("file", "pkg"))}

    def load_once(self, config_path):
        """A shipped file is read once: PyYAML takes a quarter of a composition's time."""
        if self.scheme() == "file" and not Path(self.path).is_relative_to(ROOT):  # a test's own may change
            return load[type(self)](self, config_path)
        if (self.path, config_path) not in read:
            read[self.path, config_path] = pickle.dumps(load[type(self)](self, config_path))
        return pickle.loads(read[self.path, config_path])

    def compose_values(overrides, config_name):
        found = OverridesParser.create().parse_overrides(list(overrides))
        values = [item for item in found if is_value(item)]
        chosen = [item.input_line for item in found if item not in values]
        groups = {item.key_or_group for item in found if item not in values}
        if len(groups) == len(chosen):  # then their order changes nothing, nor does a default that is typed
            chosen = sorted(set(chosen) - (set() if config_name or "experiment" in groups else TYPED_DEFAULTS))
        key = (config_name, processes.count(), *chosen)
        if key not in made:
            made[key] = pickle.dumps(compose_files(chosen, config_name))
        cfg, settings = pickle.loads(made[key])
        ConfigLoaderImpl._apply_overrides_to_config(values, cfg)
        settings.overrides.task = [item.input_line for item in found if not item.is_hydra_override()]
        return cfg, settings

    def compose_once(overrides, config_name=None, config_dir=None):
        try:
            refused = compose.check_overrides(overrides)
            if not (refused or config_dir):  # a folder of a test's own may change
                return compose_values(overrides, config_name)
        except (HydraException, OmegaConfBaseException):
            pass  # said below
        return compose_files(overrides, config_name, config_dir)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("omegaconf.base.parse", functools.cache(grammar_parser.parse))  # half of a composition's time
        for kind in load:
            patch.setattr(kind, "load_config", load_once)
        patch.setattr(compose, "compose_files", compose_once)
        patch.setattr(jobs, "compose_files", compose_once)
        yield compose_files


def is_value(override):
    """Whether an override sets a value, and neither chooses an option of a group nor concerns Hydra itself."""
    name = override.key_or_group
    is_group = (ROOT / "conf" / name).is_dir() or override.package is not None
    return not (is_group or override.is_hydra_override() or override.is_sweep_override())
