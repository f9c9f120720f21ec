"""The blocks of code on the pages: Python and data are run here, shell by `tests.ops.test_lines` against a stack."""

import json
import tomllib
from pathlib import Path

import pytest
import yaml
from sybil import Sybil
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser

from tests.ops.code_blocks import BLOCKS, MARKED, PAGES, ROOT

LANGUAGES = {"python", "sh", "json", "toml", "yaml", ""}
MARKED_MAX = 16
"""So many blocks of shell are not run at most; two of them are, by `tests/integration/security/test_rotation.py`."""


def documents():
    """Return the pages with a block of Python or of data, parsed."""
    sybil = Sybil(
        parsers=[
            PythonCodeBlockParser(),
            CodeBlockParser("toml", _toml),
            CodeBlockParser("json", _json),
            CodeBlockParser("yaml", _yaml),
        ]
    )
    parsed = [sybil.parse(page) for page in PAGES if page.parent.name != "client"]  # `make packages` runs the client
    return [document for document in parsed if list(document.examples())]


def _toml(example):
    tomllib.loads(example.parsed)


def _json(example):
    json.loads(example.parsed)


def _yaml(example):
    yaml.safe_load(example.parsed)


DOCUMENTS = documents()


@pytest.mark.parametrize("document", DOCUMENTS, ids=[Path(each.path).name for each in DOCUMENTS])
def test_python_and_data_on_a_page_hold(document):
    """Each example gives what the page says; later ones go on from earlier ones."""
    for example in document.examples():
        example.evaluate()


def test_every_block_is_of_a_language_that_is_checked():
    for block in BLOCKS:
        assert block.language in LANGUAGES, f"{block.page}: {block.language}"


def test_the_blocks_that_are_not_run_are_counted():
    """Those that need Docker, root or a cluster; `.ci/run` prints their number."""
    assert 0 < len(MARKED) <= MARKED_MAX


def test_every_page_says_how_to_verify_it():
    pages = [page for page in PAGES if page.parent == ROOT / "docs"]
    assert len(pages) > 20
    assert [page.name for page in pages if "Verify" not in page.read_text()] == []
