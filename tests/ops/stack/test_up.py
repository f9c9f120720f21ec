"""What `windward up` says when everything is ready."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ops.stack.stack import Stack
from ops.stack.up import UpSettings, announce
from schemas.process.settings import load_settings


@pytest.mark.parametrize(
    ("url", "prefix", "variables"),
    [
        ("redis://127.0.0.1:6379/0", "windward", ""),
        ("redis://127.0.0.1:7000/0", "windward", "WINDWARD_REDIS_URL=redis://127.0.0.1:7000/0"),
        ("redis://127.0.0.1:6379/0", "south", "WINDWARD_PREFIX=south"),
    ],
)
def test_the_command_to_try_next_reaches_this_stack(
    url: str, prefix: str, variables: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the variables that it needs, which `windward doctor` needs too, and no others."""
    stack: Any = SimpleNamespace(redis_url=url, kafka="127.0.0.1:9092", rows=lambda: [("Kafka", "127.0.0.1:9092", "")])
    announce(stack, UpSettings(prefix=prefix), "")
    said = capsys.readouterr().out
    assert "ready: windward place --cpu 2 --memory 10G   (" in said
    assert [line for line in said.splitlines() if "export" in line] == [f"first: export {variables}"] * bool(variables)


def test_the_environment_says_whom_one_asks_and_not_whom_one_feeds(tmp_path: Path) -> None:
    """Only a flag, or the table of `up`, names servers; those started here have neither user nor SASL."""
    file = tmp_path / "settings.toml"
    file.write_text('[all]\nredis_url = "redis://fleet/0"\nkafka = "fleet:1"\nwindows_url = "redis://fleet/1"\n')
    asked = {"WINDWARD_REDIS_URL": "redis://fleet/0", "WINDWARD_LEDGER_URL": "redis://fleet/2"}
    asked |= {"WINDWARD_KAFKA": "fleet:1", "WINDWARD_CONFIG": str(file), "WINDWARD_REDIS_USERNAME": "operator"}
    own = Stack(load_settings(UpSettings, "up", [], asked), asked)
    assert (own.settings.kafka, own.settings.redis_url, own.settings.windows_url) == ("", "", "")
    reached = [own.environ[f"WINDWARD_{name}"] for name in ("LEDGER_URL", "WINDOWS_URL", "REDIS_USERNAME")]
    assert reached == ["", "", ""]
    given = load_settings(UpSettings, "up", ["--redis-url", "redis://here/0"], asked)
    assert (Stack(given, asked).settings.redis_username, given.redis_url) == ("operator", "redis://here/0")
    file.write_text('[up]\nkafka = "here:1"\n')
    assert load_settings(UpSettings, "up", [], asked).kafka == "here:1"
