"""Draws prose to be read by somebody who knows the field and not the project.

    python -m tests.drawn_prose --seed 1     # forty docstrings, twenty paragraphs of the pages

At most two of them may need a second reading. Mend what does, its like elsewhere too, and draw again with another seed.
"""

import argparse
import ast
import random
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
WORDS_MIN = 6
"""Shorter texts say nothing that could be misread."""


def docstrings():
    """Yield the place and the text of each docstring of the product."""
    for path in sorted(
        path for folder in ("schemas", "streams", "scorer", "ops") for path in (ROOT / folder).rglob("*.py")
    ):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}", ast.get_docstring(node) or ""


def paragraphs():
    """Yield the place and the text of each paragraph of the pages, without tables and code."""
    for path in sorted((ROOT / "docs").glob("*.md")):
        text = re.sub(r"```.*?```|<!--.*?-->", "", path.read_text(), flags=re.DOTALL)
        for part in re.split(r"\n\s*\n", text):
            if not part.lstrip().startswith(("|", "#", "!", "    ", "**all", "**the")):
                yield path.name, part.strip()


def main(argv):
    parser = argparse.ArgumentParser(prog="python -m tests.drawn_prose")
    parser.add_argument("--seed", type=int, required=True)
    dice = random.Random(parser.parse_args(argv).seed)
    for texts, count in ((docstrings(), 40), (paragraphs(), 20)):
        long = [(place, text) for place, text in texts if len(text.split()) >= WORDS_MIN]
        for place, text in dice.sample(long, count):
            print(f"--- {place}\n{text}\n")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
