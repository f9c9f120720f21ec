"""The client by itself."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from scorer import client as client_module
from scorer.client import AsyncClient, Client, WindwardError


def test_it_imports_nothing_of_ours(tmp_path: Path) -> None:
    """The file alone, copied to an empty folder, is a working module: it needs redis and msgspec only."""
    source = Path(client_module.__file__).read_text()
    imported = {
        name.name.split(".")[0] if isinstance(node, ast.Import) else (node.module or "").split(".")[0]
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in node.names
    }
    assert imported - set(sys.stdlib_module_names) == {"redis", "msgspec"}
    (tmp_path / "windward_client.py").write_text(source)
    refuse = "sys.modules.update(dict.fromkeys(['schemas', 'streams', 'scorer', 'ops']))"
    code = f"import sys; {refuse}; sys.path.insert(0, {str(tmp_path)!r}); import windward_client"
    assert subprocess.run([sys.executable, "-I", "-c", code], check=False, cwd=tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("options", "word"),
    [({"timeout_s": 0}, "timeout_s"), ({"timeout_s": -1}, "timeout_s"), ({"query_id": "a b"}, "query_id"),
     ({"query_id": "x" * 129}, "query_id"), ({"params": {"cpu": object()}}, "params")],
)  # fmt: skip
def test_wrong_calls_are_refused_before_anything_is_sent(options: dict[str, object], word: str) -> None:
    """A wrong timeout, query id or parameter is INVALID_ARGUMENT at once, without a server."""
    with Client("redis://127.0.0.1:1/0") as client, pytest.raises(WindwardError) as refused:
        client.call("health", **({"params": {}} | options))  # type: ignore[arg-type]
    assert refused.value.code == "INVALID_ARGUMENT"
    assert word in refused.value.message


@pytest.mark.parametrize("url", ["redis+sentinel://u:secret@h:1/main", "redis+cluster://h:7000", "u:secret@h:6379"])
def test_sentinels_and_clusters_are_refused_by_name(url: str) -> None:
    """A URL that names no single server is INVALID_ARGUMENT, without its credentials."""
    for kind in (Client, AsyncClient):
        with pytest.raises(WindwardError, match="a sentinel or cluster is not supported") as refused:
            kind(url)
        assert refused.value.code == "INVALID_ARGUMENT"
        assert "secret" not in str(refused.value)


def test_a_password_is_not_shown() -> None:
    """Messages name the server without the credentials of its URL."""
    with Client("redis://user:secret@127.0.0.1:1/0", timeout_s=0.1) as client, pytest.raises(WindwardError) as away:
        client.health()
    assert "secret" not in str(away.value)
    assert "127.0.0.1:1" in str(away.value)
