"""The version of the installed distribution that these modules belong to."""

import os
import sys


def product_version() -> str:
    """Return the version of `windward`, or of `windward-agent` where that is installed alone.

    It is read from the name of the ``.dist-info`` folder. To import `importlib.metadata` takes ten times as long as the
    rest of ``windward --version``.
    """
    for name in ("windward", "windward_agent"):
        for folder in sys.path:
            if found := _installed(folder or os.curdir, name):
                return found
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("windward")
    except PackageNotFoundError:
        return version("windward-agent")


def _installed(folder: str, name: str) -> str:
    """Return the version of a distribution that is installed in a folder; "" for none."""
    try:
        entries = os.listdir(folder)  # noqa: PTH208 - pathlib is not needed to print a version
    except OSError:
        return ""
    start, end = f"{name}-", ".dist-info"
    return next((one[len(start) : -len(end)] for one in entries if one.startswith(start) and one.endswith(end)), "")
