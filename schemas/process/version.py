"""Version: which release this is, by whichever distribution brought these modules."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def product_version() -> str:
    """Return the version of `windward`, or of `windward-agent` where that is installed alone."""
    try:
        return version("windward")
    except PackageNotFoundError:
        return version("windward-agent")
