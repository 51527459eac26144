"""Every algorithm with every task and peft on a real chat model: two steps, measured before and after, reported."""

import json
import math
import shutil
import signal
import subprocess
import sys
import time

import pytest
from transformers import AutoTokenizer

from rlhf_exp.algorithms import ALGORITHMS, DEMONSTRATIONS
from rlhf_exp.config import ROOT, hub
from rlhf_exp.config.compose import compose_config
from rlhf_exp.models.loading import load_tokenizer
from rlhf_exp.models.smollm2 import NAME
from rlhf_exp.models.source import locate_start_model
from rlhf_exp.runs.load import load_run
from tests.real.conftest import SHORT

OWN = ROOT / "examples" / "own_task"
GSM8K = ROOT.parent / "shared" / "data" / "gsm8k"
QUESTIONS = [f"task.path={OWN / 'answers.jsonl'}", 'task.prompt_template="{question}"']
TASKS = {
    "countdown": [],
    "gsm8k": ["task.source=generated"],
    "hh_rlhf": ["task.source=generated", "task.max_length=256"],
    "brevity": [],
    "file": QUESTIONS,
}
CHECKED = ["task.answer_column=answer", "task.checker=numeric"]
COLUMNS = ["task.chosen_column=good", "task.rejected_column=bad"]
# Countdown and GSM8K give pairs only of right and wrong samples, and this model has no right ones of 8 tokens.
OFFLINE = {"sft": ("countdown", "gsm8k", "hh_rlhf", "file")} | {
    name: ("hh_rlhf", "file") for name in ("dpo", "kto", "reward_model")
}
LOSSES = {"countdown": "grpo", "gsm8k": "dr_grpo", "hh_rlhf": "dapo", "brevity": "cispo", "file": "bnpo"}
CASES = [
    (algo, task, peft)
    for algo, row in ALGORITHMS.items()
    for task in OFFLINE.get(algo, TASKS)
    for peft in (("none", "lora") if row.trains else ("none",))
    if row.trains or task == "file"
]


@pytest.fixture(scope="module")
def reward_model(command_line, workplace):
    """The run of a reward model on generated pairs."""
    folder = workplace / "reward_model"
    given = [*SHORT, "algo=reward_model", "task=hh_rlhf", *TASKS["hh_rlhf"], "task.train_rows=4", "peft=lora"]
    done = command_line(*given, *rows(2), f"output_dir={folder}", cwd=workplace)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


def rows(count):
    return [f"algo.args.per_device_train_batch_size={count}", "algo.args.gradient_accumulation_steps=1"]


def list_overrides(algo, task, peft):
    """Those of the smallest run of a combination."""
    row = ALGORITHMS[algo]
    given = [f"algo={algo}", f"task={task}", f"peft={peft}", *TASKS[task]]
    given += [] if task == "brevity" else ["task.train_rows=4"]
    if task == "file":
        offline = ["task.completion_column=good"] if row.learns_from == DEMONSTRATIONS else COLUMNS
        given += CHECKED if row.online or not row.trains else offline
    given += rows(1 if row.minibatches > 1 else 4 if row.online else 2) if row.trains else []
    given += ["algo.args.num_generations=2"] if row.compares_groups else []
    return given + ([f"loss_type={LOSSES[task]}"] if algo == "grpo" else [])


@pytest.mark.parametrize(("algo", "task", "peft"), CASES)
def test_two_steps_are_trained_measured_and_reported(train, reward_model, algo, task, peft):
    row, given = ALGORITHMS[algo], list_overrides(algo, task, peft)
    given += ["reward=model", f"reward.path={reward_model}"] if row.by_rewards and task == "hh_rlhf" else []
    given += [f"teacher.path={hub.MADE / NAME}"] if row.has_teacher else []
    run = train(f"{algo}_{task}_{peft}", *given)
    assert run.status == "finished" and (run.path / "report.html").is_file()
    assert (run.path / "diagnosis.json").is_file() and (run.path / "preflight.json").is_file() == row.trains
    if not row.trains:
        return
    losses = [line["loss"] for line in run.metrics]
    assert len(losses) == 2 and all(math.isfinite(loss) for loss in losses)
    assert run.evaluation["trained"]["n"] > 0
    assert (run.path / "model" / "adapter_config.json").is_file() == (peft == "lora")
    if algo == "dpo":
        assert losses[0] == pytest.approx(math.log(2), abs=1e-5)


def test_a_killed_run_resumes_and_makes_each_step_once(smollm2, workplace):
    folder = workplace / "killed"
    given = [*SHORT[:-1], "algo=sft", "task=file", *QUESTIONS, "task.completion_column=good", "peft=lora", *rows(1)]
    given = [word for word in given if not word.startswith("algo.args.max_steps")]
    given += ["algo.args.max_steps=12", "algo.args.save_steps=2"]
    command = [sys.executable, "-m", "rlhf_exp", *given]
    with subprocess.Popen([*command, f"output_dir={folder}"], cwd=workplace, stderr=subprocess.DEVNULL) as process:
        limit = time.monotonic() + 600
        while not list(folder.glob("checkpoints/checkpoint-*")) and time.monotonic() < limit:
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
    assert load_run(folder).status != "finished"
    done = subprocess.run([*command, f"resume={folder}"], cwd=workplace, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    run = load_run(folder)
    assert run.status == "finished" and [line["step"] for line in run.metrics] == list(range(1, 13))


def test_samples_of_its_own_give_pairs(train, workplace):
    """It answers some of these questions rightly and some wrongly, so that pairs can be made."""
    sums = [{"question": f"What is {a} + {b}?", "answer": a + b} for a in range(1, 10) for b in range(1, 10)]
    (workplace / "sums.jsonl").write_text("\n".join(map(json.dumps, sums)))
    sampling = ["task.samples=self", "task.sampling.rows=24", "task.sampling.completions=8", "max_tokens=48"]
    given = [f"task.path={workplace / 'sums.jsonl'}", QUESTIONS[1], *CHECKED, *sampling, "eval.rows=2"]
    run = train("own_pairs", "algo=dpo", "task=file", *given, "peft=lora", *rows(1))
    assert run.status == "finished" and len(run.metrics) == 2


def test_a_model_without_right_samples_is_refused_in_one_line(launch, workplace):
    sampling = ["task.samples=self", "task.sampling.rows=4", "task.sampling.completions=2"]
    done = launch(*SHORT, "algo=dpo", "task=countdown", *sampling, *rows(2), f"output_dir={workplace / 'no_pairs'}")
    refusals = [line for line in done.stderr.splitlines() if line.startswith("rlhf_exp: ")]
    assert done.returncode == 2 and len(refusals) == 1 and "Traceback" not in done.stderr


def test_prompts_are_chats_with_the_templates_own_system_prompt(launch, workplace):
    done = launch(*SHORT, "task=gsm8k", "task.source=generated", "dry_run=true", "verbose=true", "algo=none")
    shown = done.stdout.partition("the first prompt")[2]
    assert done.returncode == 0, done.stderr
    assert shown.count("<|im_start|>system") == 1 and "named SmolLM" in shown and "<|im_start|>assistant" in shown


def test_its_pad_token_is_its_end_token_and_an_answers_end_is_learned_all_the_same(smollm2, train):
    tokenizer = load_tokenizer(locate_start_model(compose_config(["model=smollm2_135m"])))
    assert tokenizer.pad_token_id == tokenizer.eos_token_id and tokenizer.model_max_length == 8192
    assert AutoTokenizer.from_pretrained(smollm2).model_max_length > 10**9
    given = ["algo=sft", "task=file", *QUESTIONS, "task.completion_column=good", *CHECKED, *rows(8)]
    longer = ["eval.rows=8", "max_tokens=24", "algo.args.max_steps=12", "algo.args.learning_rate=2e-4"]
    run = train("ends", *given, *longer)
    before, after = (run.evaluation[side]["truncation_rate"]["value"] for side in ("baseline", "trained"))
    assert after < before


@pytest.mark.skipif(not GSM8K.is_dir(), reason="needs ../shared/data/gsm8k")
def test_real_problems_are_read_and_answered(train):
    given = ["task=gsm8k", "task.source=file", f"task.path={GSM8K}", "task.train_rows=8"]
    run = train("gsm8k_real", "algo=sft", *given, "peft=lora", *rows(2))
    assert run.evaluation["baseline"]["n"] == run.evaluation["trained"]["n"] == 4


def test_several_runs_are_compared_in_one_report(train, launch, workplace):
    given = [*list_overrides("sft", "file", "lora"), *CHECKED]
    folders = [str(train(f"seed_{seed}", *given, f"seed={seed}").path) for seed in (0, 1)]
    done = launch("report", *folders, "--out", str(workplace / "comparison"))
    assert done.returncode == 0 and (workplace / "comparison" / "report.html").is_file(), done.stderr
    done = launch("diagnose", folders[0])
    assert done.returncode == 0, done.stderr


def test_a_folder_without_weights_is_refused_in_one_line(smollm2, tmp_path, launch):
    shutil.copytree(smollm2, tmp_path / "model", ignore=shutil.ignore_patterns("*.safetensors"))
    done = launch(*SHORT, f"model.path={tmp_path / 'model'}")
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "holds no weights" in done.stderr
