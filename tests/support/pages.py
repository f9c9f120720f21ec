"""The pages of a process on this host, a server of a test's own, and waiting for what becomes true."""

import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from contextlib import contextmanager

from ops.stack.servers.process import LOOPBACK, LocalProcess, free_port
from ops.stack.stack import listens


def get(where, path=""):
    """Return status and text of a page, by its URL or by port and path; 0 and nothing while nobody answers."""
    url = f"http://127.0.0.1:{where}{path}" if isinstance(where, int) else where
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except OSError:
        return 0, ""


@contextmanager
def process_with_pages(name, url, *flags, environ=None):
    """Run a command on a server; yields the process and the address of its pages."""
    port = free_port()
    command = [sys.executable, "-P", "-m", "ops.cli.main", name, "--redis-url", url]
    command += ["--metrics-port", str(port), *flags]
    with LocalProcess(name, command, environ=environ, ready=lambda: listens(port)) as process:
        yield process, f"http://{LOOPBACK}:{port}"


def eventually(check, wait_s=60.0):
    deadline = time.monotonic() + wait_s
    while not (found := check()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)
    return found


def certificate(folder):
    """Return the files of a new certificate for loopback and its key."""
    cert, key = str(folder / "cert.pem"), str(folder / "key.pem")
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    more = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert]
    subprocess.run([*command.split(), *more], check=True, capture_output=True)
    return cert, key


class Answering:
    """What handlers share: connections stay open, an answer has a length, nothing is logged."""

    protocol_version = "HTTP/1.1"

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@contextmanager
def serving(server):
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
