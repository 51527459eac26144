"""Decides to which split a row belongs, by a hash of its text alone, so that no seed and no source can move it.

>>> split_of("a prompt"), split_within("a prompt", "test")
('train', 'test')
"""

from hashlib import blake2b

SHARES = {"train": range(0, 80), "validation": range(80, 88), "test": range(88, 100)}
"""Percent of all rows, for data without splits of its own."""


def split_of(text: str, shares: dict[str, range] = SHARES) -> str:
    """The split whose share contains a number from 0 to 99, uniform over texts."""
    number = int.from_bytes(blake2b(text.encode(), digest_size=4).digest(), "big") % 100
    return next(name for name, buckets in shares.items() if number in buckets)


def hash_text(text: str) -> str:
    """An id, the same in every source and process."""
    return blake2b(text.encode(), digest_size=8).hexdigest()


def split_within(text: str, part: str | None) -> str:
    """The split of a row of the source's own part, train or test: the test part stays whole, and of the train part the
    same rows are validation as without parts (any other `part`)."""
    if part == "test":
        return "test"
    split = split_of(text)
    return "train" if part == "train" and split == "test" else split
