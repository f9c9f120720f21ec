"""Completions: complete, and what bash completes by them."""

import functools
import os
import re
import subprocess

import pytest

from ops.completions import __main__ as completions

FILES = functools.cache(completions.files)
COMPLETE = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
"_shtab_${1//-/_}_asked"
echo "${COMPREPLY[@]}"
"""


def test_each_program_has_its_completions(tmp_path):
    """Where the shells look, below the folder that is named; no file is in two distributions."""
    assert completions.main([str(tmp_path)]) == 0
    written = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    places = {
        place.format(program) for program in ("windward", "windward-agent") for place in completions.PLACES.values()
    }
    assert written == places
    assert {"share/zsh/site-functions/_windward", "share/fish/vendor_completions.d/windward-agent.fish"} <= places
    assert sum(map(len, FILES().values())) == len(written)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("windward plac", "place"),
        ("windward machines co", "cordon"),
        ("windward place --best", "--best-effort"),
        ("windward machines list --sort ag", "age"),
        ("windward bridge t", "telegraf"),
        ("windward place --redis-pass", ""),
        ("windward place --priority-class b", "batch"),
        ("windward instances list --machine m", "m1 m2"),
        ("windward instances --machine m", "m1 m2"),
        ("windward instances --wat", "--watch"),
        ("windward machines --sort ag", "age"),
        ("windward machines cordon m1 m", "m1 m2"),
        ("windward plan comp", "completions"),
        ("windward config check comp", "completions"),
        ("windward drain x", "x-machine"),
        ("windward release db", "db-1"),
        ("windward events db", "db-1"),
        ("windward instances import db", ""),
        ("windward place --profile mi", "mine"),
        ("windward profiles show mi", "mine"),
        ("windward place --machine = x", "x-machine"),
        ("windward place --machine =", "m1 m2 x-machine"),
        ("windward place --machine=x", "--machine=x-machine"),
        ("windward place --priority-class = b --machine = x", "x-machine"),
        ("windward machines label m1 rack = a m", "m1 m2"),
        ("windward rank --explain m", "m1 m2"),
        ("windward scorer --profile = m", "mine"),
        ("windward config show planner", "planner"),
        ("windward-agent --machine m", ""),
        ("windward-agent --dry", "--dry-run"),
    ],
)
def test_bash_completes(words, expected, tmp_path):
    """Commands, subcommands, flags, values of a choice, names; a secret has no flag, an agent asks for no names.

    An equals sign is a word of its own, as bash gives it, unless COMP_WORDBREAKS was set to leave it out.
    """
    name = words.partition(" ")[0]
    known = "case $1 in machines) echo m1 m2 x-machine ;; instances) echo db-1 x-1 ;; profiles) echo mine ;; esac"
    (tmp_path / "windward").write_text(f"#!/bin/sh\n{known}\n")
    (tmp_path / "windward").chmod(0o755)
    file = tmp_path / "completions"
    file.write_text(FILES()[name][f"share/bash-completion/completions/{name}"])
    done = subprocess.run(
        ["bash", "-c", COMPLETE, "bash", str(file), *words.split()],
        check=True, capture_output=True, text=True, cwd=tmp_path,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )  # fmt: skip
    assert done.stdout.split() == expected.split()
    assert done.stderr == ""


def test_zsh_completes_a_value_after_an_equals_sign():
    text = FILES()["windward"]["share/zsh/site-functions/_windward"]
    assert '"--machine=[the only machine it may go to]:MACHINE:_windward_machines"' in text
    assert '"--dry-run[reserve nothing]"' in text
    assert re.search(r'"--[\w-]+\[.*]:[A-Z]', text) is None
