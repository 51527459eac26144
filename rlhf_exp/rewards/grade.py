"""The old place of `Grade`, for checkers of users: `from rlhf_exp.rewards.grade import Grade`."""

from rlhf_exp.graders import Grade as Grade
