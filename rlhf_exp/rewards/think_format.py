"""Whether a completion begins with `<think> ... </think>`, 1.0 or 0.0: TRL's think_format_reward, for plain text too.

    think_format(completions=["<think> 8 * 7 = 56 </think> <answer> ..."])    # [1.0]

TRL's own function accepts only messages. A plain completion is read without the white space between it and its prompt,
which byte-level tokenizers keep in decoding and word-level ones lose. A completion whose `<think>` is in the prompt, as
some chat templates write it, scores 0.
"""

from typing import Any


def think_format(completions: list[Any], **columns: Any) -> list[float]:
    """TRL's reward of messages, or of plain texts as messages."""
    from trl.rewards import think_format_reward

    return think_format_reward([[{"content": c.lstrip()}] if isinstance(c, str) else c for c in completions])
