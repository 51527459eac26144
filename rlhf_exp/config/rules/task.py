"""What a task cannot do."""

from typing import TYPE_CHECKING, Any

from rlhf_exp.algorithms import ALGO_NEEDS, PROMPTS

if TYPE_CHECKING:
    from rlhf_exp.config.schema import Config

FILES = {
    "countdown": "a JSONL file with nums and target",
    "gsm8k": "a JSONL file with question and answer, or a folder with train.jsonl and test.jsonl",
    "hh_rlhf": "a .jsonl or .jsonl.gz file with chosen and rejected, or a folder of them",
    "brevity": "a JSONL file with prompt",
}


def check_task(cfg: "Config") -> list[str]:
    """Whether a task's own keys fit each other, and the algorithm may have its samples."""
    problems = [problem for key, task in list_sources(cfg) for problem in _check_rows(key, task)]
    samples = getattr(cfg.task, "samples", None)
    if samples is not None and ALGO_NEEDS[cfg.algo.name] == PROMPTS:
        fitting = ", ".join(algo for algo, need in ALGO_NEEDS.items() if need != PROMPTS)
        problems.append(
            f"task.samples={samples}: algo={cfg.algo.name} learns from samples of its own; allowed with {fitting}"
        )
    return problems


def list_sources(cfg: "Config") -> list[tuple[str, Any]]:
    """What rows are read by, each under its key: the task, and where it takes another's prompts that one as well."""
    lent = cfg.task.name == "brevity" and cfg.task.source == "task"
    return [("task", cfg.task), *([("task.of", cfg.task.of)] if lent else [])]


def _check_rows(key: str, task: Any) -> list[str]:
    problems = []
    if task.name == "countdown":
        for low, high in (("low", "high"), ("target_low", "target_high")):
            if getattr(task, low) > getattr(task, high):
                problems.append(f"{key}.{low}={getattr(task, low)}: must be at most {key}.{high}={getattr(task, high)}")
        for name, counts in (("numbers", task.numbers), ("traces.numbers", task.traces.numbers)):
            if not counts:
                problems.append(f"{key}.{name}=[]: must hold how many numbers a problem has, such as [3]")
    if task.name == "hh_rlhf" and not task.subsets:
        problems.append(f"{key}.subsets=[]: must hold one of harmless-base, helpful-base, ...; see --help")
    if task.source == "file" and task.path is None:
        problems.append(f"{key}.source=file: needs {key}.path, {FILES[task.name]}")
    return problems
