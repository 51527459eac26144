"""The reward of docs/tutorial.md: it is meant to make the model show its work, and pays for equal signs."""


def show_work(completions: list[str], **columns: object) -> list[float]:
    """From 0 to 2: a quarter for each equal sign, up to eight, in right and in wrong equations."""
    return [min(text.count("="), 8) / 4 for text in completions]
