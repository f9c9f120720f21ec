"""The words of the code: short sentences, and one word for one thing (docs/glossary.md).

Read are the docstrings of all modules, and the texts of the Lua scripts. Formulas, tables, aligned columns, lists and
examples in them are no sentences.
"""

import ast
import inspect
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("scorer", "streams", "schemas", "ops")
WORDS_MAX = 30

LEFT_OUT = {
    "newcomer": "requested instance, or new instance",
    "everybody": "all machines, or the name of the rest",
    "somebody": "the program or person that is meant",
    "anybody": "the program or person that is meant",
    "nobody": "the program or person that is meant",
    "whoever": "the program or person that is meant",
    "reckoned": "computed",
    "operators say": "operators' rules",
    "operators said": "operators' rules",
    "on end": "in a row",
}
"""Words that the glossary replaces, or that name nothing, and what is written in their place."""

_CODE = re.compile(r"``.+?``|`[^`]*`", re.DOTALL)
_SETTING = re.compile(r"^[a-z_, ]+:$")
"""The name of a setting in a plugin's docstring, on a line of its own."""
_COLUMNS = re.compile(r"\S {2,}\S|^\s*\||^\s*[-*] |^\s*>>> ")
_END = re.compile(r"(?<=[.!?:;])\s+")


@cache
def docstrings():
    """Return file, line and text of each docstring, those of attributes too."""
    found = []
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            name = str(path.relative_to(ROOT))
            for node in ast.walk(ast.parse(path.read_text())):
                body = getattr(node, "body", None)
                for each in body if isinstance(body, list) else ():
                    text = each.value if isinstance(each, ast.Expr) else None
                    if isinstance(text, ast.Constant) and isinstance(text.value, str):
                        found.append((name, each.lineno, inspect.cleandoc(text.value)))
    return found


def sentences(text):
    r"""Yield the sentences of a docstring; what stands in backticks counts as one word.

    >>> list(sentences("One `a b` two. Three:\n\n    x = 1\n\nname   meaning\nFour."))
    ['One X two.', 'Three:', 'Four.']
    """
    for paragraph in re.split(r"\n\s*\n", text):
        lines = [_CODE.sub("X", line) for line in _CODE.sub("X", paragraph).splitlines()]
        if lines[0].startswith("    "):
            continue
        plain = " ".join("" if _COLUMNS.search(line) else line.strip() for line in lines)
        yield from (each.strip() for each in _END.split(plain) if each.strip())


def left_out(text):
    """Return the words of a text that have another one in their place.

    >>> left_out("Somebody adds a `newcomer`."), left_out("newcomer:")
    (['somebody'], [])
    """
    plain = " ".join(line for line in _CODE.sub("X", text).lower().splitlines() if not _SETTING.match(line.strip()))
    return [word for word in LEFT_OUT if re.search(rf"\b{word}s?\b", plain)]


@pytest.mark.parametrize("package", PACKAGES)
def test_a_sentence_is_short(package):
    long = [
        f"{name}:{line}: {len(sentence.split())} words: {sentence}"
        for name, line, text in docstrings()
        if name.startswith(f"{package}/")
        for sentence in sentences(text)
        if len(sentence.split()) > WORDS_MAX
    ]
    assert not long, "\n".join(long)


@pytest.mark.parametrize("package", PACKAGES)
def test_one_word_for_one_thing(package):
    texts = [(f"{name}:{line}", text) for name, line, text in docstrings() if name.startswith(f"{package}/")]
    scripts = sorted((ROOT / package).rglob("*.lua"))
    texts += [(f"{path.relative_to(ROOT)}", path.read_text()) for path in scripts]
    found = [f"{at}: {word}: write {LEFT_OUT[word]}" for at, text in texts for word in left_out(text)]
    assert not found, "\n".join(found)


def test_one_word_for_one_thing_in_documents():
    """README and the pages of `docs`, but the glossary, which has the older words in its last table."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    texts = {page.name: page.read_text() for page in pages if page.name != "glossary.md"}
    found = [f"{name}: {word}: write {LEFT_OUT[word]}" for name, text in texts.items() for word in left_out(text)]
    assert len(texts) > 10
    assert not found, "\n".join(found)


def test_the_docstrings_are_read():
    """The rules above would hold of an empty list, too."""
    assert len(docstrings()) > 4_000
    assert max(len(sentence.split()) for _, _, text in docstrings() for sentence in sentences(text)) > WORDS_MAX - 10
