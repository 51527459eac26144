"""The fixed name of Countdown's grader: `from rlhf_exp.rewards.countdown import grade`."""

from rlhf_exp.graders.countdown import evaluate as evaluate
from rlhf_exp.graders.countdown import grade as grade
from rlhf_exp.graders.countdown import read_answer as read_answer
