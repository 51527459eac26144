"""vLLM for rollouts, through TRL's trainers.

    with preparing_engine(experiment): ...    # builds the trainer; TRL must not have been imported
    trainer.add_callback(EngineCallback(trainer))

TRL copies the policy's weights to vLLM before each rollout, with adapters merged. If that fails silently the run learns
from samples of another model: EngineCallback ends it once vLLM's log-probabilities are not the trainer's.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from accelerate.utils import set_seed
from transformers import TrainerCallback

from rlhf_exp import processes
from rlhf_exp.experiment import Experiment
from rlhf_exp.models.vllm import EngineFailed, prepare_vllm_on_cpu
from rlhf_exp.tasks.tokens import encode_prompts

if TYPE_CHECKING:
    from rlhf_exp.trainers.rollouts import Rollouts

DIFFERENCE = "sampling/sampling_logp_difference/mean"
"""TRL's figure: vLLM's log-probability of a token that it drew, against the trainer's. RLOO has none."""
TOLERANCE = 0.3
"""Nats per token by which half precision and other kernels may differ, on average."""


@contextmanager
def preparing_engine(experiment: Experiment) -> Iterator[None]:
    """Inside, TRL can build an engine in this process. Its context, if the config leaves it open, is the longest prompt
    with its completion: the model's own may need more memory for one sequence than the cache has. The variables that
    TRL sets for it are taken away afterwards, or the next job of a sweep would take itself for one of several
    processes."""
    args, tokenizer, environment = experiment.args, experiment.tokenizer, dict(os.environ)
    if args.use_cpu:
        options = prepare_vllm_on_cpu(experiment.model)
        from trl.generation import vllm_generation
        from vllm import LLM

        vllm_generation.LLM = partial(LLM, **options)  # TRL has no argument for these
    if args.vllm_max_model_length is None:
        rows = [*experiment.task.train, *experiment.task.validation]
        longest = max(map(len, encode_prompts(tokenizer, rows)))
        args.vllm_max_model_length = min(longest + args.max_completion_length, tokenizer.model_max_length)
    try:
        yield
    finally:
        for name in set(processes.SET_BY_TORCHRUN) - environment.keys():
            os.environ.pop(name, None)


class EngineCallback(TrainerCallback):
    """Sets the run's seed again before the first step: an engine in this process draws from torch's own generator,
    which vLLM has given the same seed in every run. Ends a run whose engine does not have the policy's weights. After
    training the engine is shut down; else its memory stays taken, in a sweep once for each job. Not where several
    processes train: vLLM ends their group too."""

    def __init__(self, trainer: "Rollouts") -> None:
        self._trainer = trainer

    def on_train_begin(self, *args: Any, **kwargs: Any) -> None:
        set_seed(self._trainer.args.seed, device_specific=True)

    def on_log(self, args: Any, *others: Any, **kwargs: Any) -> None:
        """Truncated sampling is not checked: vLLM's log-probabilities are then of the kept tokens alone."""
        is_whole = args.top_p == 1 and not args.top_k and not args.min_p and args.repetition_penalty == 1
        if not is_whole or args.generation_kwargs:
            return
        if not (away := kwargs["logs"].get(DIFFERENCE, 0.0)) <= TOLERANCE:  # also of NaN
            line = f"its log-probabilities are {away:.2f} nats per token from the trainer's, on average"
            remedy = f"at most {TOLERANCE}; use generation=trl, or another version of vLLM"
            raise EngineFailed(f"generation: vLLM does not sample from the weights that it is sent: {line} ({remedy})")

    def on_train_end(self, *args: Any, **kwargs: Any) -> None:
        if self._trainer.vllm_mode == "colocate" and processes.count() == 1:
            self._trainer.vllm_generation.llm.llm_engine.engine_core.shutdown()
