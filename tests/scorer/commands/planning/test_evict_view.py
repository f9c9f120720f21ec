"""``windward drain --evict`` on a fleet file: what it says, and what it refuses."""

from __future__ import annotations

import json

import pytest

from ops.cli.main import main

FILES = ("--profile", "docs/examples/classes.toml", "--fleet-file", "docs/examples/classes.json")


def test_it_says_who_leaves_and_why(capsys: pytest.CaptureFixture[str]) -> None:
    """A table for people, all of it as JSON."""
    assert main(["drain", "--evict", *FILES]) == 0
    shown = capsys.readouterr().out
    assert "trial  free   busy  calm  cpu of batch and free is 3.40 too much" in shown
    assert "2 should leave; machines above a sum: 1; 2 machines, 5 instances, profile classes" in shown
    assert main(["drain", "--evict", *FILES, "--json", "--evictions-max", "1"]) == 0
    (eviction,) = json.loads(capsys.readouterr().out)["evictions"]
    assert (eviction["id"], eviction["class"], eviction["target"]) == ("trial", "free", "calm")


def test_a_profile_with_one_sum_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """The message names the setting to change."""
    assert main(["drain", "--evict", "--fleet-file", FILES[-1]]) == 2
    assert "profile: windward counts all classes together; give `fits` a table `classes`" in capsys.readouterr().err


@pytest.mark.parametrize("more", [["busy"], ["--consolidate", "1"], ["--apply"], ["--force"], ["--wait"], ["--undo"]])
def test_it_looks_at_all_machines_and_only_prints(more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """What chooses machines or changes something is refused beside it."""
    assert main(["drain", "--evict", *more]) == 2
    assert "evict: looks at all machines and only prints" in capsys.readouterr().err
