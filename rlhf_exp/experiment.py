"""The parts of one experiment: pipeline.py makes the object once, and every later stage takes it.

experiment = Experiment(cfg, folder, model, tokenizer, task, rewards, args)
evaluator = PolicyEvaluator(experiment)
trainer = build_trainer(experiment)
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rlhf_exp.config.schema import Config
from rlhf_exp.runs.folder import RunFolder

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from rlhf_exp.evaluation.completions import EvalSet
    from rlhf_exp.models.source import ModelSource
    from rlhf_exp.rewards import RewardFunction
    from rlhf_exp.tasks import TaskRows


@dataclass(frozen=True)
class Experiment:
    """The checked config and what was loaded for it.

    Attributes:
        folder: the run folder.
        model: where the start model's full weights are.
        task: the rows to train on and the held-out rows.
        rewards: in the order of `cfg.reward.weights`.
        args: TRL's arguments, of the algorithm's own class; None if nothing is trained.
        sets: the rows of each of `eval.sets`, with its grader and rewards.
        teacher: of an algorithm that learns from one.
    """

    cfg: Config
    folder: RunFolder
    model: "ModelSource"
    tokenizer: "PreTrainedTokenizerBase"
    task: "TaskRows"
    rewards: "list[RewardFunction]"
    args: Any = None
    sets: "dict[str, EvalSet]" = field(default_factory=dict)
    teacher: "ModelSource | None" = None
