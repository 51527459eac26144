"""Rewards for Countdown: fewer wrong attempts in the search, and an answer that multiplies.

A function gets `prompts`, `completions`, `completion_ids` and the columns of the rows (here `numbers` and `target`), as
lists of equal length, and returns a number for each completion. A completion of a chat model is a list of messages.
"""


def few_attempts(prompts, completions, **kwargs):
    """1 for a search without a wrong attempt, which the shipped model marks by `no`; 0 for ten and more."""
    return [max(0.0, 1.0 - 0.1 * text.split().count("no")) for text in completions]


def multiplies(completions, target, **kwargs):
    """1 if the target is large and the answer multiplies."""
    answers = [text.partition("<answer>")[2] for text in completions]
    return [float(goal >= 20 and "*" in answer) for answer, goal in zip(answers, target, strict=True)]
