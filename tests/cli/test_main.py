import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from omegaconf import OmegaConf

from rlhf_exp import merge, pipeline
from rlhf_exp.algorithms import ALGORITHMS
from rlhf_exp.cli.commands import COMMANDS
from rlhf_exp.cli.composing import take_out
from rlhf_exp.cli.help import format_help
from rlhf_exp.config import ROOT, trl_args
from rlhf_exp.errors import ConfigError
from rlhf_exp.runs.checkpoints import staged

STUDIES = "compare, countdown_loss_x_tokens, countdown_qwen3_loss_x_tokens,"
STUDIES += " countdown_qwen3_loss_x_tokens_tiny, noise, tune_grpo"
HERE = "hydra/launcher=basic"  # all jobs of a study in this process, where there are stand-ins
MODELS = ", ".join(sorted(file.stem for file in (ROOT / "conf" / "model").glob("*.yaml")))
LOSSES = ", ".join(sorted({*ALGORITHMS, *(file.stem for file in (ROOT / "conf" / "loss_type").glob("*.yaml"))}))


@pytest.fixture
def command(command_line, monkeypatch, tmp_path):
    """Call the command line in an empty folder: (status, lines on stderr)."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        done = command_line(*arguments, cwd=tmp_path)
        return done.returncode, done.stderr.splitlines()

    return call


@pytest.fixture
def runs(monkeypatch):
    """Stand-ins for TRL and the run, which other tests cover; the list of what was to be run."""
    started = []

    def record(cfg, folder):
        started.append((cfg, folder))
        return 0

    monkeypatch.setattr(trl_args, "build_args", lambda cfg: None)
    monkeypatch.setattr(pipeline, "run", record)
    return started


@pytest.mark.parametrize(
    ("argument", "line"),
    [
        ("leraning_rate=1", "leraning_rate=1: no such key; did you mean algo.args.learning_rate?"),
        ("tsk=countdown", "tsk=countdown: no such key; did you mean task?"),
        ("eval.row=9", "eval.row=9: no such key; did you mean eval.rows?"),
        (
            "algo.args.leraning_rate=1",
            "algo.args.leraning_rate=1: no such key; did you mean algo.args.learning_rate?",
        ),
        ("lr=1e-4", "lr=1e-4: no such key; did you mean algo.args.learning_rate?"),
        ("algo.args.top_p=0.9", "algo.args.top_p=0.9: not there yet; add it with a plus: +algo.args.top_p=0.9"),
        ("peft.lora.r=16", "peft.lora.r=16: a key of peft=lora and peft=qlora alone; use peft=lora"),
        ("device.name=cuda", "device.name=cuda: does not choose; use device=cuda"),
        (
            "algo.args.hub_token=hf_x",
            "algo.args.hub_token: a secret would be saved in the run's files; use the environment variable HF_TOKEN",
        ),
        ("task=foo", "task=foo: no such option; must be one of brevity, countdown, file, gsm8k, hh_rlhf, module"),
        ("loss_type=foo", f"loss_type=foo: no such option; must be one of {LOSSES}"),
        ("loss_type=drgrpo", f"loss_type=drgrpo: no such option; must be one of {LOSSES}; did you mean dr_grpo?"),
        ("max_tokens=0", "max_tokens=0: must be a whole number >= 1, <= 1000000"),
        ("max_tokens=abc", "max_tokens=abc: must be a whole number >= 1, <= 1000000"),
        ("seed=1,2", "seed=1,2: several values; to run each add -m, for a list write seed=[1,2]"),
        (
            "model.path=~/x",
            """model.path=~/x: cannot be read without quotes; write python -m rlhf_exp 'model.path="~/x"'""",
        ),
        (
            "task.prompt_template=Q: {question}",
            "task.prompt_template=Q: {question}: cannot be read without quotes; write python -m rlhf_exp"
            """ 'task.prompt_template="Q: {question}"'""",
        ),
        (
            "run.name=a,b",
            "run.name=a,b: several values; to run each add -m, or in quotes: python -m rlhf_exp"
            """ 'run.name="a,b"'""",
        ),
        (
            "reward.weights={a:1",
            "reward.weights={a:1: cannot be read (no viable alternative at input '{a:1'); must be"
            " KEY=VALUE, with special characters of a text in quotes",
        ),
        ("LOSS_TYPE=grpo", "LOSS_TYPE=grpo: no such key; did you mean loss_type?"),
        ("EVAL.ROWS=9", "EVAL.ROWS=9: no such key; did you mean eval.rows?"),
        ("eval.Batch_Size=9", "eval.Batch_Size=9: no such key; did you mean eval.batch_size?"),
        ("peft=QLORA", "peft=QLORA: no such option; must be one of lora, none, qlora; did you mean qlora?"),
        ("dry_run=Ture", "dry_run=Ture: must be true or false; did you mean true?"),
        ("train_token=1", "train_token=1: no such key; did you mean train_tokens?"),
        (
            "model=Qwen/Qwen2.5-0.5B",
            "model=Qwen/Qwen2.5-0.5B: no such option; a hub id or a folder is model.path: python -m rlhf_exp"
            " model.path=Qwen/Qwen2.5-0.5B",
        ),
        (
            "model=./folder",
            "model=./folder: no such option; a hub id or a folder is model.path: python -m rlhf_exp"
            " model.path=./folder",
        ),
        (
            "model=~/my folder",
            "model=~/my folder: no such option; a hub id or a folder is model.path: python -m rlhf_exp"
            """ 'model.path="~/my folder"'""",
        ),
        (
            "model=gpt3",
            f"model=gpt3: no such option; must be one of {MODELS}; did you mean gpt2? A hub id or a folder is"
            " model.path: python -m rlhf_exp model.path=ORG/NAME",
        ),
        (
            "task=data.csv",
            "task=data.csv: no such option; rows of your own are task=file: python -m rlhf_exp task=file"
            " task.path=data.csv",
        ),
        ("seed", "seed: has no value; write seed=VALUE"),
        (
            "reprot",
            "reprot: no such command; must be one of chat, describe, merge, report, runs, sample, or KEY=VALUE for an"
            " experiment; did you mean report?",
        ),
        ("algo", "algo: has no value; write algo=VALUE"),
        (
            "run",
            "run: no such command; must be one of chat, describe, merge, report, runs, sample, or KEY=VALUE for an"
            " experiment; did you mean runs?",
        ),
        ("+seed", "+seed: has no value; write +seed=VALUE"),
        ("~nope", "Could not delete from config. 'nope' does not exist."),
        ("--bogus", "unrecognized arguments: --bogus; see --help"),
        ("resume=latest", "resume=latest: outputs/latest is missing; name a run's folder"),
        ("--config-name=nope", f"-cn nope: no such config; studies, with -cd sweeps: {STUDIES}"),
        ("output_dir=/dev/null/x", "output_dir=/dev/null/x: cannot be written, /dev/null is not a folder"),
        (
            "model.path=./nope",
            "model.path=./nope: no such folder; must be a model's folder or a hub id like org/name",
        ),
    ],
)
def test_a_mistake_is_one_line_and_status_2_and_leaves_nothing(command, argument, line):
    assert command(argument) == (2, [f"rlhf_exp: {line}"])
    assert os.listdir() == []


@pytest.mark.parametrize(("arguments", "times"), [(("max_tokens=0",), 1), (("max_tokens=0", "hydra.mode=RUN"), 2)])
def test_hydra_composes_a_single_run_once_unless_an_override_may_set_its_mode(command, monkeypatch, arguments, times):
    composed = []
    load = ConfigLoaderImpl.load_configuration
    monkeypatch.setattr(ConfigLoaderImpl, "load_configuration", lambda *a, **k: composed.append(a) or load(*a, **k))
    assert command(*arguments)[0] == 2
    assert len(composed) == times


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_a_word_and_a_module(name, command_line, tmp_path):
    usage = command_line(name, "--help", cwd=tmp_path).stdout
    assert f"python -m rlhf_exp {name}" in usage
    assert command_line(name, "--nope", cwd=tmp_path).stderr.startswith(f"rlhf_exp {name}: ")
    by_module = subprocess.run([sys.executable, "-m", f"rlhf_exp.{name}", "--help"], capture_output=True, text=True)
    assert by_module.stdout == usage


def test_every_command_that_writes_a_folder_takes_out(tmp_path):
    typed = ["-cd", "own folder", "task=x", "--out", "a (b)", "eval.rows=5"]
    assert take_out(typed) == [*typed[:3], "eval.rows=5", 'output_dir="a (b)"']
    assert take_out(["task=x", "output_dir=y", "-m"]) == ["task=x", "output_dir=y", "-m"]
    for arguments in (["run", "there"], ["run", "--out", "there"], ["--out", "there", "run"]):
        args = merge.PARSER.parse_args(arguments)
        assert (args.adapter, args.out or args.place) == (Path("run"), Path("there"))
    for name, module in COMMANDS.items():
        usage = subprocess.run([sys.executable, "-m", module, "--help"], capture_output=True, text=True).stdout
        assert ("--out FOLDER" in usage) is (name != "chat")


def test_latest_is_the_last_run_for_every_command_that_reads_one(command):
    Path("outputs/a").mkdir(parents=True)
    Path("outputs/latest").symlink_to("a")
    needs = "must be the folder of a run that has trained a language model"
    assert command("chat", "latest")[1] == [f"rlhf_exp chat: outputs/latest: no run.json in it; {needs}"]
    assert command("merge", "latest", "--out", "x")[1][0].startswith(
        "rlhf_exp merge: outputs/latest: no adapter_config"
    )
    assert command("report", "latest")[1][0].startswith("rlhf_exp report: outputs/latest")
    assert command("merge", "latest")[1] == ["rlhf_exp merge: say where the model goes, with --out FOLDER"]


def test_the_command_that_was_meant_is_the_whole_command(command):
    typed = "task=file task.prompt_template=What is {a}? task.path=rows.csv model.path=my (own) seed=1".split()
    meant = """python -m rlhf_exp task=file 'task.prompt_template="What is {a}?"' task.path=rows.csv"""
    assert command(*typed) == (
        2,
        [f"""rlhf_exp: is: cannot be read without quotes; write {meant} 'model.path="my (own)"' seed=1"""],
    )
    assert command("-cd", "sweeps", "-cn", "noise", "model=a/b", "seed=0")[1] == [
        "rlhf_exp: model=a/b: no such option; a hub id or a folder is model.path: python -m rlhf_exp -cd sweeps -cn"
        " noise model.path=a/b seed=0"
    ]
    assert command("describe", "task=rows.csv", "seed=0")[1] == [
        "rlhf_exp describe: task=rows.csv: no such option; rows of your own are task=file: python -m rlhf_exp describe"
        " task=file task.path=rows.csv seed=0"
    ]


def test_a_sweep_over_a_hub_id_is_told_the_key(command):
    assert command("-m", "model=tiny,org/x")[1] == [
        "rlhf_exp: model=org/x: no such option; a hub id or a folder is model.path: model.path=org/x"
    ]


def test_an_impossible_pair_is_refused(command):
    assert command("algo=grpo", "task=hh_rlhf") == (
        2,
        [
            "rlhf_exp: algo=grpo: needs a reward; use reward=model reward.path=RUN_DIR, a run of algo=reward_model,"
            " or add your own: +reward.functions.NAME=FILE.py:FUNCTION +reward.weights.NAME=1"
        ],
    )


def test_a_run_gets_its_folder_with_the_resolved_config(command, runs):
    assert command("output_dir=there", "max_tokens=7") == (0, [])
    [(cfg, folder)] = runs
    assert (folder, cfg.max_tokens) == (Path("there"), 7)
    saved = OmegaConf.load("there/.hydra/config.yaml")
    assert "${" not in Path("there/.hydra/config.yaml").read_text()
    assert saved.algo.args == cfg.algo.args
    assert OmegaConf.load("there/.hydra/overrides.yaml") == ["output_dir=there", "max_tokens=7"]


def test_the_default_folder_is_named_by_task_algorithm_and_time(command, runs):
    command()
    assert re.fullmatch(r"outputs/countdown/grpo/\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d", str(runs[0][1]))


def test_the_default_folder_begins_with_the_name_of_the_run(command, runs):
    command("run.name=my-run", "run.tags=[a,b]")
    assert re.fullmatch(r"outputs/countdown/grpo/my-run_\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d", str(runs[0][1]))
    assert command("run.name=my-run", "output_dir=there") == (0, [])
    assert runs[1][1] == Path("there")


def test_a_bad_name_leaves_no_folder(command, runs):
    assert command("run.name=../../up")[0] == 2
    assert os.listdir() == []


@pytest.fixture
def one_second(monkeypatch):
    """Every run starts in the same second."""
    clock = SimpleNamespace(now=lambda: datetime(2026, 1, 2, 3, 4, 5))
    monkeypatch.setattr("hydra.core.utils.datetime", clock)


def test_runs_that_start_in_one_second_have_a_folder_each_by_one_name_everywhere(command, runs, one_second):
    for seed in (1, 2, 3):
        assert command(f"seed={seed}") == (0, [])
    first = "outputs/countdown/grpo/2026-01-02_03-04-05"
    assert [str(folder) for _, folder in runs] == [first, f"{first}_2", f"{first}_3"]
    for seed, (cfg, folder) in enumerate(runs, 1):
        saved = OmegaConf.load(folder / ".hydra" / "config.yaml")
        assert (saved.seed, saved.output_dir, saved.algo.args.output_dir) == (
            seed,
            str(folder),
            f"{folder}/checkpoints",
        )
        assert (cfg.seed, cfg.output_dir, cfg.algo.args["output_dir"]) == (seed, str(folder), f"{folder}/checkpoints")
    assert os.readlink("outputs/latest") == "countdown/grpo/2026-01-02_03-04-05_3"


def test_sweeps_that_start_in_one_second_have_a_folder_each(command, runs, one_second):
    for tokens in (16, 32):
        assert command("-m", "seed=0,1", f"max_tokens={tokens}")[0] == 0
    first = "outputs/sweeps/2026-01-02_03-04-05"
    assert [(cfg.max_tokens, str(folder)) for cfg, folder in runs] == [
        (tokens, f"{first}{number}/{job}")
        for tokens, number in ((16, ""), (32, "_2"))
        for job in ("00_seed-0", "01_seed-1")
    ]
    assert "max_tokens=16" in Path(first, "multirun.yaml").read_text()


@pytest.mark.parametrize(
    "arguments", [("output_dir=there",), ("output_dir=there", "skip_finished=true"), ("resume=there",)]
)
def test_a_folder_in_which_a_run_lives_is_refused_with_its_process(command, runs, arguments):
    folder = Path("there")
    folder.mkdir()
    finish(folder, "running", checkpoint=True)
    with (folder / ".lock").open("w") as lock:
        lock.write('{"pid": 71, "host": "node3"}')
        lock.flush()
        fcntl.flock(lock, fcntl.LOCK_EX)
        line = f"rlhf_exp: {arguments[0]}: a run is going on in it (process 71 on node3)"
        assert command(*arguments) == (2, [line])
    assert runs == []


def test_a_run_that_is_refused_late_leaves_latest_where_it_was(command, runs, monkeypatch):
    def refuse(cfg, folder):
        finish(folder, "refused")
        raise ConfigError(["task.path=x: too few rows"])

    assert command("seed=4") == (0, [])
    before = os.readlink("outputs/latest")
    monkeypatch.setattr(pipeline, "run", refuse)
    assert command("seed=5") == (2, ["rlhf_exp: task.path=x: too few rows"])
    assert os.readlink("outputs/latest") == before


@pytest.mark.parametrize(
    ("lacks", "does"),
    [(None, 0), ("evaluation.json", 1), ("report.html", 1), ("report.md", 1), ("model/model.safetensors", 1),
     ("checkpoints/checkpoint-1/manifest.json", 0)],
)  # fmt: skip
def test_resume_of_a_finished_run_does_nothing_unless_something_is_missing(command_line, runs, tmp_path, lacks, does):
    assert command_line("output_dir=there", cwd=tmp_path).returncode == 0
    folder = tmp_path / "there"
    finish(folder, "finished", checkpoint=True)
    (folder / "model").mkdir(exist_ok=True)
    for name in ("evaluation.json", "report.html", "report.md", "model/model.safetensors"):
        (folder / name).write_text("{}")
    if lacks:
        (folder / lacks).unlink()
    done = command_line("resume=there", cwd=tmp_path)
    assert (done.returncode, done.stderr, len(runs) - 1) == (0, "", does)
    line = "finished already, nothing is left to do: there; its report: there/report.html"
    assert (line in done.stdout.splitlines()) is not bool(does)
    longer = command_line("resume=there", "algo.args.max_steps=500", cwd=tmp_path)
    assert longer.returncode == 2 and "is a run of other settings" in longer.stderr


@pytest.mark.parametrize("latest", ["latest", "outputs/latest"])
def test_resume_goes_on_with_the_run_that_latest_points_at(command, runs, latest):
    command("seed=4")
    folder = runs[0][1]
    finish(folder, "failed", checkpoint=True)
    assert command(f"resume={latest}") == (0, [])
    cfg, again = runs[1]
    assert (again, cfg.output_dir, cfg.resume, cfg.seed) == (folder, str(folder), str(folder), 4)


def test_a_sweep_runs_every_job_in_a_folder_of_its_own(command, runs):
    status, _ = command("-m", "loss_type=grpo,dr_grpo", "max_tokens=32,64,96", "output_dir=there")
    assert status == 0
    assert [str(folder) for _, folder in runs][:2] == [
        "there/00_loss_type-grpo_max_tokens-32",
        "there/01_loss_type-grpo_max_tokens-64",
    ]
    assert len({cfg.output_dir for cfg, _ in runs}) == 6
    assert sorted(os.listdir("there"))[-1] == "multirun.yaml"


def finish(folder, status="finished", checkpoint=False):
    """Leave in a job's folder what a run leaves there."""
    (folder / "run.json").write_text(json.dumps({"status": status}))
    if checkpoint:
        leave_checkpoint(folder)
    if status == "finished":
        (folder / "model").mkdir()
        (folder / "model" / "model.safetensors").touch()


def leave_checkpoint(folder):
    with staged(folder / "checkpoints", "checkpoint-1") as staging:
        (staging / "checkpoint-1").mkdir()


def test_what_a_study_has_finished_is_not_run_again_and_the_rest_goes_on(command, runs):
    study = (
        "-cd",
        "sweeps",
        "-cn",
        "compare",
        "seed=0,1",
        "experiment=compare_ppo,compare_grpo",
        "output_dir=there",
        HERE,
    )
    assert command(*study) == (0, [])
    assert [folder.name for _, folder in runs] == [
        "seed-0_compare_ppo", "seed-0_compare_grpo", "seed-1_compare_ppo", "seed-1_compare_grpo",
    ]  # fmt: skip
    finish(runs[0][1])
    finish(runs[1][1], "failed", checkpoint=True)
    finish(runs[2][1], "failed")
    assert command(*study, "seed=0,1,2")[0] == 0  # the last word counts, and folders stay the same
    again = runs[4:]
    assert [(folder.name, cfg.resume) for cfg, folder in again] == [
        ("seed-0_compare_grpo", "there/seed-0_compare_grpo"),
        ("seed-1_compare_ppo", None),
        ("seed-1_compare_grpo", None),
        ("seed-2_compare_ppo", None),
        ("seed-2_compare_grpo", None),
    ]


@pytest.mark.parametrize(
    ("swept", "again"),
    [
        ("reward.weights={outcome: 0.5},{outcome: 1.0}", "seed=2,1,0"),
        ("run.tags=[a],[b]", "seed=1,0"),
        ("run.name='a','b'", "seed=1,0"),
        (f"task.system_prompt=choice({'n' * 100}a,{'n' * 100}b)", "seed=1,0"),
    ],
)
def test_each_job_of_a_study_has_a_folder_that_stays_its_own(command, runs, swept, again):
    study = ("-m", "seed=0,1", swept, "skip_finished=true", "output_dir=there")
    assert command(*study) == (0, [])
    folders = [folder for _, folder in runs]
    assert len(set(folders)) == 4 and all(len(folder.name) <= 100 for folder in folders)
    assert command(*study, again)[0] == 0
    assert [folder for _, folder in runs[-4:]] == [*folders[2:], *folders[:2]]


def test_two_jobs_of_a_study_that_would_share_a_folder_are_refused(command, runs):
    status, lines = command("-m", "task.system_prompt=a/b,a//b", "skip_finished=true", "output_dir=there")
    assert (status, runs) == (2, [])
    assert lines == [
        "rlhf_exp: job 2 of 2 (task.system_prompt=a//b skip_finished=True output_dir=there):"
        " output_dir=there/task.system_prompt-a_b: is the folder of job 1 too; use skip_finished=false, which numbers"
        " them",
        "rlhf_exp: none of 2 jobs was started",
    ]


@pytest.mark.parametrize(
    "swept", ["seed=0,1,0", "algo.args.beta=0.1,0.2,0.10", "seed=0,1,0 dry_run=true", "seed=0,1,0 skip_finished=true"]
)
def test_a_job_that_another_one_equals_is_refused(command, runs, swept):
    status, lines = command("-m", *swept.split(), "output_dir=there")
    assert (status, runs) == (2, [])
    assert lines[0].startswith("rlhf_exp: job 3 of 3 (")
    assert lines[0].endswith("output_dir=there): has the settings of job 1; leave one of the two out")


def test_a_study_does_not_write_over_a_run_of_other_settings(command, runs):
    study = ("-m", "seed=0,1", "skip_finished=true", "output_dir=there")
    command(*study)
    finish(runs[0][1])
    status, lines = command(*study, "max_tokens=64")
    assert status == 2
    assert lines == [
        "rlhf_exp: job 1 of 2 (seed=0 skip_finished=True output_dir=there max_tokens=64): output_dir=there/seed-0:"
        " holds a run of other settings (max_tokens=96, here 64, algo.args.max_completion_length=96, here 64); use"
        " another output_dir",
        "rlhf_exp: none of 2 jobs was started",
    ]


def test_a_sweep_ends_in_one_report_over_its_jobs(command, monkeypatch):
    monkeypatch.setattr(trl_args, "build_args", lambda cfg: None)
    monkeypatch.setattr(pipeline, "run", lambda cfg, folder: finish(folder) or 0)
    assert command("-m", "seed=0,1", "output_dir=there")[0] == 0
    assert "2 runs compared" in Path("there/report.html").read_text()


def test_a_sweep_with_a_bad_job_runs_none_and_names_every_problem(command, runs):
    assert command("-m", "max_tokens=8,0,16", "seed=0,-1", "output_dir=there") == (
        2,
        [
            "rlhf_exp: job 2 of 6 (max_tokens=8 seed=-1 output_dir=there): seed=-1: must be a whole number >= 0,"
            " <= 4294967295",
            "rlhf_exp: job 3 of 6 (max_tokens=0 seed=0 output_dir=there): max_tokens=0: must be a whole number >= 1,"
            " <= 1000000",
            "rlhf_exp: job 4 of 6 (max_tokens=0 seed=-1 output_dir=there): seed=-1: must be a whole number >= 0,"
            " <= 4294967295",
            "rlhf_exp: job 4 of 6 (max_tokens=0 seed=-1 output_dir=there): max_tokens=0: must be a whole number >= 1,"
            " <= 1000000",
            "rlhf_exp: job 6 of 6 (max_tokens=16 seed=-1 output_dir=there): seed=-1: must be a whole number >= 0,"
            " <= 4294967295",
            "rlhf_exp: none of 6 jobs was started",
        ],
    )
    assert runs == []


def test_a_sweep_that_was_cut_off_runs_the_jobs_whose_folder_holds_no_run(command, runs):
    sweep = ("-m", "seed=0,1,2", "output_dir=there")
    command(*sweep)
    finish(runs[0][1], checkpoint=True)
    finish(runs[1][1], "running", checkpoint=True)
    with (runs[1][1] / ".lock").open("w") as lock:
        lock.write('{"pid": 71, "host": "node3"}')
        lock.flush()
        fcntl.flock(lock, fcntl.LOCK_EX)
        runs.clear()
        assert command(*sweep) == (
            2,
            [
                "rlhf_exp: job 1 of 3 (seed=0 output_dir=there): output_dir=there/00_seed-0: already holds a run;"
                " use another folder, or resume=there/00_seed-0",
                "rlhf_exp: job 2 of 3 (seed=1 output_dir=there): output_dir=there/01_seed-1: a run is going on in it"
                " (process 71 on node3)",
                "rlhf_exp: 2 of 3 jobs did not succeed",
            ],
        )
    assert [folder.name for _, folder in runs] == ["02_seed-2"]


def test_what_trl_refuses_in_a_later_job_stops_the_sweep_too(command, runs, monkeypatch):
    def refuse(cfg):
        if cfg.max_tokens == 16:
            raise ConfigError(["algo.args.x=1: no argument of TRL's GRPOConfig"])

    monkeypatch.setattr(trl_args, "build_args", refuse)
    status, lines = command("-m", "max_tokens=8,16", "output_dir=there")
    assert status == 2 and runs == []
    assert lines[0].startswith("rlhf_exp: job 2 of 2 (max_tokens=16 output_dir=there): algo.args.x=1: ")


def test_what_is_wrong_with_every_job_is_said_once(command, runs):
    assert command("-m", "max_tokens=0", "seed=0,1,2", "output_dir=there")[1] == [
        "rlhf_exp: all 3 jobs: max_tokens=0: must be a whole number >= 1, <= 1000000",
        "rlhf_exp: none of 3 jobs was started",
    ]


def test_the_jobs_that_are_checked_are_those_that_hydra_runs(command, runs, monkeypatch):
    """In number, order, settings and folders, in every way to write a sweep."""
    checked = []
    monkeypatch.setattr(trl_args, "build_args", lambda cfg: checked.append(cfg))
    sweeps = [
        ("-m", "loss_type=grpo,dr_grpo", "max_tokens=range(32,64,16)", "output_dir=there"),
        ("-m", "experiment=compare_ppo,compare_grpo", "output_dir=other"),
        ("-m", "seed=choice(0,1)", "+algo.args.delta=2.0", "hydra.sweeper.max_batch_size=1", "output_dir=batches"),
        ("-cd", "sweeps", "-cn", "countdown_loss_x_tokens", "seed=0,3", "max_tokens=32", "output_dir=study", HERE),
    ]
    for arguments, number in zip(sweeps, (4, 2, 2, 4), strict=True):
        checked.clear()
        runs.clear()
        assert command(*arguments) == (0, [])
        started = [cfg for cfg, _ in runs]
        assert len(started) == number
        assert checked == [*started, *started]  # all of them first, then each as its turn comes


def test_each_job_says_which_of_how_many_it_is(command_line, runs, tmp_path):
    done = command_line("-m", "seed=0,1", "output_dir=there", cwd=tmp_path)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0] == "checking 2 jobs"
    assert [line for line in lines if line.startswith("job")] == [
        "job 1 of 2 (seed=0 output_dir=there)",
        "job 2 of 2 (seed=1 output_dir=there)",
    ]


def test_a_study_runs_by_name_from_any_folder(command, runs):
    status, _ = command("-cd", "sweeps", "-cn", "countdown_loss_x_tokens", "seed=0", HERE)
    assert status == 0
    assert {(cfg.algo.args["loss_type"], cfg.max_tokens) for cfg, _ in runs} == {
        (loss, budget) for loss in ("grpo", "dr_grpo") for budget in (32, 64, 96)
    }
    assert str(runs[0][1]).startswith("outputs/countdown_loss_x_tokens/")


def test_a_path_among_the_overrides_makes_no_folders_of_its_own(command, runs):
    status, _ = command(
        "-m", "max_tokens=8", "model.path=org/name,org/other", "model.parameters=1e6", "output_dir=there"
    )
    assert status == 0
    assert str(runs[0][1]) == "there/00_model.path-org_name"


def test_flags_may_stand_before_and_after_the_overrides(command, runs):
    assert command("seed=0", HERE, "output_dir=there", "-cd", "sweeps", "-cn", "countdown_loss_x_tokens")[0] == 0
    assert len(runs) == 6


def test_a_crash_is_status_1_with_its_traceback_in_the_folder(command, runs, monkeypatch):
    def crash(cfg, folder):
        raise RuntimeError("boom\nmore")

    monkeypatch.setattr(pipeline, "run", crash)
    assert command("output_dir=there") == (
        1,
        ["rlhf_exp: failed: RuntimeError: boom (traceback in there/error.log)"],
    )
    assert "in crash" in Path("there/error.log").read_text()


@pytest.mark.parametrize("status", [130, 143])
def test_a_signal_to_one_job_ends_the_whole_sweep(command, runs, monkeypatch, status):
    started = []
    monkeypatch.setattr(pipeline, "run", lambda cfg, folder: started.append(folder) or status)
    assert command("-m", "max_tokens=8,16", "output_dir=there") == (status, [])
    assert len(started) == 1


def test_a_mistake_that_shows_late_is_still_one_line(command, runs, monkeypatch):
    def refuse(cfg):
        raise ConfigError(["algo.args.x=1: no argument of TRL's GRPOConfig"])

    monkeypatch.setattr(trl_args, "build_args", refuse)
    assert command("output_dir=there") == (2, ["rlhf_exp: algo.args.x=1: no argument of TRL's GRPOConfig"])
    assert os.listdir() == []


def test_a_dry_run_of_a_sweep_walks_through_every_job(command, monkeypatch):
    walked = []
    monkeypatch.setitem(sys.modules, "rlhf_exp.dry_run.show", SimpleNamespace(print_dry_run=walked.append))
    status, lines = command("-m", "max_tokens=8,0,-1,16", "dry_run=true")
    assert status == 2
    assert [cfg.max_tokens for cfg in walked] == [8, 16]
    assert len(lines) == 3


def test_resume_brings_the_overrides_of_the_run(command, runs):
    command("output_dir=there", "max_tokens=7", "loss_type=dapo", "+algo.args.delta=2.0")
    Path("there/run.json").write_text("{}")
    leave_checkpoint(Path("there"))
    assert command("resume=there", "algo.args.save_steps=10", "logging.wandb_project=x") == (0, [])
    cfg, folder = runs[1]
    assert folder == Path("there")
    assert (cfg.max_tokens, cfg.algo.args["loss_type"], cfg.algo.args["delta"]) == (7, "dapo", 2.0)
    assert (cfg.algo.args["save_steps"], cfg.logging.wandb_project) == (10, "x")


@pytest.mark.parametrize(
    ("override", "differing"),
    [
        ("seed=9", "seed=0, here 9, algo.args.seed=0, here 9"),
        ("model.init.hidden_size=128", "model.init.hidden_size=64, here 128"),
        ("algo.args.max_steps=500", "algo.args.max_steps=80, here 500"),
    ],
)
def test_resume_refuses_other_settings_and_leaves_those_of_the_run(command, runs, override, differing):
    command("output_dir=there", "model=tiny_untrained", "model.init.hidden_size=64", "algo.args.max_steps=80")
    finish(Path("there"), "failed", checkpoint=True)
    saved = Path("there/.hydra/config.yaml").read_text()
    assert command("resume=there", override) == (
        2,
        [
            f"rlhf_exp: resume=there: is a run of other settings ({differing}); leave that out, or start a new run with"
            " another output_dir"
        ],
    )
    assert Path("there/.hydra/config.yaml").read_text() == saved
    assert len(runs) == 1


def test_resume_of_a_study_s_job_is_one_run(command, runs):
    pytest.importorskip("hydra_plugins.hydra_joblib_launcher")  # which the study names
    command("-cd", "sweeps", "-cn", "countdown_loss_x_tokens", "seed=0", "output_dir=there", HERE)
    folder = runs[4][1]
    (folder / "run.json").write_text("{}")
    leave_checkpoint(folder)
    assert command(f"resume={folder}") == (0, [])
    assert len(runs) == 7
    assert (runs[6][0].algo.args, runs[6][1]) == (runs[4][0].algo.args, folder)


def test_help_names_every_group_option_and_key():
    text = format_help()
    for file in (ROOT / "conf").rglob("*/*.yaml"):
        assert file.stem in text and file.parent.name in text
    for key in ("seed", "max_tokens", "dry_run", "resume", "output_dir"):
        assert key in text
    assert len(text.splitlines()) < 55


def test_resume_with_an_argument_typed_again(command, runs):
    """With its plus or without it, the argument that the run added is there once."""
    assert command("output_dir=there", "+algo.args.top_k=7") == (0, [])
    Path("there/run.json").write_text("{}")
    leave_checkpoint(Path("there"))
    for typed in ("+algo.args.top_k=7", "algo.args.top_k=7"):
        assert command("resume=there", typed) == (0, [])
        assert runs[-1][0].algo.args["top_k"] == 7


def test_a_config_that_is_no_experiment_is_refused_by_its_keys(command):
    status, lines = command("-cn", "online")
    assert status == 2
    assert "rlhf_exp: output_dir: missing; it has no default" in lines


def test_version_is_a_success(command_line, tmp_path):
    done = command_line("--version", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith("Hydra 1.")


@pytest.mark.parametrize("argument", ["--help", "leraning_rate=1", "max_tokens=0", "task=hh_rlhf", "model=org/x",
                                      "task=file task.answer_column=a task.path={}/rows.csv"])  # fmt: skip
def test_help_and_refusals_import_no_ml_library(argument, tmp_path):
    (tmp_path / "rows.csv").write_text("q,a\n1,2\n")
    code = (
        "import sys; from rlhf_exp.__main__ import main; main();"
        "print([name for name in ('torch', 'transformers', 'trl', 'datasets', 'numpy') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *argument.format(tmp_path).split()],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_run_says_at_once_what_runs_and_where_before_torch_is_imported(tmp_path):
    code = (
        "import sys; sys.modules['rlhf_exp.config.trl_args'] = None; from rlhf_exp.__main__ import main; main();"
        "print([name for name in ('torch', 'transformers', 'trl', 'datasets', 'numpy') if name in sys.modules])"
    )
    command = [sys.executable, "-c", code, "output_dir=there", "seed=3"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines() == [
        "grpo on countdown, model tiny, seed 3: there",
        "[start] imports torch and TRL",
        "[]",
    ]


@pytest.mark.parametrize(
    ("module", "arguments", "line"),
    [
        ("sample", ["task=countdown", "task.sampling.rows=8", "output_dir=there"],
         "8 x 8 completions for countdown, model tiny, seed 0: there"),
        ("describe", ["task=countdown", "output_dir=there"], "what is in countdown: there"),
    ],
)  # fmt: skip
def test_the_commands_beside_say_at_once_what_they_do(tmp_path, module, arguments, line):
    code = f"import sys; sys.modules['torch'] = None; from rlhf_exp.{module} import __main__ as m; m.main()"
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[0] == line


def test_python_m_gives_the_exit_status():
    done = subprocess.run(
        [sys.executable, "-m", "rlhf_exp", "max_tokens=0"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "rlhf_exp: max_tokens=0: must be a whole number >= 1, <= 1000000\n"


@pytest.mark.parametrize("more", [[], ["dry_run=true"], ["-m", "seed=0"]])
def test_a_model_without_weights_is_refused_before_anything_loads(command, runs, tmp_path, more):
    shutil.copytree(ROOT / "rlhf_exp" / "assets" / "tiny", tmp_path / "model")
    (tmp_path / "model" / "model.safetensors").unlink()
    status, lines = command(*more, "model.path=./model", "output_dir=there")
    assert (
        status == 2
        and "model.path=./model: holds no weights; must hold safetensors next to its config.json" in lines[0]
    )
    assert runs == []
