"""``python -m ops.manual``: write man pages and completions beside this module; a test checks that they are current.

They are kept as files, as the JSON Schemas are: to make them when a wheel is built would need every package that any
command imports. The files of the agent's wheel are in ``agent/``. Shell.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import shtab

from ops.manual import pages, tree
from schemas.process.flags import Parser

HERE = Path(__file__).parent
AGENT = "windward-agent"
PLACES = {"bash": "bash/{}", "zsh": "zsh/_{}", "fish": "fish/{}.fish"}
"""Where a shell looks for the completion of a command, below its own folder."""


def files() -> dict[str, str]:
    """Return the text of every file by its path below this folder."""
    found = {f"man/{name}": text for name, text in pages.pages().items()}
    found[f"agent/man/{AGENT}.1"] = found.pop(f"man/{AGENT}.1")
    agent = tree.command("agent")
    agent.prog = AGENT
    for folder, name, parser in (("", "windward", tree.whole()), ("agent/", AGENT, agent)):
        for shell, place in PLACES.items():
            found[f"{folder}{place.format(name)}"] = completion(parser, shell)
    return found


def completion(parser: Parser, shell: str) -> str:
    """Return a shell's completion of a command."""
    text = str(shtab.complete(parser, shell=shell))
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def main() -> int:
    """Replace the files."""
    for name in ("man", "bash", "zsh", "fish", "agent"):
        shutil.rmtree(HERE / name, ignore_errors=True)
    for name, text in files().items():
        path = HERE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
