"""Every algorithm with every task, model and peft: what composes, and with which words the rest is refused."""

import itertools
import math

import pytest

from rlhf_exp.algorithms import ALGORITHMS, DEMONSTRATIONS
from rlhf_exp.config import ROOT
from rlhf_exp.config.compose import compose_config
from rlhf_exp.config.model_shape import ASSETS
from rlhf_exp.config.schema import TASKS
from rlhf_exp.dry_run import cost
from rlhf_exp.dry_run.show import print_dry_run
from rlhf_exp.errors import ConfigError
from rlhf_exp.models.untrained import create_untrained
from rlhf_exp.runs.load import load_run
from rlhf_exp.tasks import gsm8k as gsm8k_files
from rlhf_exp.tasks import hh_rlhf as hh_rlhf_files

MODELS = ("tiny", "tiny_untrained", "tiny_gpt2", "tiny_qwen2", "tiny_qwen3")
MODELS += ("gpt2", "qwen2_5_0_5b", "qwen2_5_3b", "qwen3_1_7b")
CLOSED = ("tiny", "tiny_untrained")  # these read Countdown and nothing else
PEFTS = ("none", "lora", "qlora")
OWN = ROOT / "examples" / "own_task"
FEW = ["task.train_rows=8", "eval.rows=4"]
NEEDS = {
    "environment": ["task.of={countdown: {}}", "model.chat_template=qwen3", "max_tokens=8"],
    "gsm8k": ["task.source=generated"],
    "hh_rlhf": ["task.source=generated"],
    "file": [f"task.path={OWN / 'rows.jsonl'}", f"task.checker={OWN / 'check.py'}:grade",
             'task.prompt_template="use {a} {b} {c} make {target} ."'],
    "mixture": ["task.of={three: {name: countdown}, two: {name: countdown, numbers: [2]}}"],
    "module": [f"task.module={OWN / 'near.py'}", "+task.options.near=2"],
}  # fmt: skip


@pytest.fixture(autouse=True)
def few_synthetic_rows(monkeypatch):
    for files in (gsm8k_files, hh_rlhf_files):
        monkeypatch.setattr(files, "SYNTHETIC_ROWS", 200)


PAIRWISE = [
    (algo, model, tuple(TASKS)[(i + j) % len(TASKS)], PEFTS[(i + 2 * j) % 3])
    for i, algo in enumerate(ALGORITHMS)
    for j, model in enumerate(MODELS)
]


def test_any_two_of_algorithm_model_task_and_peft_meet():
    groups = (ALGORITHMS, MODELS, TASKS, PEFTS)
    for one, other in itertools.combinations(range(4), 2):
        met = {(row[one], row[other]) for row in PAIRWISE}
        assert met == set(itertools.product(groups[one], groups[other]))


@pytest.mark.parametrize(("algo", "model", "task", "peft"), PAIRWISE)
def test_a_combination_passes_its_dry_run_or_is_refused_in_one_line(
    miniatures, algo, model, task, peft, capsys, monkeypatch
):
    monkeypatch.setattr(cost, "find_memory", lambda cfg: (1e12, "a computer with room"))
    overrides = [f"algo={algo}", f"task={task}", f"model={model}", f"peft={peft}", "device=cpu", *FEW]
    overrides += NEEDS.get(task, [])
    overrides += [f"model.path={miniatures[model]}"] if model in miniatures else []
    if ALGORITHMS[algo].has_teacher:
        overrides.append(f"teacher.path={miniatures.get(model, ASSETS / 'tiny')}")
        overrides += ["algo.args.per_device_train_batch_size=8", "algo.args.gradient_accumulation_steps=1"]
    if ALGORITHMS[algo].minibatches > 1:
        overrides.append("algo.args.per_device_train_batch_size=2")  # 8 rows fill a rollout
    if task == "file" and ALGORITHMS[algo].learns_from == DEMONSTRATIONS:
        overrides.append("task.samples=self")
    try:
        print_dry_run(compose_config(overrides))
        refusal = None
    except ConfigError as error:
        (refusal,) = error.problems
    row = ALGORITHMS[algo]
    if row.trains and row.learns_from not in TASKS[task].provides:
        assert refusal.startswith(f"algo={algo}: needs ") and f"task={task} has none" in refusal
    elif task == "environment" and row.trains and not row.plays:
        assert refusal.startswith(f"algo={algo}: plays no episodes with tools")
    elif task == "environment" and refusal is not None:
        assert " with its tools has " in refusal and model.startswith("tiny")
    elif row.by_rewards and task == "hh_rlhf":
        assert refusal.startswith(f"algo={algo}: needs a reward; use reward=model reward.path=RUN_DIR")
    elif task in ("gsm8k", "hh_rlhf") and model in CLOSED:
        assert refusal.startswith(f"task={task}: ") and "words of its prompts are not in the model's" in refusal
    elif algo == "sft" and task == "module":
        assert "task.samples=self" in refusal
    else:
        assert refusal is None
        out = capsys.readouterr().out
        assert "checks   all passed" in out and ("of them trained" in out) == (peft != "none" and row.trains)


STEPS = [
    *("algo.args.max_steps=2", "algo.args.per_device_train_batch_size=4", "algo.args.logging_steps=1"),
    *("eval.rows=4", "eval.cache_dir=null", "max_tokens=16", "device=cpu", "device.threads=1"),
    "++algo.args.warmup_steps=0",
]


@pytest.mark.learning
@pytest.mark.parametrize(
    ("algo", "turn"), [(algo, i % 3) for i, algo in enumerate(ALGORITHMS) if ALGORITHMS[algo].trains]
)
def test_two_real_steps_on_three_architectures_plain_lora_and_4_bit(algo, turn, tmp_path, command_line):
    """Over the algorithms, each of them, each architecture and each peft meets each of the others."""
    task = ["task=countdown"] if ALGORITHMS[algo].online else ["task=hh_rlhf", "task.source=generated"]
    task += ["task.train_rows=8", *(["algo.args.num_generations=4"] if ALGORITHMS[algo].compares_groups else [])]
    task += ["algo.args.per_device_train_batch_size=2"] if ALGORITHMS[algo].minibatches > 1 else []
    for model, peft in zip(("tiny_gpt2", "tiny_qwen2", "tiny_qwen3"), PEFTS[turn:] + PEFTS[:turn], strict=True):
        chosen = [f"algo={algo}", f"model={model}", f"peft={peft}", f"output_dir={model}"]
        if ALGORITHMS[algo].has_teacher:
            create_untrained(compose_config([f"model={model}"]).model.init, 1, tmp_path / f"{model}_teacher")
            chosen.append(f"teacher.path={model}_teacher")
        done = command_line(*chosen, *STEPS, *task, cwd=tmp_path)
        assert done.returncode == 0, done.stderr[-3000:]
        run = load_run(tmp_path / model)
        evaluation, losses = run.evaluation, [row["loss"] for row in run.metrics]
        assert run.status == "finished" and run.info["steps"] == 2
        assert len(losses) == 2 and all(math.isfinite(loss) for loss in losses)
        assert evaluation["trained"]["n"] == 4
        assert (run.path / "model" / "adapter_config.json").is_file() == (peft != "none")
        if algo == "dpo":
            assert losses[0] == pytest.approx(math.log(2), abs=1e-5)  # sums of log-probabilities round
            assert evaluation["baseline"]["loss"]["value"] == math.log(2) != evaluation["trained"]["loss"]["value"]
        if ALGORITHMS[algo].held_out_loss:
            before, after = (evaluation[side]["loss"]["value"] for side in ("baseline", "trained"))
            assert evaluation["paired"]["loss"]["value"] == pytest.approx(after - before, abs=1e-9)
