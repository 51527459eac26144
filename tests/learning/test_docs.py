"""The commands of README.md and docs/ that can run without a GPU and the hub, run with few rows.

The first of each page takes two steps, the others are dry runs, which read the rows and the tokenizer, load the user's
functions and stop before the weights. tests/test_docs.py composes every command.
"""

import gzip
import json
import re
import shutil

import pytest

from rlhf_exp.algorithms import ALGORITHMS, PAIRS
from rlhf_exp.commands import COMMANDS, parse_flags
from rlhf_exp.config.compose import compose_config
from rlhf_exp.config.model_shape import ASSETS
from rlhf_exp.launch.arguments import PARSER
from rlhf_exp.models.untrained import create_untrained
from tests import test_docs as pages

DEVICE = ["device=cpu", "device.threads=1"]
FEW = ["eval.rows=16", "eval.most_rows=16", *DEVICE]
CANNOT = re.compile(rf"{pages.ABSENT.pattern}|couldn't connect|gave no answer|without a network|wandb|vLLM|memory: ")
"""How a command is refused that needs what is not here."""


ELSEWHERE = re.compile(r"examples/|docs/own_task\.md")
"""Pages whose commands tests/test_examples.py and tests/test_own_task.py run."""
LARGE = re.compile(r"dry_run|experiment=(?!\w*_tiny)|model=qwen|Qwen|ORG|wandb|hub\.")
"""Of what here only a dry run can be had, or a refusal."""


def list_runs():
    """(words, whether it takes steps) of each command that trains or measures, once."""
    found, begun = {}, set()
    listed = [pair for pair in zip(pages.PAGES, pages.NAMES, strict=True) if not ELSEWHERE.match(pair[1])]
    for page, name in listed:
        for words, output in pages.list_commands(page):
            program, rest = words[0].rpartition("/")[2], words[1:]
            rest = rest[2:] if program == "python" and rest[:2] == ["-m", "rlhf_exp"] else rest
            own = program == "rlhf-exp" or len(rest) < len(words) - 1
            if not own or output or rest and rest[0] in COMMANDS:
                continue
            args = parse_flags(PARSER, [word for word in rest if word != "--help"])
            if not (
                "--help" in rest or args.cfg or args.config_name or any("resume=" in text for text in args.overrides)
            ):
                steps = name not in begun and not LARGE.search(" ".join(rest))
                begun |= {name} if steps else set()
                found.setdefault(tuple(rest), pytest.param(list(rest), steps, id=f"{name}: {' '.join(rest)}"))
    return list(found.values())


@pytest.fixture(scope="module")
def reader(tmp_path_factory, command_line):
    """A folder with what the pages name in capitals, or have made before: a reward model, pairs."""
    folder = tmp_path_factory.mktemp("reader")
    for name in ("examples", "bench", "sweeps"):
        (folder / name).symlink_to(pages.ROOT / name)
    for name in pages.MODELS:
        shutil.copytree(ASSETS / "tiny", folder / name)
    for name in ("FOLDER", "STORIES260K"):  # a model that reads all bytes
        shutil.rmtree(folder / name)
        create_untrained(compose_config(["model=tiny_gpt2"]).model.init, 0, folder / name)
    for name, numbers in {"PAIRS": range(400), "FOLDER/helpful-base-train": range(400),
                          "FOLDER/helpful-base-test": range(400, 500)}.items():  # fmt: skip
        asked = [f"\n\nHuman: What is {i}?\n\nAssistant:" for i in numbers]
        with gzip.open(folder / f"{name}.jsonl.gz", "wt") as out:
            out.writelines(json.dumps({"chosen": f"{q} A number.", "rejected": f"{q} No."}) + "\n" for q in asked)
    pairs = ["task=hh_rlhf", "task.source=file", "task.path=PAIRS.jsonl.gz", "model.path=FOLDER"]
    made, *copies = (folder / name for name in pages.FOLDERS)
    done = command_line("algo=reward_model", *pairs, "algo.args.max_steps=1", *FEW, f"output_dir={made}", cwd=folder)
    assert done.returncode == 0, done.stderr
    for copy in copies:
        shutil.copytree(made, copy)
    return folder


def shorten(words):
    """The overrides of the first job of a command, with two steps and few rows."""
    args = parse_flags(PARSER, words)
    swept = {"seed", "loss_type", "max_tokens", "algo", "algo.trainer", "experiment", "+remedy", "reward"}
    swept = swept | {"algo.args.beta", "eval.seed"} if args.multirun else ()
    job = [text.split(",")[0] if text.partition("=")[0] in swept else text for text in args.overrides]
    job = [text for text in job if not text.startswith(("hydra/", "hydra."))]
    if "dry_run=true" in job:
        return job
    said, algo = " ".join(job), next((text[5:] for text in job if text.startswith("algo=")), "grpo")
    job += FEW + (["algo.args.max_steps=2"] if ALGORITHMS[algo].trains else [])
    if "curriculum" in said:
        job += ["algo.args.curriculum_from_steps=[0,1,2]", "algo.args.max_steps=3"]
    elif "max_tokens" not in said and "experiment=" not in said:
        job += ["max_tokens=48"]
    if "task=hh_rlhf" in said:
        job += ["task.train_rows=128", "task.subsets=[helpful-base]"]
    elif "task=brevity" not in said and ("experiment=" not in said or "countdown" in said):
        pairs = ALGORITHMS[algo].learns_from == PAIRS and not any(key in said for key in ("task.samples", "chosen_col"))
        samples = pairs or "rejection" in said
        job += ["task.baselines=false", *["task.sampling.rows=64"] * samples]
    return [*(["-cd", args.config_dir] if args.config_dir else []), *job]


@pytest.mark.parametrize(("words", "steps"), list_runs())
def test_a_command_runs(words, steps, reader, command_line, tmp_path):
    dry = [] if steps else ["dry_run=true"]
    done = command_line(*shorten(words), *dry, f"output_dir={tmp_path / 'run'}", cwd=reader)
    if done.returncode == 2 and all(map(CANNOT.search, done.stderr.splitlines())):
        pytest.skip(done.stderr.splitlines()[0])
    assert done.returncode == 0, done.stderr
    if steps:
        assert json.loads((tmp_path / "run" / "run.json").read_text())["status"] == "finished"
    else:
        assert re.search("^checks   all|; checks: [0-9]+ all", done.stdout, re.MULTILINE)


@pytest.mark.parametrize("name", ["docs/extending.md", "README.md"])
def test_the_python_of_a_page_runs(name, reader, monkeypatch):
    """That of docs/python.md: tests/test_api.py."""
    monkeypatch.chdir(reader)
    known = {}
    for language, text in pages.read_fences(pages.ROOT / name):
        if language == "python":
            exec(text, known)
    assert len(known) > 1
