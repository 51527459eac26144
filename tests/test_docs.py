"""README.md, docs/ and the READMEs of examples/: commands compose, links lead somewhere, keys exist.

A plain fence (or bash) holds commands; text and output go into a `text` fence. Names in capitals are the reader's, and
STAND_INS are there in their place. No command reaches torch here, but for those of QUICKSTART, which are run.
"""

import ast
import re
import shlex
import shutil
import sys
import tomllib
from functools import cache
from importlib import import_module

import pytest
import yaml

from rlhf_exp import ConfigError, api
from rlhf_exp.algorithms import ALGORITHMS
from rlhf_exp.analysis.study.__main__ import PARSER as STUDY
from rlhf_exp.analysis.study.plan import plan_study
from rlhf_exp.analysis.study.stages import read_study
from rlhf_exp.commands import COMMANDS, parse_flags
from rlhf_exp.config import ROOT
from rlhf_exp.config.keys import known_keys
from rlhf_exp.config.model_shape import ASSETS
from rlhf_exp.errors import is_secret
from rlhf_exp.launch.arguments import PARSER, compose_command
from rlhf_exp.launch.jobs import list_jobs
from rlhf_exp.runs.manifest import staged

if not (ROOT / "README.md").is_file():
    pytest.skip("docs are not installed with the package", allow_module_level=True)

PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md")), *sorted(ROOT.glob("examples/*/README.md"))]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
TEXTS = [page.read_text() for page in PAGES]
QUICKSTART = "docs/getting_started.md"
for_each_page = pytest.mark.parametrize("page", PAGES, ids=NAMES)

MODELS = ("FOLDER", "GPT2_TOKENIZER_FOLDER", "STORIES260K", "outputs/RUN/model", "outputs/full/model",
          "outputs/own_model", "outputs/own_model_sft/model", "outputs/lora/model")  # fmt: skip
FOLDERS = ("outputs/reward_model_tiny", "outputs/hh_rlhf_real/reward_model/seed-0")
FILES = ("PAIRS.jsonl.gz",)
CODE = ("FILE.py", "mine.py")
ELSEWHERE = {"pip", "docker", "export", "hf", "vllm", "lm_eval", "tensorboard", "wandb", "scancel", "srun"}
"""Programs that are not this package's: nothing of them is checked."""
LAUNCHERS = ("torchrun", "accelerate")
OWN = ("python", "rlhf-exp", "make", *LAUNCHERS)
ABSENT = re.compile(r"not installed|usable GPU|needs a GPU|HF_TOKEN|does not answer|torchrun|(several|single) process")
"""How a command is refused because of what this machine has not."""
OPEN = ("reward.weights.", "reward.functions.", "task.options.", "task.splits.", "model.init.", "task.of.",
        "model.learning_rate.", "peft.quantization.", "hydra.")  # fmt: skip
"""Mappings with names of the user's, or of another option."""
FILE_NAMES = re.compile(r"\.(py|md|json|jsonl|yaml|html|log|safetensors|gz|csv|parquet|png|txt|lock)$|\(")


FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def read_fences(page):
    """(language, text) of each fenced block."""
    return FENCE.findall(page.read_text())


def read_prose(page):
    return FENCE.sub("", page.read_text())


def list_commands(page):
    """(words, output) of each command; the output is what follows a line that begins with a dollar sign."""
    found = []
    for language, text in read_fences(page):
        if language not in ("", "bash", "sh", "console"):
            continue
        for name, value in re.findall(r'^([A-Z]+)="(.*)"$', text, re.M):
            text = text.replace(f"${name}", value)
        lines = text.replace("\\\n", " ").splitlines()
        shown = [line for line in lines if line.startswith("$ ")]
        for place, line in enumerate(lines):
            if shown and line not in shown:
                continue
            words = [word for word in shlex.split(line.removeprefix("$ "), comments=True) if word != "..."]
            if words and (shown or words[0].rpartition("/")[2] in {*OWN, *ELSEWHERE}):
                found.append((words, lines[place + 1 :] if shown else []))
    for code in re.findall(r"`((?:python -m rlhf_exp|rlhf-exp|make) [^`]+)`", read_prose(page)):
        if not re.search(r"=NAME\b|RUN_DIR|\.\.\.|^(rlhf-exp|python -m [\w.]+)( \w+)?$", code):  # else it is only named
            found.append((shlex.split(code), []))
    return found


ALL = [pytest.param(words, output, id=f"{name}-{number}") for page, name in zip(PAGES, NAMES, strict=True)
       for number, (words, output) in enumerate(list_commands(page))]  # fmt: skip


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    """A folder as a reader of the pages would have it, with a stand-in for each name in capitals."""
    folder = tmp_path_factory.mktemp("reader")
    for name in ("examples", "bench", "sweeps", "tests", "docs"):
        (folder / name).symlink_to(ROOT / name)
    for name in MODELS:
        shutil.copytree(ASSETS / "tiny", folder / name)
    for name in FOLDERS:
        (folder / name).mkdir(parents=True)
        (folder / name / "config.json").write_text("{}")
    for name in FILES:
        (folder / name).touch()
    for name in CODE:
        (folder / name).write_text("def load(cfg, tokenizer): ...\ndef short(completions, **kwargs): ...\n")
    run = folder / "outputs" / "RUN"
    hydra = {"runtime": {"config_sources": []}, "job": {"config_name": "config"}}
    (run / ".hydra").mkdir()
    (run / ".hydra" / "overrides.yaml").write_text("- seed=1\n")
    (run / ".hydra" / "hydra.yaml").write_text(yaml.safe_dump(hydra))
    (run / "run.json").write_text('{"status": "stopped"}')
    with staged(run / "checkpoints", "checkpoint-1") as staging:
        (staging / "checkpoint-1").mkdir()
    (folder / "outputs" / "latest").symlink_to(run)
    return folder


@pytest.fixture
def here(reader, monkeypatch):
    monkeypatch.chdir(reader)
    monkeypatch.setattr(sys, "argv", ["rlhf_exp"])
    return reader


def check(words):
    """Refuse a command that would be refused, without running it; a word for what was looked at."""
    program, *rest = words
    program = program.rpartition("/")[2]
    if program == "pip":
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        named = {name for word in rest for names in re.findall(r"\[(.*)\]", word) for name in names.split(",")}
        assert named <= {*extras, "hf"} and all((ROOT / word).exists() for word in rest if word.endswith(".lock")), rest
    if program in ELSEWHERE:
        return "another program"
    if program == "make":
        return check_target(rest)
    if program in LAUNCHERS:
        rest = rest[rest.index("-m") :]
    if program == "rlhf-exp":
        return check_own("rlhf_exp", rest)
    if rest[0] == "-m":
        return check_own(rest[1], rest[2:])
    assert (ROOT / rest[0]).is_file(), f"{rest[0]}: no such file"
    return "a script"


def check_target(words):
    makefile = (ROOT / "Makefile").read_text()
    targets = re.findall(r"^([a-z][\w%-]*):", makefile, re.MULTILINE)
    name, *more = words or ["help"]
    study = name.removeprefix("study-")
    assert name in targets or study != name and (ROOT / "sweeps" / f"{study}.yaml").is_file(), f"make {name}"
    for word in more:
        assert re.match(r"(ARGS|BENCH|STUDY|RUNS|PYTHON|EXTRAS)=", word), word
    args = next((shlex.split(word[5:]) for word in more if word.startswith("ARGS=")), [])
    if name == "run":
        check_runs(args)
    elif study != name or (same := re.search(rf"^{name}: study-(\w+)", makefile, re.MULTILINE)):
        check_study([study if study != name else same[1], *args])
    return "make"


def check_study(words):
    """Compose and check every job of a study."""
    args = parse_flags(STUDY, words)
    if args.name not in (None, "NAME", "FILE.yaml", "FOLDER/NAME.yaml"):
        study = read_study(args.name, args.overrides, args.out)
        plan_study(study, study.stages, *(["dry_run=true"] if args.dry_run else []))


def check_own(module, words):
    if module == "rlhf_exp" and words and words[0] in COMMANDS:
        module, words = COMMANDS[words[0]].removesuffix(".__main__"), words[1:]
    name = module.removeprefix("rlhf_exp.").removeprefix("analysis.")
    if name == "describe":
        compose_command(name, ["algo=none", "output_dir=x"], words)
    elif name in ("report", "runs", "samples"):
        parse_flags(import_module(COMMANDS[name]).PARSER, words)
    elif name == "study":
        check_study(words)
    elif name == "rlhf_exp":
        check_runs(words)
    else:
        place = ROOT / (module.replace(".", "/") + ".py")
        assert module in ("pytest", "venv") or place.is_file() or place.with_suffix("").is_dir(), f"no module {module}"
        assert all((ROOT / word).exists() for word in words if word.startswith("tests/")), words
    return name


def check_runs(words):
    """Compose each run of a command, or of a study what its runs share, with all checks that need no torch."""
    if "--help" in words:
        return
    args = parse_flags(PARSER, words)
    own = [text for text in args.overrides if text.startswith("hydra")]
    jobs, _ = list_jobs([text for text in args.overrides if text not in own])
    jobs = [[*own, *job] for job in jobs] if args.multirun else [args.overrides]
    for job in jobs:
        api.compose(job, config_name=args.config_name, config_dir=args.config_dir)


@pytest.mark.parametrize(("words", "output"), ALL)
def test_a_command_composes(words, output, here):
    try:
        check(words)
    except ConfigError as error:
        refused = [f"rlhf_exp: {problem}" for problem in error.problems]
        if refused != output:
            assert all(map(ABSENT.search, refused)), refused


@for_each_page
def test_code_and_yaml_of_a_page_can_be_read(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for number, (language, text) in enumerate(read_fences(page)):
        if language == "python":
            ast.parse(text)
        elif language == "yaml" and "@package _global_" in text:
            (tmp_path / "experiment").mkdir(exist_ok=True)
            (tmp_path / "experiment" / f"e{number}.yaml").write_text(text)
            api.compose([f"experiment=e{number}"], config_dir=tmp_path)
        elif language == "yaml" and "  - /config" in text:
            (tmp_path / f"study{number}.yaml").write_text(text)
            api.compose([], config_name=f"study{number}", config_dir=tmp_path)


def test_every_figure_of_the_readme_stands_in_the_pages_that_measure_it():
    text = TEXTS[0]
    measured = "".join(TEXTS[1:])
    figures = re.findall(r"[+-]?[\d.]+%? \[[^]]+\]|\([\d.]+ to [\d.]+, n=\d+\)", re.sub(r"\s+", " ", text))
    assert len(figures) > 8
    assert [figure for figure in figures if figure not in re.sub(r"\s+", " ", measured)] == []


@cache
def list_anchors(page):
    """The anchors that GitHub gives the headings of a page."""
    found = []
    for heading in re.findall(r"^#+ (.*)$", read_prose(page), re.M):
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        anchor = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        found.append(anchor if anchor not in found else f"{anchor}-{found.count(anchor)}")
    return found


@for_each_page
def test_every_link_of_a_page_leads_somewhere(page):
    text = re.sub(r"`[^`\n]*`", "", read_prose(page))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        place, _, anchor = target.partition("#")
        if re.match(r"https?:", target):
            continue
        linked = page.parent / place if place else page
        assert linked.exists(), target
        assert not anchor or anchor in list_anchors(linked), f"{target}: one of {list_anchors(linked)}"


def test_every_page_is_linked():
    linked = {(page.parent / target.partition("#")[0]).resolve() for page, text in zip(PAGES, TEXTS, strict=True)
              for target in re.findall(r"\]\(([^)\s]+)\)", text) if not target.startswith("http")}  # fmt: skip
    assert [name for name, page in zip(NAMES, PAGES, strict=True) if page not in linked and name != "README.md"] == []


@cache
def all_keys():
    keys = {key for algo in ALGORITHMS for key in known_keys(algo)}
    return keys | {".".join(key.split(".")[:depth]) for key in keys for depth in range(1, key.count(".") + 1)}


@for_each_page
def test_every_key_and_option_of_a_page_exists(page):
    text = read_prose(page)
    groups = {folder.name for folder in (ROOT / "conf").iterdir() if folder.is_dir()} | {"run", "hub"}
    wrong = []
    for code in re.findall(r"`([^`\n]+)`", text):
        for word in () if "no such key" in code else code.split():
            key, equals, value = word.lstrip("+").partition("=")
            if key in groups and equals and value and re.fullmatch(r"[a-z][\w.-]*", value):
                options = {file.stem for file in (ROOT / "conf" / key).glob("*.yaml")} | set(ALGORITHMS)
                own = key in ("model", "experiment", "algo") and (ROOT / page.parent / key).is_dir()
                wrong += [] if value in options or own else [word]
            elif re.fullmatch(r"[a-z_]+(\.\w+)+", key) and key.split(".")[0] in groups:
                if FILE_NAMES.search(key) or key.startswith(OPEN) or key.endswith(("NAME", ".of")) or is_secret(key):
                    continue
                wrong += [] if key in all_keys() else [word]
    assert wrong == []


SHORT = ["algo.args.max_steps=2", "algo.args.per_device_train_batch_size=16", "eval.rows=16", "max_tokens=48"]
SHORT += ["device.threads=1", "device=cpu"]


@pytest.mark.slow
def test_the_quickstart_runs(tmp_path, command_line):
    """The first run, and the commands that look at it, as they stand on the page, with two steps."""
    commands = [words[3:] for words, _ in list_commands(ROOT / QUICKSTART) if words[1:3] == ["-m", "rlhf_exp"]]
    looks = [words for words in commands if words[0] in ("runs", "samples", "report")]
    assert len(looks) == 3 and commands[0] == (first := ["algo=grpo", "task=countdown"])
    for words in [[*first, *SHORT], *looks, ["--help"]]:
        done = command_line(*words, cwd=tmp_path)
        assert done.returncode == 0, (words, done.stderr)
    assert (tmp_path / "outputs" / "latest" / "report.html").is_file()
    done = command_line("algo.args.leraning_rate=1e-4", cwd=tmp_path)
    page = (ROOT / QUICKSTART).read_text()
    assert done.returncode == 2 and done.stderr in page
