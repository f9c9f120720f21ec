"""The pages of a process on this host; and waiting for what becomes true."""

import time
import urllib.error
import urllib.request


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


def eventually(check, wait_s=60.0):
    deadline = time.monotonic() + wait_s
    while not (found := check()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)
    return found
