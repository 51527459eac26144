"""A reward for rows without right answers: 1 for an answer of at most 12 words, less for a longer one."""


def short(completions, **columns):
    texts = [text if isinstance(text, str) else text[-1]["content"] for text in completions]  # messages of a chat model
    return [min(1.0, 12 / max(1, len(text.split()))) for text in texts]
