"""The extra of the distribution that installs a missing package."""

from __future__ import annotations

EXTRA_OF = {
    "faust": "stream",
    "aiokafka": "stream",
    "mode": "stream",
    "uvloop": "stream",
    "matplotlib": "plot",
    "grafana_foundation_sdk": "dev",
    "textual": "top",
}


def in_words(error: ModuleNotFoundError) -> str | None:
    """Return what to install for a missing module; None when no extra has it.

    >>> in_words(ModuleNotFoundError(name="matplotlib.figure"))
    "matplotlib is not installed; it comes with: pip install 'windward[plot]'"
    >>> in_words(ModuleNotFoundError(name="scorer.no_such"))
    """
    package = (error.name or "").partition(".")[0]
    extra = EXTRA_OF.get(package)
    return f"{package} is not installed; it comes with: pip install 'windward[{extra}]'" if extra else None
