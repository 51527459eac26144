"""Refuses measurements in training that could not be made, or would choose on the rows that they report, and numbers of
completions that do not fit together."""

from rlhf_exp.algorithms import ALGORITHMS
from rlhf_exp.config.schema import Config


def check_eval(cfg: Config) -> list[str]:
    """Whether `eval.every` has completions to measure, `eval.best` something to choose by on other rows, and the start
    model whole groups of `eval.completions`, of which majority@k and rewards that compare completions are."""
    wanted, row, problems = cfg.eval, ALGORITHMS[cfg.algo.name], []
    if wanted.start_completions % wanted.completions:
        problems.append(
            f"eval.start_completions={wanted.start_completions}: must be a multiple of"
            f" eval.completions={wanted.completions}; nearest:"
            f" {wanted.completions * max(1, round(wanted.start_completions / wanted.completions))}"
        )
    if wanted.every is not None and (row.scores or not row.trains):
        problems.append(f"eval.every={wanted.every}: measures completions; algo={cfg.algo.name} trains no policy")
    if wanted.engine == "vllm" and row.scores:
        problems.append(f"eval.engine=vllm: samples completions; algo={cfg.algo.name} is measured without any")
    if wanted.engine == "vllm" and cfg.peft.quantization:
        why = "vLLM would measure the base's weights as they were before they were rounded to 4 bits"
        problems.append(f"eval.engine=vllm: {why}; use eval.engine=transformers")
    if not wanted.best:
        return problems
    if wanted.every is None:
        problems.append("eval.best=true: chooses among the measurements of eval.every; set that to a number of steps")
    if wanted.split == "validation":
        problems.append("eval.best=true: chooses on the validation rows; use eval.split=test to measure on others")
    if not (cfg.task.graded or cfg.reward.weights):
        problems.append(f"eval.best=true: task={cfg.task.name} has no grader, and reward=none no reward to choose by")
    return problems
