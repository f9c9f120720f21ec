"""The order of the pages, and mkdocs's settings. A page of docs/ that is not named here is under *More*."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

ORDER: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Start", ("index.md", "quick-start.md", "concepts.md", "decision.md", "coming-from.md", "glossary.md")),
    (
        "Placing",
        (
            "clients.md",
            "rpc.md",
            "profiles.md",
            "filters.md",
            "scores.md",
            "learning.md",
            "rebalancing.md",
            "draining.md",
            "classes.md",
            "over-commit.md",
            "writing-plugins.md",
        ),
    ),
    (
        "Running",
        (
            "deploying.md",
            "settings.md",
            "operating.md",
            "sizing.md",
            "growth.md",
            "security.md",
            "upgrading.md",
            "ledger.md",
        ),
    ),
    ("When it fails", ("failures.md", "runbook.md")),
    ("Reference", ("commands.md", "metrics.md", "glossary.md")),
    ("More", ("instances.md", "which-profile.md", "harder-worlds.md", "replay.md", "bridge.md", "kubernetes.md")),
)
FOLDERS = {"filters.md": "filters/", "scores.md": "scores/"}
"""Pages that have pages below them."""


def navigation(pages: Iterable[str]) -> list[Any]:
    """Return the navigation over the pages there are; one that is not in the order comes last, and none is left out.

    >>> navigation(["index.md", "new.md"])
    [{'Start': ['index.md']}, {'More': ['new.md']}]
    """
    left = dict.fromkeys(sorted(pages))
    found: list[Any] = []
    for title, names in ORDER:
        entries: list[Any] = []
        for name in names:
            if name not in left:
                continue
            del left[name]
            below = [page for page in left if name in FOLDERS and page.startswith(FOLDERS[name])]
            for page in below:
                del left[page]
            entries.append({FOLDERS[name].rstrip("/").capitalize(): [name, *below]} if below else name)
        if entries or title == "More":
            found.append({title: entries})
    found[-1]["More"] += left
    return [section for section in found if all(section.values())]


def configuration(pages: Iterable[str], source: str, target: str) -> dict[str, Any]:
    """Return mkdocs's settings; with ``--strict`` a broken link or anchor is an error."""
    return {
        "site_name": "Windward",
        "docs_dir": source,
        "site_dir": target,
        "use_directory_urls": False,
        "theme": {
            "name": "material",
            "font": False,
            "features": ["navigation.indexes", "navigation.top", "navigation.sections", "content.code.copy", "toc.follow"],
            "palette": [
                {"media": "(prefers-color-scheme: light)", "scheme": "default", "primary": "indigo",
                 "toggle": {"icon": "material/weather-night", "name": "dark"}},
                {"media": "(prefers-color-scheme: dark)", "scheme": "slate", "primary": "indigo",
                 "toggle": {"icon": "material/weather-sunny", "name": "light"}},
            ],
        },
        "extra_css": ["site.css"],
        "plugins": ["material/search"],
        "markdown_extensions": ["tables", "attr_list", "admonition", "pymdownx.superfences", "pymdownx.highlight", {"toc": {"permalink": True}}],
        "validation": {"links": {"anchors": "warn", "not_found": "warn", "unrecognized_links": "warn"}},
        "nav": navigation(pages),
    }  # fmt: skip
