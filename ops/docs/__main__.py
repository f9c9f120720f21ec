"""``python -m ops.docs [FOLDER]``: write the site into FOLDER (``build/site``); fails for a broken link. Shell."""

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from ops.docs import reference_pages, rpc_page
from ops.docs.shapes import SHAPES, drawn, picture
from scorer.ranking.filters import FILTERS
from scorer.ranking.scores import SCORES

ROOT = Path(__file__).parents[2]
ORDER: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Start", ("quick-start.md", "which-profile.md", "coming-from.md", "concepts.md", "decision.md", "glossary.md")),
    ("Placing", ("clients.md", "rpc.md", "profiles.md", "filters.md", "scores.md", "learning.md", "rebalancing.md",
               "draining.md", "spreading.md", "classes.md", "over-commit.md", "writing-plugins.md")),
    ("Running", ("deploying.md", "settings.md", "operating.md", "soon-hot.md", "sizing.md", "growth.md", "security.md",
               "upgrading.md", "ledger.md", "backup.md")),
    ("When it fails", ("failures.md", "runbook.md")),
    ("Reference", ("commands.md", "metrics.md")),
    ("More", ("instances.md", "replay.md", "bridge.md", "kubernetes.md")),
)  # fmt: skip
"""The order of the pages. A page of docs/ that is not named here is under *More*."""
MADE_OF = {
    "schemas/rpc/parameters.py": "rpc.md", "ops/cli/commands.py": "commands.md", "scorer/metrics.py": "metrics.md",
    "scorer/ranking/profiles/profile_file.py": "profiles.md",
    **{f"scorer/ranking/{kind}/__init__.py": f"{kind}.md" for kind in ("filters", "scores")},
    **{
        f"{each.__module__.replace('.', '/')}.py": f"{kind}/{each.name}.md"
        for kind, plugins in (("filters", FILTERS), ("scores", SCORES))
        for each in plugins
    },
}  # fmt: skip
"""Sources that pages of docs/ link to, so that the links work in the checkout; the site has a page of each."""
STYLE = """
table.docutils { font-size: 0.82rem; display: block; overflow-x: auto; }
td:first-child code { white-space: nowrap; }
img[src$=".svg"] { display: block; margin: 0.5rem auto; }
.highlight pre { font-size: 0.78rem; white-space: pre-wrap; overflow-wrap: anywhere; }
@media (min-width: 68em) { .content { width: 54em; } }
@media (max-width: 46em) {
  table.docutils, .highlight pre { font-size: 0.7rem; }
  th.head, table.docutils td, table.docutils th { padding: 0.15rem 0.2rem; }
  td:first-child { min-width: 4.5rem; }
  td:first-child code { white-space: normal; overflow-wrap: anywhere; }
  .highlight .c1 { display: inline-block; }
}
@media (max-width: 30em) {
  table.docutils { font-size: 0.62rem; }
  th.head, table.docutils td, table.docutils th { padding: 0.1rem; }
}
"""


def main(argv: list[str]) -> int:
    """Write the pages to a folder of their own, then let Sphinx build them; return its exit code."""
    target = Path(argv[0] if argv else "build/site").resolve()
    with tempfile.TemporaryDirectory(prefix="windward-docs-") as scratch:
        source = Path(scratch, "pages")
        shutil.copytree(ROOT / "docs", source, ignore=shutil.ignore_patterns("*.json"))
        for name, text in generated():
            path = source / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        for path in source.rglob("*.md"):
            path.write_text(re.sub(r"\]\((?:\.\./)+([^)#]+)", _page_of, path.read_text()))
        pages = [str(path.relative_to(source)) for path in source.rglob("*.md")]
        with (source / "index.md").open("a") as index:
            index.write(f"\n{navigation(pages)}\n")
        shutil.copy(Path(__file__).with_name("conf.py"), source)
        shutil.rmtree(target, ignore_errors=True)
        command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going", "-b", "html"]
        places = ["-d", f"{scratch}/doctrees", str(source), str(target)]
        code = subprocess.run([*command, *places], check=False).returncode
    if code == 0:
        print(f"{len(pages)} pages in {target}")  # noqa: T201
    return code


def _page_of(link: re.Match[str]) -> str:
    r"""Return a link to the page that is made of a source, in place of one to the source.

    >>> re.sub(r"\]\((?:\.\./)+([^)#]+)", _page_of, "[x](../scorer/metrics.py)")
    '[x](metrics.md)'
    """
    return f"]({MADE_OF[link[1]]}" if link[1] in MADE_OF else link[0]


def generated() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each generated file."""
    for kind, plugins in (("filter", FILTERS), ("score", SCORES)):
        listed = sorted(plugins, key=lambda each: each.name)
        yield (
            f"{kind}s.md",
            f"{reference_pages.index(listed, kind)}\n```{{toctree}}\n:glob:\n:hidden:\n{kind}s/*\n```\n",
        )
        for plugin in plugins:
            yield f"{kind}s/{plugin.name}.md", reference_pages.page(plugin, kind)
            if shape := SHAPES.get(plugin.name):
                lines = drawn(plugin, shape, is_filter=kind == "filter")
                yield f"pictures/{kind}-{plugin.name}.svg", picture(shape, lines, is_filter=kind == "filter")
    yield "profiles.md", reference_pages.profiles()
    yield "rpc.md", rpc_page.page()
    yield "commands.md", reference_pages.commands()
    yield "metrics.md", reference_pages.metrics()
    yield "site.css", STYLE


def navigation(pages: Iterable[str]) -> str:
    r"""Return the tables of contents, for the end of the first page; pages outside of the order follow at the end.

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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
