"""Measures the policy on validation rows during training (`eval.every`).

validation = Validation(experiment)
validation.measure(policy)     # {"id": ["3 7 8 > 53", ...], "accuracy": [1, ...], "kl": [0.31, ...], ...}
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from peft import PeftModel
from transformers import PreTrainedModel

from rlhf_exp.evaluation.completions import make_samples, sample_held_out
from rlhf_exp.evaluation.metrics import average_rows
from rlhf_exp.models.loading import load_policy
from rlhf_exp.models.vllm import Sampler
from rlhf_exp.models.whole import whole_weights
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

    def measure(self, policy: PreTrainedModel, sampler: Sampler | None = None) -> dict[str, list[Any]]:
        """Each row's `id` and figures: accuracy with a grader, reward with rewards, KL to the start model in nats,
        length in tokens, and whether it was cut off at the budget. Torch's random state is left alone.

        The start model is loaded for each measurement, since a second copy of all weights in memory throughout training
        would cost more; a policy with an adapter is the start model without it. `sampler`: an engine that holds the
        policy's weights; without one transformers samples.
        """
        cfg, task, tokenizer = self._experiment.cfg, self._experiment.task, self._experiment.tokenizer
        start_model = policy if isinstance(policy, PeftModel) else load_policy(self._experiment.model)
        how = {"start_model": start_model, "title": "validation", "purpose": "validation", "sampler": sampler}
        with whole_weights(policy):
            held_out = sample_held_out(policy, tokenizer, self._prompt_ids, cfg, **how)
        figures = average_rows(make_samples("validation", self._experiment, held_out))
        of_rows = {name: [_shorten(value) for value in values] for name, values in figures.items()}
        return {"id": [row["id"] for row in task.eval], **of_rows}


def _shorten(value: float) -> float:
    """Six decimals, and whole numbers without any, since a run folder holds all of them."""
    return int(value) if float(value).is_integer() else round(float(value), 6)
