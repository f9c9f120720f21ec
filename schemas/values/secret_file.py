"""A secret in a file, read again for each new connection: so a password is rotated without a restart.

Rejected: a watch on the file, and a signal. Both need a moment at which file and server change together. A connection
that is refused is opened again anyway, by every process.
"""

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

BYTES_MAX = 65_536


class SecretFile(str):
    """The text of a file at its first reading; `now` is its present text.

    >>> from tempfile import NamedTemporaryFile
    >>> with NamedTemporaryFile() as file:
    ...     path, seen = Path(file.name), []
    ...     for text in ("old", "new", ""):
    ...         _ = path.write_text(text)
    ...         secret = secret if seen else SecretFile.read(path)
    ...         seen.append(secret.now)
    >>> seen
    ['old', 'new', 'new']
    """

    path: Path
    last: str
    """The text that it had when it was last read."""

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file; raises OSError, or ValueError for one that holds no secret."""
        with path.open("rb") as file:
            raw = file.read(BYTES_MAX + 1)
        if len(raw) > BYTES_MAX:
            raise ValueError(f"the file holds more than {BYTES_MAX} bytes")
        try:
            found = cls(raw.decode().rstrip("\r\n"))
        except UnicodeDecodeError:
            raise ValueError("the file is not UTF-8 text") from None
        found.path, found.last = path, str(found)
        return found

    @property
    def now(self) -> str:
        """The present secret; the last known one while the file is missing or empty, as during a change."""
        with contextlib.suppress(OSError, ValueError):
            self.last = str(self.read(self.path)) or self.last
        return self.last


@dataclass(frozen=True)
class Login:
    """User and password of a connection; redis-py calls it when it opens one."""

    username: str
    password: str

    def get_credentials(self) -> tuple[str, ...]:
        """Return the arguments of AUTH."""
        password = self.password.now if isinstance(self.password, SecretFile) else self.password
        return (self.username, password) if self.username else (password,)

    async def get_credentials_async(self) -> tuple[str, ...]:
        """Return user and password as the sync method does; reading a small file does not block for long."""
        return self.get_credentials()


def rereading(client: Any) -> Any:
    """Return a client of redis-py that reads the password's file, if there is one, for each new connection."""
    arguments = client.connection_pool.connection_kwargs
    if isinstance(arguments.get("password"), SecretFile):
        arguments["credential_provider"] = Login(arguments.pop("username", None) or "", arguments.pop("password"))
    return client
