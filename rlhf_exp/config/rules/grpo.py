"""Refuses values of GRPO's own keys that contradict each other."""

from rlhf_exp.config.schema import Config, Grpo
from rlhf_exp.config.values import show


def check_grpo(cfg: Config) -> list[str]:
    """Whether `alpha` is set only for the hybrid loss, and a curriculum rises from step 0, within budget and steps."""
    if not isinstance(cfg.algo, Grpo):
        return []
    problems, alpha, loss = [], cfg.algo.hybrid.alpha, cfg.algo.args.get("loss_type")
    if alpha is not None and loss != "hybrid":
        problems.append(
            f"algo.hybrid.alpha={alpha}: only with loss_type=hybrid, not with loss_type={show(loss)};"
            " use loss_type=hybrid, or algo.hybrid.alpha=null"
        )
    curriculum = cfg.algo.curriculum
    if curriculum is not None and (curriculum.budgets or curriculum.from_steps):
        problems += _check_curriculum(cfg, curriculum.budgets, curriculum.from_steps)
    return problems


def _check_curriculum(cfg: Config, budgets: list[int], steps: list[int]) -> list[str]:
    at_budgets = f"algo.curriculum.budgets={show(budgets)}"
    at_steps = f"algo.curriculum.from_steps={show(steps)}"
    problems = [
        f"{key}: must rise, each above the one before; nearest: {show(sorted(set(stages)))}"
        for key, stages in ((at_budgets, budgets), (at_steps, steps))
        if stages != sorted(set(stages))
    ]
    if len(steps) != len(budgets):
        problems.append(f"{at_steps}: must hold a step for each of the {len(budgets)} algo.curriculum.budgets")
    elif steps[0] != 0:
        problems.append(f"{at_steps}: must start at 0; nearest: {show([0, *steps[1:]])}")
    if (longest := max(budgets, default=0)) > cfg.max_tokens:
        problems.append(f"{at_budgets}: must be at most max_tokens={cfg.max_tokens}; nearest: max_tokens={longest}")
    last = cfg.algo.args.get("max_steps")
    if type(last) is int and 0 < last <= max(steps, default=0):
        problems.append(f"{at_steps}: must be below algo.args.max_steps={last}, or a stage never begins")
    return problems
