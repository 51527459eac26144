"""The commands of README.md, docs/ and examples/ that can run without a GPU and the hub, run: two steps, few rows.

tests/test_docs.py composes every command; what only reads, asks or draws is run there or beside its own module.
"""

import gzip
import json
import re
import shutil
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from hydra._internal.utils import get_args_parser

from rlhf_exp import api
from rlhf_exp.algorithms import ALGORITHMS
from rlhf_exp.cli.commands import COMMANDS
from rlhf_exp.cli.subcommand import parse_flags
from rlhf_exp.config.model_shape import ASSETS

SPEC = spec_from_file_location("pages", Path(__file__).parents[1] / "test_docs.py")
pages = module_from_spec(SPEC)
SPEC.loader.exec_module(pages)

FEW = ["eval.rows=16", "eval.most_rows=16", "device=cpu", "device.threads=1", "task.baselines=false"]
CANNOT = re.compile(rf"{pages.ABSENT.pattern}|the hub|without a network|offline|wandb|GPU|WANDB|vllm|submitit")
"""How a command is refused that needs what is not here."""


def list_runs():
    """(page, words) of each command that trains or measures, once; of a sweep its first job."""
    found = {}
    for page, name in zip(pages.PAGES, pages.NAMES, strict=True):
        for words, output in pages.list_commands(page):
            program, rest = words[0].rpartition("/")[2], words[1:]
            rest = rest[2:] if program == "python" and rest[:2] == ["-m", "rlhf_exp"] else rest
            own = program == "rlhf-exp" or len(rest) < len(words) - 1
            if not own or output or rest and rest[0] in COMMANDS:
                continue
            args = parse_flags(get_args_parser(), rest)
            if not (args.help or args.cfg or args.config_name or any("resume=" in text for text in args.overrides)):
                found.setdefault(tuple(rest), f"{name}: {' '.join(rest)}")
    return [pytest.param(list(rest), id=name) for rest, name in found.items()]


@pytest.fixture(scope="module")
def reader(tmp_path_factory, command_line):
    """A folder with what the pages name in capitals, or have made before: a reward model, samples, pairs."""
    folder = tmp_path_factory.mktemp("reader")
    for name in ("examples", "bench", "sweeps"):
        (folder / name).symlink_to(pages.ROOT / name)
    for name in (*pages.MODELS, "ORG/NAME"):
        shutil.copytree(ASSETS / "tiny", folder / name)
    pairs = [{"chosen": f"\n\nHuman: What is {i}?\n\nAssistant: A number.",
              "rejected": f"\n\nHuman: What is {i}?\n\nAssistant: No."} for i in range(200)]  # fmt: skip
    with gzip.open(folder / "PAIRS.jsonl.gz", "wt") as out:
        out.writelines(json.dumps(pair) + "\n" for pair in pairs)
    shutil.copyfile(folder / "PAIRS.jsonl.gz", folder / "FOLDER" / "train.jsonl.gz")
    made = {
        "outputs/reward_model": ["experiment=hh_rlhf_gpt2_reward_model_tiny", "algo.args.max_steps=2"],
        "outputs/samples/x": ["sample", "task=countdown", "task.sampling.rows=64"],
    }
    for name, words in made.items():
        done = command_line(*words, *(FEW[:4] if words[0] != "sample" else FEW[2:4]), f"output_dir={name}", cwd=folder)
        assert done.returncode == 0, done.stderr
    shutil.copytree(folder / "outputs" / "reward_model", folder / "outputs" / "reward_model_tiny")
    return folder


def shorten(words):
    """The overrides of the first job of a command, with two steps and few rows."""
    args = parse_flags(get_args_parser(), words)
    swept = {"seed", "loss_type", "max_tokens", "algo"} if args.multirun else ()
    job = [text.split(",")[0] if text.partition("=")[0] in swept else text for text in args.overrides]
    job = [text for text in job if not text.startswith(("hydra/", "hydra."))]
    if "dry_run=true" in job:
        return job
    job += FEW if not any(text.startswith(("task=hh_rlhf", "task=brevity", "experiment=")) for text in job) else FEW[:4]
    algo = next((text.partition("=")[2] for text in job if text.startswith("algo=")), "grpo")
    if ALGORITHMS[algo].trains:
        job += ["algo.args.max_steps=2"]
    if not ALGORITHMS[algo].online and not any("task=hh_rlhf" in text for text in job):
        job += ["task.sampling.rows=64"]
    return job


@pytest.mark.parametrize("words", list_runs())
def test_a_command_runs(words, reader, command_line, tmp_path):
    done = command_line(*shorten(words), f"output_dir={tmp_path / 'run'}", cwd=reader)
    if done.returncode == 2 and all(map(CANNOT.search, done.stderr.splitlines())):
        pytest.skip(done.stderr.splitlines()[0])
    assert done.returncode == 0, done.stderr
    if "dry_run=true" not in words:
        assert json.loads((tmp_path / "run" / "run.json").read_text())["status"] == "finished"


@pytest.mark.parametrize("name", ["docs/python.md", "docs/extending.md", "README.md"])
def test_the_python_of_a_page_runs(name, reader, monkeypatch):
    monkeypatch.chdir(reader)
    known = {}
    for language, text in pages.read_fences(pages.ROOT / name):
        if language == "python":
            exec(text, known)
    assert len(known) > 1
    if name == "docs/python.md":
        assert known["done"].status == "finished" and known["page"].is_file()
        assert known["done"].path.name.startswith("from-python_") and isinstance(known["done"], api.Run)
