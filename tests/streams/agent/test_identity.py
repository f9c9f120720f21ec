"""Who a machine is."""

from __future__ import annotations

import pytest

from streams.agent.identity import machine_id, read_machine_id


@pytest.mark.parametrize(
    ("configured", "full_name", "machine_id_text", "found"),
    [
        pytest.param("db1", "host.example.com", "3d12\n", "db1", id="configured"),
        pytest.param(None, "host.example.com", "3d12\n", "host.example.com", id="full host name"),
        pytest.param(None, "host", "3d12\n", "3d12", id="a bare name is not full"),
        pytest.param(None, "localhost.localdomain", "3d12\n", "3d12", id="localhost is nobody"),
        pytest.param(None, "localhost", "3d12\n", "3d12", id="nor without domain"),
        pytest.param(None, "host", "", "host", id="a bare name is better than none"),
        pytest.param(None, "host", " \n", "host", id="an empty file"),
    ],
)
def test_machine_id(configured: str | None, full_name: str, machine_id_text: str, found: str):
    """The configured name, else the full host name, else the machine id, else the bare host name."""
    assert machine_id(configured, full_name, machine_id_text) == found


@pytest.mark.parametrize("full_name", ["localhost", "localhost.localdomain", ""])
def test_a_machine_without_any_name_is_refused(full_name: str):
    """The error names the setting."""
    with pytest.raises(ValueError, match=r"^machine: "):
        machine_id(None, full_name, "")


def test_this_machine_has_an_id():
    """It is the same every time."""
    assert read_machine_id(None) == read_machine_id(None) != ""
    assert read_machine_id("db1") == "db1"
