"""The published archives of Apache Kafka, fetched once by Maven into a folder of the user's cache."""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from xml.etree import ElementTree

from ops.stack.servers.process import LocalError

POM = Path(__file__).with_name("pom.xml")
JAVA_MAJOR = 17
"""The oldest Java that Kafka 4 servers run on."""

FETCH_DEADLINE_S = 600


def kafka_version():
    """Return the version the pom names.

    >>> kafka_version().split(".")[0]
    '4'
    """
    found = ElementTree.parse(POM).find(".//{*}kafka.version")
    if found is None or not found.text:
        raise LocalError(f"{POM} names no kafka.version")
    return found.text


def missing_tools():
    """Return which tool for Apache Kafka is missing on this machine; "" when none is."""
    if not shutil.which("java"):
        return f"no java on the PATH; Apache Kafka needs Java {JAVA_MAJOR} or newer"
    said = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', said)
    if not version or int(version[1]) < JAVA_MAJOR:
        return f"java is {version[1] if version else 'of an unknown version'}; Apache Kafka needs {JAVA_MAJOR} or newer"
    if not archives_folder(os.environ).is_dir() and not shutil.which("mvn"):
        return "no mvn on the PATH to fetch the archives of Apache Kafka with"
    return ""


def archives_folder(environ):
    """Return where the archives of this version are kept."""
    cache = environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME", "/tmp")) / ".cache"
    return Path(cache) / "windward" / f"kafka-{kafka_version()}"


def fetch_archives():
    """Return the folder with the archives, fetching them when they are not there yet.

    They are copied to a folder beside it and then moved, so that an interrupted fetch leaves no incomplete folder.
    Raises LocalError naming the missing tool or Maven's error.
    """
    if missing := missing_tools():
        raise LocalError(missing)
    folder = archives_folder(os.environ)
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        copied = Path(scratch) / "archives"
        maven = ["mvn", "-q", "-B", "-f", str(POM), "dependency:copy-dependencies", "-DincludeScope=runtime"]
        try:
            done = subprocess.run(
                [*maven, f"-DoutputDirectory={copied}"],
                capture_output=True,
                text=True,
                check=False,
                timeout=FETCH_DEADLINE_S,
            )
        except subprocess.TimeoutExpired:
            raise LocalError(f"Maven has not fetched Apache Kafka within {FETCH_DEADLINE_S} s") from None
        if done.returncode != 0:
            raise LocalError(f"Maven could not fetch Apache Kafka: {done.stdout[-1000:]}")
        try:
            copied.rename(folder)
        except OSError:
            if not folder.is_dir():  # not another process that was faster
                raise
    return folder
