"""``windward-agent``: the agent as a separate command, for machines with nothing else of Windward."""

import io
import os
import sys
from contextlib import redirect_stdout, suppress

from schemas.process.settings import SettingsError
from schemas.process.version import product_version


def main() -> int:
    """Run the agent with the process's arguments; the exit codes are those of `windward agent`."""
    from streams.agent.__main__ import main as run

    if sys.argv[1:] == ["--version"]:
        print(product_version())  # noqa: T201
        return 0
    try:
        if {"-h", "--help"} & {*sys.argv[1:]}:
            return _help()
        return run(sys.argv[1:], os.environ)
    except SettingsError as error:
        print(f"windward-agent: {error}", file=sys.stderr)  # noqa: T201
        return 2
    except KeyboardInterrupt:
        return 130


def _help() -> int:
    """Print the help of `windward agent` with the name of this command; return the exit code."""
    from streams.agent.__main__ import main as run

    text = io.StringIO()
    with redirect_stdout(text), suppress(SystemExit):
        run(["--help"], {})
    sys.stdout.write(text.getvalue().replace("windward agent", "windward-agent"))
    return 0
