"""The build backend of `windward`: what it drops, replaces and adds in a wheel that setuptools made."""

import sysconfig
import tomllib
import zipfile
from pathlib import Path

from ops.packages import backend
from ops.packages.compiler import KERNEL, LIBRARY

ROOT = Path(__file__).parents[3]
PROJECTS = {
    name: tomllib.loads((ROOT / folder / "pyproject.toml").read_text())
    for name, folder in (
        ("windward", "."), ("windward-agent", "ops/packages/agent"), ("windward-client", "ops/packages/client"),
    )
}  # fmt: skip
METADATA = "w-1.dist-info/METADATA"
RECORD = "w-1.dist-info/RECORD"


def wheel(folder, files):
    path = folder / "w-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as whole:
        for name, content in files.items():
            whole.writestr(name, content)
        whole.writestr(RECORD, "".join(",".join(backend.record_row(*one)) + "\n" for one in files.items()))
    return path


def content(path):
    with zipfile.ZipFile(path) as whole:
        assert whole.testzip() is None
        return {name: whole.read(name) for name in whole.namelist()}


def test_a_published_wheel_leaves_out_what_the_others_hold(tmp_path):
    """Files of the agent are gone, the client is another name of the other's, and the record tells of what is left."""
    names = (
        "schemas/messages/sample.py",
        "streams/__init__.py",
        "streams/agent/__main__.py",
        "streams/worker/app.py",
        "scorer/client/__init__.py",
        "scorer/client/call.py",
    )
    path = wheel(tmp_path, dict.fromkeys((*names, METADATA), b"x"))
    backend.rewrite(path, backend.published)
    files = content(path)
    assert set(files) == {"streams/worker/app.py", "scorer/client/__init__.py", METADATA, RECORD}
    assert b"windward_client" in files["scorer/client/__init__.py"]
    expected = [",".join(backend.record_row(name, files[name])) for name in files if name != RECORD] + [f"{RECORD},,"]
    assert sorted(files[RECORD].decode().splitlines()) == sorted(expected)


def test_a_wheel_of_a_platform_has_its_library_and_its_tag(tmp_path):
    assert str(KERNEL / LIBRARY) == backend.COMPILED
    said = b"Root-Is-Purelib: true\nTag: py3-none-any\n"
    plain = wheel(tmp_path, {backend.COMPILED: b"of this machine", "w-1.dist-info/WHEEL": said})
    of_one = backend.of_platform(plain, b"of one", "linux_x86_64")
    found = backend.of_platform(of_one, b"of another", "musllinux_1_2_aarch64")
    assert found.name == "w-1-py3-none-musllinux_1_2_aarch64.whl"
    assert content(found)[backend.COMPILED] == b"of another"
    assert content(found)["w-1.dist-info/WHEEL"] == b"Root-Is-Purelib: false\nTag: py3-none-musllinux_1_2_aarch64\n"
    assert content(of_one)[backend.COMPILED] == b"of one"


def test_a_checkout_requires_no_sibling_and_has_the_client(tmp_path):
    """Only those two requirements are gone; the module of the client is there."""
    metadata = b"Name: windward\nRequires-Dist: windward-agent==0.1.0\nRequires-Dist: redis<9\n"
    path = wheel(tmp_path, {METADATA: metadata, "finder.py": b""})
    backend.rewrite(path, backend.without_siblings, backend.ADDED_TO_CHECKOUT)
    files = content(path)
    assert files[METADATA] == b"Name: windward\nRequires-Dist: redis<9\n"
    assert b"import scorer.client" in files["windward_client/__init__.py"]


def test_a_checkout_is_a_folder_on_the_path():
    """Editors and type checkers read that, and no import hook; what they find there says that it has types."""
    (found,) = Path(sysconfig.get_path("purelib")).glob("__editable__.windward-*.pth")
    assert found.read_text().split() == [str(ROOT)]
    for folder in ("scorer", "schemas"):
        assert (ROOT / folder / "py.typed").is_file()


def test_an_extra_of_ours_is_no_sibling():
    line = b'Requires-Dist: windward[stream]; extra == "local"\n'
    assert backend.without_siblings(METADATA, line) == line


def test_what_one_leaves_out_the_other_holds():
    """The backend drops what the agent's project takes in, and it requires both at its own version."""
    taken = PROJECTS["windward-agent"]["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert {name.rstrip("/") for name in backend.HELD_BY_AGENT} == set(taken.values())
    version = PROJECTS["windward"]["project"]["version"]
    for sibling in ("windward-agent", "windward-client"):
        assert PROJECTS[sibling]["project"]["version"] == version
        assert f"{sibling}=={version}" in PROJECTS["windward"]["project"]["dependencies"]


def test_the_distributions_agree_on_what_they_need():
    """A package that two of them require has the same bounds in both."""
    bounds = {}
    for project in PROJECTS.values():
        for line in project["project"]["dependencies"]:
            plain = line.replace("[hiredis]", "")
            assert bounds.setdefault(plain.split(">")[0].split("=")[0], plain) == plain


def test_the_client_needs_two_packages():
    lines = PROJECTS["windward-client"]["project"]["dependencies"]
    assert sorted(line.split(">")[0] for line in lines) == ["msgspec", "redis"]
