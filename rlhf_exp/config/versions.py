"""Finds versions of installed packages without importing them."""

from functools import cache
from importlib.metadata import PackageNotFoundError, version


@cache
def find_version(package: str) -> str | None:
    """The installed version; None if the package is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
