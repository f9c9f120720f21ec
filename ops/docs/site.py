"""The order of the pages. A page of docs/ that is not named here is under *More*."""

from __future__ import annotations

from collections.abc import Iterable

ORDER: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Start", ("quick-start.md", "concepts.md", "decision.md", "coming-from.md", "glossary.md")),
    ("Placing", ("clients.md", "rpc.md", "profiles.md", "filters.md", "scores.md", "learning.md", "rebalancing.md",
               "draining.md", "classes.md", "over-commit.md", "writing-plugins.md")),
    ("Running", ("deploying.md", "settings.md", "operating.md", "sizing.md", "growth.md", "security.md",
               "upgrading.md", "ledger.md")),
    ("When it fails", ("failures.md", "runbook.md")),
    ("Reference", ("commands.md", "metrics.md")),
    ("More", ("instances.md", "which-profile.md", "harder-worlds.md", "replay.md", "bridge.md", "kubernetes.md")),
)  # fmt: skip


def navigation(pages: Iterable[str]) -> str:
    r"""Return the tables of contents, for the end of the first page; a page that is not in the order comes last.

    >>> print(navigation(["index.md", "new.md"]))
    ```{toctree}
    :hidden:
    :caption: More
    new.md
    ```
    """
    left = dict.fromkeys(sorted(name for name in pages if name != "index.md" and "/" not in name))
    found = []
    for title, names in ORDER:
        here = [name for name in names if name in left]
        left = {name: None for name in left if name not in here}
        here += left if title == "More" else []
        if here:
            found.append("\n".join(["```{toctree}", ":hidden:", f":caption: {title}", *here, "```"]))
    return "\n\n".join(found)
