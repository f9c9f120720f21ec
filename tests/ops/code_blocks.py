"""The blocks of code on the pages of documentation, and which of them cannot be run here."""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
_FOLDERS = ("docs/*.md", "docs/results/*.md", "ops/packages/*/README.md")
PAGES = [ROOT / "README.md", *(page for pattern in _FOLDERS for page in sorted(ROOT.glob(pattern)))]
FENCE = re.compile(r"^ *```(\S*)[^\n]*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
NEEDS = re.compile(r"# needs (Docker|root|a cluster)\b")


class Block(NamedTuple):
    """One block: its page, its language, its lines."""

    page: str
    language: str
    code: str

    @property
    def is_marked(self):
        """Whether its first line says that it needs Docker, root or a cluster."""
        return bool(NEEDS.match(self.code))


BLOCKS = [
    Block(str(page.relative_to(ROOT)), language, code)
    for page in PAGES
    for language, code in FENCE.findall(page.read_text())
]
SHELL = [block for block in BLOCKS if block.language == "sh" and not block.page.startswith("ops/packages/")]
"""Those of the packages' own pages are run where the packages are installed: `make packages`."""
MARKED = [block for block in SHELL if block.is_marked]
RUN = [block for block in SHELL if not block.is_marked]
