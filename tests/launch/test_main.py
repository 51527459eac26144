import fcntl
import os
import shlex
import shutil
import signal
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from omegaconf import OmegaConf

from rlhf_exp import __version__, pipeline
from rlhf_exp.__main__ import format_help, main
from rlhf_exp.commands import COMMANDS
from rlhf_exp.config import ROOT, trl_args
from rlhf_exp.config.compose import compose_config
from rlhf_exp.config.reading import set_text
from rlhf_exp.errors import ConfigError, Stop
from rlhf_exp.launch.arguments import complete, compose_command
from rlhf_exp.launch.jobs import Typed
from rlhf_exp.runs.plan import check_run_folder
from rlhf_exp.runs.stopping import describe_stop
from tests.runs.building import leave_run

HERE = "hydra/launcher=basic"  # all jobs of a study in this process, where there are stand-ins


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

    def record(cfg, folder, args):
        started.append((cfg, folder))
        return 0

    monkeypatch.setattr(trl_args, "build_args", lambda cfg: SimpleNamespace())
    monkeypatch.setattr(pipeline, "run", record)
    return started


@pytest.mark.parametrize(
    ("typed", "line"),
    [
        ("leraning_rate=1", "leraning_rate=1: no such key; did you mean algo.args.learning_rate?"),
        ("algo.args.top_p=0.9", "algo.args.top_p=0.9: not there yet; add it with a plus: +algo.args.top_p=0.9"),
        ("algo=ppo algo.args.beta=0.1 algo.args.top_k=5", "algo.args.beta=0.1: a key of algo=grpo and "),
        ("reward.weights.brief=1", "reward.weights.brief: no such reward; must be one of brevity, "),
        ("--resolve", "--resolve: only with --cfg"),
        ("--info defaults", "unrecognized arguments: --info; see --help"),
        ("hydra.run.dir=x", "hydra.run.dir=x: has no effect; of Hydra's own keys only these are read: "),
        ("-cd sweeps -cn comparison", "-cn comparison: is a study; start it with python -m rlhf_exp study comparison"),
        ("peft.lora.r=16", "peft.lora.r=16: a key of peft=lora and peft=qlora alone"),
        ("device.name=cuda", "device.name=cuda: does not choose"),
        ("algo=dpo loss_type=nope", "loss_type=nope: not a loss of algo=dpo, must be one of sigmoid, hinge, ipo, "),
        ("algo=dpo loss_type=ipo", "loss_type=ipo: not an option; with algo=dpo it is algo.args.loss_type=[ipo]"),
        ("algo=sft loss_type=dft", "loss_type=dft: not an option; with algo=sft it is algo.args.loss_type=dft"),
        ("seed=1,2", "seed=1,2: several values"), ("model.path=~/x", "model.path=~/x: cannot be read without quotes"),
        ("reward.weights={a:1", "reward.weights={a:1: cannot be read; must be KEY=VALUE"),
        ("'model=~/my folder'", "model=~/my folder: no such option; a hub id or a folder is model.path"),
        ("task=data.csv", "task=data.csv: no such option; rows of your own are task=file"),
        ("+seed", "+seed: must be KEY=VALUE"), ("reprot", "reprot: must be KEY=VALUE, or a command"),
        ("~nope", "Could not delete from config. 'nope' does not exist."), ("--bogus", "unrecognized arguments"),
        ("resume=latest", "resume=outputs/latest: not a run's folder"),
        ("--config-name=nope", "-cn nope: no such config"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_and_status_2_and_leaves_nothing(command, typed, line):
    status, [said] = command(*shlex.split(typed))
    assert status == 2 and said.startswith(f"rlhf_exp: {line}")
    assert os.listdir() == []


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("algo=grpo +reward.weights.brevity=0.5 --cfg job --resolve", "    brevity: 0.5"),
        ("algo=ppo --cfg all --resolve", "    outcome: 1.0"), ("algo=dpo --cfg job", "    max_steps: 100"),
        ("--cfg hydra --resolve", "hydra:"),
    ],
)  # fmt: skip
def test_what_the_flags_of_hydra_print(typed, found, command_line, tmp_path):
    done = command_line(*typed.split(), cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "") and found in done.stdout
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_a_word(name, command_line, tmp_path):
    usage = command_line(name, "--help", cwd=tmp_path).stdout
    assert f"python -m rlhf_exp {name}" in usage
    assert command_line(name, "--nope", cwd=tmp_path).stderr.startswith(f"rlhf_exp {name}: ")
    assert ("--out FOLDER" in usage) is (name in ("describe", "report", "study"))


def test_every_command_that_writes_a_folder_takes_out():
    typed = ["task=gsm8k", "-cd", "sweeps", "--out", "a (b)", "eval.rows=5"]
    for arguments, folder, is_new in ((typed, "a (b)", False), (["output_dir=y"], "y", False), ([], "z", True)):
        cfg, named = compose_command("describe", ["algo=none", "output_dir=z"], arguments)
        assert (cfg.output_dir, named) == (folder, is_new)


@pytest.fixture
def one_second(monkeypatch):
    """Every run starts in the same second."""
    monkeypatch.setattr("hydra.core.utils.datetime", SimpleNamespace(now=lambda: datetime(2026, 1, 2, 3, 4, 5)))


def test_runs_that_start_in_one_second_have_a_folder_each_by_one_name_everywhere(command, runs, one_second):
    for seed in (1, 2):
        assert command(f"seed={seed}", "run.name=mine") == (0, [])
    first = "outputs/countdown/grpo/mine_2026-01-02_03-04-05"
    assert [str(folder) for _, folder in runs] == [first, f"{first}_2"]
    for seed, (cfg, folder) in enumerate(runs, 1):
        saved = OmegaConf.load(folder / ".hydra" / "config.yaml")
        for found in (saved, cfg):
            assert (found.seed, found.output_dir) == (seed, str(folder))
        assert saved.algo.args == cfg.algo.args and "${" not in (folder / ".hydra" / "config.yaml").read_text()
        assert OmegaConf.load(folder / ".hydra" / "overrides.yaml") == [f"seed={seed}", "run.name=mine"]
    assert os.readlink("outputs/latest") == "countdown/grpo/mine_2026-01-02_03-04-05_2"


def test_sweeps_that_start_in_one_second_have_a_folder_each(command, runs, one_second):
    for tokens in (16, 32):
        assert command("-m", "seed=0,1", f"max_tokens={tokens}")[0] == 0
    first = "outputs/sweeps/2026-01-02_03-04-05"
    assert [(cfg.max_tokens, str(folder)) for cfg, folder in runs] == [
        (tokens, f"{first}{number}/{job}")
        for tokens, number in ((16, ""), (32, "_2"))
        for job in ("00_seed-0", "01_seed-1")
    ]


def test_resume_of_a_finished_run_does_nothing(command_line, runs, tmp_path):
    assert command_line("output_dir=there", cwd=tmp_path).returncode == 0
    leave_run(tmp_path / "there", "finished", checkpoint=False)
    done = command_line("resume=there", cwd=tmp_path)
    assert (done.returncode, done.stderr, len(runs)) == (0, "", 1)
    assert "finished already: there; its report: there/report.html" in done.stdout.splitlines()
    longer = command_line("resume=there", "algo.args.max_steps=500", cwd=tmp_path)
    assert longer.returncode == 2 and "is a run of other settings" in longer.stderr
    assert longer.stderr.endswith("output_dir with model.path=there/model, which trains its model further\n")


NAMES = ["run [1]", "a{b}", "a=b", "a,b", "it's", 'say "x"', "\u00e9", "2024", "null", "a\\", "a#b", "a${seed}", "(x)"]
NAMES += ["a b "]


@pytest.mark.parametrize("name", NAMES)
def test_the_command_that_resumes_is_read_whatever_the_folder_is_called(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    leave_run(Path(name), "failed", checkpoint=True)
    said = describe_stop(Stop(signal.SIGINT), Path(name))
    typed = shlex.split(said.partition("Resume with: ")[2])[-1]
    for text in (typed, set_text("resume", f"{name}/")):
        cfg, _ = complete(Typed([text])).compose()
        assert (cfg.resume, cfg.output_dir) == (name, name)
    [line] = check_run_folder(compose_config([set_text("output_dir", name)]))
    assert shlex.split(line.partition(", or ")[2]) == [typed]


@pytest.mark.parametrize("named", ["latest", "outputs/latest"])
def test_resume_goes_on_with_the_run_and_brings_its_overrides(command, runs, named):
    command("max_tokens=7", "loss_type=dapo", "+algo.args.delta=2.0")
    folder = runs[0][1]
    leave_run(folder, "failed", checkpoint=True)
    assert command(f"resume={named}", "algo.args.save_steps=10", "logging.wandb_project=x") == (0, [])
    cfg, again = runs[1]
    assert (again, cfg.output_dir, cfg.resume) == (folder, str(folder), str(folder))
    assert (cfg.max_tokens, cfg.algo.args["loss_type"], cfg.algo.args["delta"]) == (7, "dapo", 2.0)
    assert (cfg.algo.args["save_steps"], cfg.logging.wandb_project) == (10, "x")


STUDY = ("-cd", "sweeps", "-cn", "countdown_loss_x_tokens")


@pytest.mark.parametrize(
    ("arguments", "folders"),
    [
        (("-m", "loss_type=grpo,dr_grpo", "max_tokens=range(32,64,16)", "output_dir=there"),
         ["there/00_loss_type-grpo_max_tokens-32", "there/01_loss_type-grpo_max_tokens-48",
          "there/02_loss_type-dr_grpo_max_tokens-32", "there/03_loss_type-dr_grpo_max_tokens-48"]),
        (("-m", "seed=choice(3,5)", 'run.name="job-${seed}"', "+algo.args.delta=2.0", "output_dir=there"),
         ["there/00_seed-3", "there/01_seed-5"]),
        (("-m", "model.path=org/name,org/other", "model.parameters=1e6", "output_dir=there"),
         ["there/00_model.path-org_name", "there/01_model.path-org_other"]),
        (("seed=0", "max_tokens=32", HERE, *STUDY),
         [f"outputs/countdown_loss_x_tokens/loss_type-{loss}_max_tokens-32_seed-0" for loss in ("grpo", "dr_grpo")]),
    ],
)  # fmt: skip
def test_a_sweep_first_checks_all_jobs_then_runs_each_in_its_folder(command, runs, monkeypatch, arguments, folders):
    checked = []
    monkeypatch.setattr(trl_args, "build_args", lambda cfg: checked.append(cfg) or SimpleNamespace())
    assert command(*arguments) == (0, [])
    started = [cfg for cfg, _ in runs]
    assert [cfg.output_dir for cfg in started] == folders
    assert checked == [*started, *started]
    assert {cfg.run.name for cfg in started} <= {None, *(f"job-{cfg.seed}" for cfg in started)}


@pytest.mark.parametrize("dry", [[], ["dry_run=true"]])
def test_a_sweep_with_a_bad_job_runs_none_and_names_every_problem(command, runs, dry):
    given = f"{'dry_run=True ' if dry else ''}output_dir=there"
    assert command("-m", "max_tokens=8,0", "seed=0,-1", "eval.rows=-3", *dry, "output_dir=there")[0] == 2
    status, lines = command("-m", "max_tokens=8,0", "seed=0,-1", *dry, "output_dir=there")
    assert (status, runs, os.listdir()) == (2, [], [])
    wrong_seed, wrong_tokens = "seed=-1: must be greater than or equal to 0", "max_tokens=0: must be greater"
    assert lines[0] == f"rlhf_exp: job 2 of 4 (max_tokens=8 seed=-1 {given}): {wrong_seed}"
    assert lines[1].startswith(f"rlhf_exp: job 3 of 4 (max_tokens=0 seed=0 {given}): {wrong_tokens}")
    assert len(lines) == 5 and lines[-1] == "rlhf_exp: none of 4 jobs was started"
    assert command("-m", "max_tokens=0", "seed=0,1", *dry)[1][0].startswith(f"rlhf_exp: all 2 jobs: {wrong_tokens}")


def test_a_dry_run_of_a_sweep_prints_a_line_for_each_job_and_makes_no_folder(command_line, tmp_path):
    small = ("dry_run=true", "task.train_rows=64", "eval.rows=16", "device=cpu")
    done = command_line("-m", "algo=none,sft", "seed=0,1", *small, cwd=tmp_path)
    lines = done.stdout.splitlines()
    assert [line.split("  ")[0].rstrip() for line in lines] == [
        "job", "algo=none seed=0", "algo=none seed=1", "algo=sft seed=0", "algo=sft seed=1", lines[-1],
    ]  # fmt: skip
    assert lines[-1].startswith("4 jobs: memory: 4 fits; ")
    assert (done.returncode, done.stderr, [*tmp_path.iterdir()]) == (0, "", [])


@pytest.mark.parametrize(("given", "where"), [((), ""), (("-m", "max_tokens=8,16"), "job 2 of 2 (max_tokens=16")])
def test_what_trl_refuses_is_one_line_and_leaves_nothing(command, runs, monkeypatch, given, where):
    def refuse(cfg):
        if cfg.max_tokens != 8:
            raise ConfigError(["algo.args.x=1: no argument of TRL's GRPOConfig"])

    monkeypatch.setattr(trl_args, "build_args", refuse)
    status, lines = command(*given, "output_dir=there")
    assert (status, runs, os.listdir()) == (2, [], [])
    assert lines[0].startswith(f"rlhf_exp: {where}") and "algo.args.x=1: no argument" in lines[0]


def test_what_a_study_has_finished_is_not_run_again_and_the_rest_goes_on(command, runs):
    both = "experiment=compare_ppo,compare_grpo"
    study = ("-m", "seed=0,1", both, "skip_finished=true", "output_dir=there", HERE)
    assert command(*study) == (0, [])
    names = [f"seed-{seed}_compare_{algo}" for seed in (0, 1) for algo in ("ppo", "grpo")]
    assert [folder.name for _, folder in runs] == names
    leave_run(runs[0][1])
    leave_run(runs[1][1], "failed", checkpoint=True)
    leave_run(runs[2][1], "failed")
    assert command(*study, "seed=0,1,2")[0] == 0  # the last word counts, and folders stay the same
    again = runs[4:]
    assert {folder.name: cfg.resume for cfg, folder in again} == {
        "seed-0_compare_grpo": "there/seed-0_compare_grpo", "seed-1_compare_ppo": None, "seed-1_compare_grpo": None,
        "seed-2_compare_ppo": None, "seed-2_compare_grpo": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    "swept", ["reward.weights={outcome: 0.5},{outcome: 1.0}", f"task.system_prompt=choice({'n' * 100}a,{'n' * 100}b)"]
)
def test_each_job_of_a_study_has_a_folder_that_stays_its_own(command, runs, swept):
    study = ("-m", swept, "seed=choice(0)", "skip_finished=true", "output_dir=there")
    assert command(*study) == (0, [])
    folders = [folder for _, folder in runs]
    assert len(set(folders)) == 2 and all(len(folder.name) <= 100 for folder in folders)
    assert command(*study, "seed=1,0")[0] == 0
    assert [folder for _, folder in runs[3::2]] == folders


@pytest.mark.parametrize(
    ("swept", "line"),
    [
        ("task.system_prompt=a/b,a//b skip_finished=true", "task.system_prompt-a_b: is that of job 1"),
        ("seed=0,1,0", "has the settings of job 1"), ("algo.args.beta=0.1,0.2,0.10", "has the settings of job 1"),
        ("seed=0,1,0 dry_run=true", "has the settings of job 1"),
    ],
)  # fmt: skip
def test_jobs_that_do_not_go_together_are_refused(command, runs, swept, line):
    status, lines = command("-m", *swept.split(), "output_dir=there")
    assert (status, runs) == (2, []) and line in lines[0]


def test_latest_is_the_last_run_for_every_command_that_reads_one(command):
    Path("outputs/a").mkdir(parents=True)
    Path("outputs/latest").symlink_to("a")
    for name in ("report", "samples"):
        assert command(name, "latest")[1][0].startswith(f"rlhf_exp {name}: outputs/latest")


def test_a_sweep_ends_in_one_report_over_its_jobs(command, monkeypatch):
    monkeypatch.setattr(trl_args, "build_args", lambda cfg: SimpleNamespace())
    monkeypatch.setattr(pipeline, "run", lambda cfg, folder, args: leave_run(folder) or 0)
    assert command("-m", "seed=0,1", "output_dir=there")[0] == 0
    assert "2 runs compared" in Path("there/report.html").read_text()


def test_a_sweep_that_was_cut_off_runs_the_jobs_whose_folder_holds_no_run(command, runs):
    sweep = ("-m", "seed=0,1,2", "output_dir=there")
    command(*sweep)
    leave_run(runs[0][1], checkpoint=True)
    leave_run(runs[1][1], "running", checkpoint=True)
    with (runs[1][1] / ".lock").open("w") as lock:
        lock.write('{"pid": 71, "host": "node3"}')
        lock.flush()
        fcntl.flock(lock, fcntl.LOCK_EX)
        runs.clear()
        status, lines = command(*sweep)
    assert status == 2 and lines[2] == "rlhf_exp: 2 of 3 jobs did not succeed (1: status 2, 2: status 2)"
    for number, (line, why) in enumerate(zip(lines, ("already holds a run", "a run is going on in it"), strict=False)):
        job = f"job {number + 1} of 3 (seed={number} output_dir=there)"
        assert line.startswith(f"rlhf_exp: {job}: output_dir=there/0{number}_seed-{number}: {why}")
    assert [folder.name for _, folder in runs] == ["02_seed-2"]


def test_a_signal_to_one_job_ends_the_whole_sweep(command, runs, monkeypatch):
    started = []
    monkeypatch.setattr(pipeline, "run", lambda cfg, folder, args: started.append(folder) or 143)
    assert command("-m", "max_tokens=8,16", "output_dir=there") == (143, [])
    assert len(started) == 1


def test_resume_of_a_study_s_job_is_one_run(command, runs):
    command("-cd", "sweeps", "-cn", "countdown_loss_x_tokens", "seed=0", "max_tokens=32", "output_dir=there", HERE)
    folder = runs[1][1]
    leave_run(folder, "failed", checkpoint=True)
    assert command(f"resume={folder}") == (0, [])
    assert len(runs) == 3
    assert (runs[2][0].algo.args, runs[2][1]) == (runs[1][0].algo.args, folder)


def test_help_names_every_group_option_and_key():
    text, files = format_help(), [*(ROOT / "conf").rglob("*/*.yaml")]
    names = {name for file in files for name in (file.stem, file.parent.name)}
    assert [
        name for name in (*names, "seed", "max_tokens", "dry_run", "resume", "output_dir") if name not in text
    ] == []
    assert len(text.splitlines()) < 60


@pytest.mark.parametrize("command", [[], ["study"]])
def test_the_version_is_that_of_the_package(monkeypatch, capsys, command):
    monkeypatch.setattr(sys, "argv", ["rlhf-exp", *command, "--version"])
    assert main() == 0
    assert capsys.readouterr().out == f"rlhf_exp {__version__}\n"


@pytest.mark.parametrize(
    ("argument", "said"),
    [("--help", []), ("task=file task.answer_column=a task.path={}/rows.csv", []),
     ("output_dir=there seed=3", ["grpo on countdown, model tiny, seed 3: there", "[start] imports torch and TRL"])],
)  # fmt: skip
def test_help_refusals_and_the_first_lines_of_a_run_import_no_ml_library(argument, said, tmp_path):
    (tmp_path / "rows.csv").write_text("q,a\n1,2\n")
    code = (
        "import sys; sys.modules['rlhf_exp.config.trl_args'] = None; from rlhf_exp.__main__ import main; main();"
        "print([name for name in ('torch', 'transformers', 'trl', 'datasets', 'numpy') if name in sys.modules])"
    )
    command = [sys.executable, "-c", code, *argument.format(tmp_path).split()]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines()[-1 - len(said) :] == [*said, "[]"]


@pytest.mark.parametrize("more", [[], ["-m", "seed=0"]])
def test_a_model_without_weights_is_refused_before_anything_loads(command, runs, tmp_path, more):
    shutil.copytree(ROOT / "rlhf_exp" / "assets" / "tiny", tmp_path / "model")
    (tmp_path / "model" / "model.safetensors").unlink()
    status, lines = command(*more, "model.path=./model", "output_dir=there")
    assert (status, runs) == (2, []) and "model.path=./model: holds no weights" in lines[0]


def test_what_an_ascii_terminal_cannot_show_is_escaped(tmp_path):
    leave_run(tmp_path / "caf\u00e9", algo="grpo")
    ascii_only = os.environ | {"LC_ALL": "C", "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "rlhf_exp", "runs", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, env=ascii_only, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{tmp_path}/caf\\xe9" in done.stdout
