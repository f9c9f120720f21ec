"""``python -m ops.docs [FOLDER]``: write the site into FOLDER (``build/site``); fails for a broken link. Shell."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ops.docs import (
    class_pictures,
    concept_pictures,
    decision_page,
    planning_pictures,
    plugin_pages,
    profiles_page,
    reference_pages,
    rpc_page,
)
from ops.docs.drawing import shape, svg
from ops.docs.shapes import drawn
from ops.docs.site import configuration
from schemas.asyncapi import FILE, document
from scorer.ranking.filters import FILTERS
from scorer.ranking.profiles.catalogue import built_in_profiles
from scorer.ranking.scores import SCORES

ROOT = Path(__file__).parents[2]
STYLE = """
.md-grid { max-width: 76rem; }
.md-typeset table:not([class]) { font-size: 0.68rem; }
.md-typeset table:not([class]) th { min-width: 4rem; }
.md-typeset table:not([class]) td:first-child code { white-space: nowrap; }
.md-typeset pre > code { font-size: 0.76em; }
.md-typeset img[src$=".svg"] { display: block; margin: 0.5rem auto; }
"""


def main(argv: list[str]) -> int:
    """Write the pages to a folder of their own, then let mkdocs build them; return its exit code."""
    target = Path(argv[0] if argv else "build/site").resolve()
    with tempfile.TemporaryDirectory(prefix="windward-docs-") as scratch:
        source = Path(scratch, "pages")
        shutil.copytree(ROOT / "docs", source)
        for name, text in generated():
            path = source / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        pages = [str(path.relative_to(source)) for path in source.rglob("*.md")]
        settings = Path(scratch, "mkdocs.yml")
        settings.write_text(json.dumps(configuration(pages, str(source), str(target))))  # JSON is YAML
        command = [sys.executable, "-m", "mkdocs", "--quiet", "build", "--strict", "--clean", "--config-file"]
        code = subprocess.run(
            [*command, str(settings)], check=False, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}
        ).returncode
    if code == 0:
        print(f"{len(pages)} pages in {target}")  # noqa: T201
    return code


def generated() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each generated file."""
    profiles = built_in_profiles()
    for kind, plugins in (("filter", FILTERS), ("score", SCORES)):
        yield f"{kind}s.md", plugin_pages.index(sorted(plugins, key=lambda each: each.name), kind)
        for plugin in plugins:
            seen = drawn(plugin, is_filter=kind == "filter")
            yield f"{kind}s/{plugin.name}.md", plugin_pages.page(plugin, kind, seen, profiles)
            yield f"pictures/{kind}-{plugin.name}.svg", shape(seen, is_filter=kind == "filter")
    yield "profiles.md", profiles_page.page(profiles)
    yield "decision.md", decision_page.page()
    yield "rpc.md", rpc_page.page(document())
    yield "commands.md", reference_pages.commands()
    yield "metrics.md", reference_pages.metrics()
    yield FILE, json.dumps(document(), indent=2) + "\n"
    for name, size in (concept_pictures.PICTURES | planning_pictures.PICTURES | class_pictures.PICTURES).items():
        yield f"pictures/{name}.svg", svg(*size)
    yield "site.css", STYLE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
