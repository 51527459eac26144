"""The fixed name of GSM8K's grader: `from rlhf_exp.rewards.gsm8k import grade`."""

from rlhf_exp.graders.gsm8k import grade as grade
