"""What `windward up` says when everything is ready."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ops.stack.up import UpSettings, announce


@pytest.mark.parametrize(
    ("url", "prefix", "flags"),
    [
        ("redis://127.0.0.1:6379/0", "windward", ""),
        ("redis://127.0.0.1:7000/0", "windward", " --redis-url redis://127.0.0.1:7000/0"),
        ("redis://127.0.0.1:6379/0", "south", " --prefix south"),
    ],
)
def test_the_command_to_try_next_reaches_this_stack(
    url: str, prefix: str, flags: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the flags that it needs, and no others."""
    stack: Any = SimpleNamespace(redis_url=url, rows=lambda: [("Kafka", "127.0.0.1:9092", "")])
    announce(stack, UpSettings(prefix=prefix), "")
    assert f"ready: windward place --cpu 2 --memory 10G{flags}   (" in capsys.readouterr().out
