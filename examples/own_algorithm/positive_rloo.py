"""RLOO that learns only from completions that are better than the others of their prompt.

The row says all that the package knows of an algorithm (rlhf_exp/algorithms.py): here what it knows of rloo, with
another function that builds the trainer. It must be there before another module of the package is imported.
"""

import sys
from dataclasses import replace

from rlhf_exp.algorithms import ALGORITHMS

ALGORITHMS["positive_rloo"] = replace(ALGORITHMS["rloo"], build="positive_rloo:build")


def build(experiment):
    """The trainer of an experiment; called once, when torch and TRL are loaded."""
    from rlhf_exp.trainers import list_arguments
    from rlhf_exp.trainers.rloo import ResumableRLOOTrainer

    class PositiveRLOOTrainer(ResumableRLOOTrainer):
        def _generate_and_score_completions(self, inputs):
            batch = super()._generate_and_score_completions(inputs)
            batch["advantages"] = batch["advantages"].clamp(min=0)
            return batch

    return PositiveRLOOTrainer(**list_arguments(experiment))


if __name__ == "__main__":
    from rlhf_exp.__main__ import main

    sys.exit(main())
