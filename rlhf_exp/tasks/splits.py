"""Decides to which split a row belongs, by a hash of its text alone, so that no seed and no source can move it.

>>> split_of("a prompt", SHARES), bucket("a prompt")
('train', 2)
"""

from hashlib import blake2b

SHARES = {"train": range(0, 80), "validation": range(80, 88), "test": range(88, 100)}
"""Percent of all rows, for data without splits of its own."""


def bucket(text: str) -> int:
    """A number from 0 to 99, uniform over texts."""
    return int.from_bytes(blake2b(text.encode(), digest_size=4).digest(), "big") % 100


def split_of(text: str, shares: dict[str, range]) -> str:
    """The split whose share contains the text's bucket."""
    number = bucket(text)
    return next(name for name, buckets in shares.items() if number in buckets)
