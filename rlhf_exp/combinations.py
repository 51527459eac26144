"""What does not go together. Called by config.py once every value fits its type; files.py then looks at the disk.

One table says what an algorithm learns from, one what a task gives; a task fits that gives it.
"""

from importlib.util import find_spec
from typing import TYPE_CHECKING

from rlhf_exp import device
from rlhf_exp.checks import suggest

if TYPE_CHECKING:
    from rlhf_exp.schema import Config

PROMPTS, DEMONSTRATIONS, PAIRS = "prompts", "demonstrations", "preference pairs"

ALGO_NEEDS = {"grpo": PROMPTS, "sft": DEMONSTRATIONS, "dpo": PAIRS, "reward_model": PAIRS}
TASK_GIVES = {
    "countdown": (PROMPTS, DEMONSTRATIONS, PAIRS),
    "gsm8k": (PROMPTS, DEMONSTRATIONS, PAIRS),
    "hh_rlhf": (PROMPTS, DEMONSTRATIONS, PAIRS),
}
GRADED = ("countdown", "gsm8k")
"""Tasks whose answers are right or wrong: they have a grader, and their pairs are sampled from the start model."""

# The losses that TRL 1.16 knows (grpo_trainer.py, sft_config.py, dpo_trainer.py: a list); its reward model has one.
LOSS_TYPES = {
    "grpo": ("grpo", "dr_grpo", "dapo", "bnpo", "cispo", "sapo", "luspo", "vespo"),
    "sft": ("nll", "dft"),
    "dpo": (
        *("sigmoid", "hinge", "ipo", "exo_pair", "nca_pair", "robust", "bco_pair", "sppo_hard", "aot"),
        *("aot_unpaired", "apo_zero", "apo_down", "discopop", "sft", "sigmoid_norm"),
    ),
}
REWARDS = ("outcome", "model")
ARCHITECTURES = ("gpt2", "qwen2", "qwen3")
TOKENIZERS = ("words", "bytes")


def find_conflicts(cfg: "Config") -> list[str]:
    """Values that are each allowed and do not go together."""
    return [
        *_check_algo(cfg),
        *_check_task(cfg),
        *_check_model(cfg),
        *_check_reward(cfg),
        *_check_machine(cfg),
    ]


def learns_from_samples(cfg: "Config") -> bool:
    """Whether training rows are made of completions: always where a graded task must give pairs."""
    if cfg.task.name not in GRADED:
        return False
    return ALGO_NEEDS[cfg.algo.name] == PAIRS or cfg.task.samples is not None


def _check_algo(cfg: "Config") -> list[str]:
    algo, task, problems = cfg.algo.name, cfg.task.name, []
    need, gives = ALGO_NEEDS[algo], TASK_GIVES[task]
    if need not in gives:
        tasks = [name for name, given in TASK_GIVES.items() if need in given]
        fitting = [name for name, needed in ALGO_NEEDS.items() if needed in gives]
        problems.append(
            f"algo={algo}: needs {need}, and task={task} has none; tasks with {need.split()[-1]}:"
            f" {', '.join(tasks) or 'none yet'}; algorithms for task={task}: {', '.join(fitting)}"
        )
    losses, chosen = LOSS_TYPES.get(algo), cfg.algo.args.get("loss_type")
    for loss in chosen if isinstance(chosen, list) else [chosen]:
        if losses and loss is not None and loss not in losses:
            allowed = f"must be one of {', '.join(losses)}{suggest(loss, losses)}"
            problems.append(f"loss_type={loss}: not a loss of algo={algo}, {allowed}")
    return problems


def _check_task(cfg: "Config") -> list[str]:
    task, problems = cfg.task, []
    if task.name == "countdown":
        for low, high in (("low", "high"), ("target_low", "target_high")):
            if getattr(task, low) > getattr(task, high):
                problems.append(f"task.{low}={getattr(task, low)}: must be at most task.{high}={getattr(task, high)}")
        for key, counts in (("numbers", task.numbers), ("traces.numbers", task.traces.numbers)):
            if not counts:
                problems.append(f"task.{key}=[]: must hold how many numbers a problem has, such as [3]")
    if task.name == "hh_rlhf" and not task.subsets:
        problems.append("task.subsets=[]: must hold one of harmless-base, helpful-base, ...; see --help")
    if task.source == "file" and task.path is None:
        forms = {
            "countdown": "a JSONL file with nums and target",
            "gsm8k": "a JSONL file with question and answer, or a folder with train.jsonl and test.jsonl",
            "hh_rlhf": "a .jsonl or .jsonl.gz file with chosen and rejected, or a folder of them",
        }
        problems.append(f"task.source=file: needs task.path, {forms[task.name]}")
    samples = getattr(task, "samples", None)
    if samples is not None and ALGO_NEEDS[cfg.algo.name] == PROMPTS:
        fitting = ", ".join(algo for algo, need in ALGO_NEEDS.items() if need != PROMPTS)
        problems.append(
            f"task.samples={samples}: algo={cfg.algo.name} learns from samples of its own; allowed with {fitting}"
        )
    return problems


def _check_model(cfg: "Config") -> list[str]:
    model = cfg.model
    if model.path is not None and model.init is not None:
        return [f"model.path={model.path}: not with model={model.name}, which starts from random weights"]
    if model.path is None and model.init is None and model.name != "tiny":
        return [f"model.path=null: model={model.name} needs a hub id or a folder"]
    if cfg.algo.name not in model.learning_rate and "learning_rate" not in cfg.algo.args:
        return [f"model.learning_rate: has none for algo={cfg.algo.name}"]
    for key, known in (("architecture", ARCHITECTURES), ("tokenizer", TOKENIZERS)):
        if model.init is not None and (value := model.init.get(key)) not in known:
            return [f"model.init.{key}={value}: must be one of {', '.join(known)}{suggest(value, known)}"]
    return []


def _check_reward(cfg: "Config") -> list[str]:
    weights, task, problems = cfg.reward.weights, cfg.task.name, []
    for name in weights:
        if name not in REWARDS:
            known = f"must be one of {', '.join(REWARDS)}{suggest(name, REWARDS)}"
            problems.append(f"reward.weights.{name}: no such reward; {known}")
    by_model = "use reward=model reward.path=RUN_DIR, a run of algo=reward_model"
    if "outcome" in weights and task not in GRADED:
        problems.append(f"reward.weights.outcome: task={task} has no right answers to grade; {by_model}")
    if ALGO_NEEDS[cfg.algo.name] == PROMPTS and not weights:
        other = "" if task not in GRADED else "reward=outcome, or "
        problems.append(f"algo={cfg.algo.name}: needs a reward, and reward=none has none; use {other}{by_model[4:]}")
    if "model" in weights and cfg.reward.path is None:
        problems.append("reward=model: needs reward.path, the folder of a run of algo=reward_model, or a hub id")
    if "model" not in weights and cfg.reward.path is not None:
        problems.append(f"reward.path={cfg.reward.path}: not with these rewards; add +reward.weights.model=1.0")
    return problems


def _check_machine(cfg: "Config") -> list[str]:
    problems = []
    if cfg.device.name == "cuda" and not device.cuda_major():
        problems.append("device=cuda: no usable GPU, or a CPU build of torch; use device=cpu or device=auto")
    if cfg.generation.method == "compact" and cfg.algo.args.get("use_vllm"):
        problems.append("generation=compact: not with algo.args.use_vllm=true; use generation=trl")
    for package in cfg.logging.report_to:
        if package not in ("wandb", "tensorboard"):
            problems.append(f"logging.report_to={package}: must be wandb or tensorboard")
        elif find_spec(package) is None:
            problems.append(f"logging={package}: not installed; pip install {package}, or logging=file")
    if cfg.peft.quantization and find_spec("bitsandbytes") is None:
        problems.append("peft=qlora: bitsandbytes is not installed; pip install bitsandbytes, or peft=lora")
    return problems + _check_attention(cfg)


def _check_attention(cfg: "Config") -> list[str]:
    if cfg.model.attn_implementation != "flash_attention_2":
        return []
    key = "model.attn_implementation=flash_attention_2"
    if find_spec("flash_attn") is None:
        return [f"{key}: flash-attn is not installed; pip install flash-attn, or model.attn_implementation=sdpa"]
    if cfg.device.use_cpu or not device.has_flash_attention():
        return [f"{key}: needs a GPU of Ampere or newer; use model.attn_implementation=sdpa"]
    if cfg.model.dtype == "float32":
        return [f"{key}: needs half precision; add model.dtype=bfloat16, or use model.attn_implementation=sdpa"]
    return []
