"""The line of a key in a TOML text, which `tomllib` does not tell."""

from __future__ import annotations

import re


def locate(text: str, path: tuple[str | int, ...]) -> int:
    r"""Return the line (from 1) of a key path in a TOML text, or of the nearest table around it.

    >>> locate('a = 1\n[[scores]]\nuse = "x"\n[[scores]]\nweight = -1', ("scores", 1, "weight"))
    5
    """
    best, best_depth = 1, 0
    here: tuple[str | int, ...] = ()
    counts: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if array := re.match(r"\[\[\s*([\w.-]+)\s*\]\]", stripped):
            counts[array[1]] = counts.get(array[1], -1) + 1
            here = (*array[1].split("."), counts[array[1]])
        elif table := re.match(r"\[\s*([\w.-]+)\s*\]", stripped):
            parts: list[str | int] = []
            for part in table[1].split("."):
                parts.append(part)
                if part in counts:
                    parts.append(counts[part])
            here = tuple(parts)
        elif key := re.match(r"[\"']?([\w-]+)[\"']?\s*[=.]", stripped):
            full = (*here, key[1])
            depth = len(full)
            if depth > best_depth and path[:depth] == full:
                best, best_depth = number, depth
            continue
        else:
            continue
        if len(here) > best_depth and path[: len(here)] == here:
            best, best_depth = number, len(here)
    return best
