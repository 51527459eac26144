"""Measures the policy on validation rows during training (`eval.every`).

validation = Validation(experiment)
validation.measure(policy)     # {"validation/accuracy": 0.4, "validation/reward": 0.5, ...}
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from transformers import PreTrainedModel

from rlhf_exp.evaluation.completions import make_samples, sample_held_out
from rlhf_exp.evaluation.metrics import summarise
from rlhf_exp.tasks.tokens import encode_prompts

if TYPE_CHECKING:
    from rlhf_exp.experiment import Experiment


class Validation:
    """One completion of each validation row, with the sampling of the held-out measurement: the same rows and random
    numbers at every step, so that differences between steps are paired.

    Attributes:
        metric: what `eval.best` chooses by, `validation/accuracy`, or `validation/reward` without a grader.
    """

    def __init__(self, experiment: "Experiment") -> None:
        cfg, task = experiment.cfg, experiment.task
        once = replace(cfg.eval, completions=1, greedy=False)
        task = replace(task, eval=task.validation)
        self._experiment = replace(experiment, cfg=replace(cfg, eval=once), task=task)
        self._prompt_ids = encode_prompts(experiment.tokenizer, task.eval)
        self.metric = "validation/accuracy" if task.grade is not None else "validation/reward"

    def measure(self, policy: PreTrainedModel) -> dict[str, float]:
        """Means over rows: accuracy in [0, 1] with a grader, reward with rewards, length in tokens, and the share that
        was cut off at the budget. Torch's random state is left alone."""
        cfg = self._experiment.cfg
        tokenizer, name = self._experiment.tokenizer, "validation"
        held_out = sample_held_out(policy, tokenizer, self._prompt_ids, cfg, title=name, purpose=name)
        section = summarise(make_samples("validation", self._experiment, held_out), cfg.max_tokens, held_out)
        figures = {name: section[name] for name in ("accuracy", "mean_tokens", "truncation_rate") if name in section}
        if "reward" in section:
            figures["reward"] = section["reward"]["mean"]
        return {f"validation/{name}": interval["value"] for name, interval in figures.items()}
