"""What a task cannot do."""

from typing import TYPE_CHECKING

from rlhf_exp.combinations import ALGO_NEEDS, PROMPTS

if TYPE_CHECKING:
    from rlhf_exp.schema import Config


def check_task(cfg: "Config") -> list[str]:
    """Whether a task's own keys fit each other, and the algorithm may have its samples."""
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
