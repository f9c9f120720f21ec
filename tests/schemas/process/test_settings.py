"""Settings: what wins, what is refused, and that a refusal is one line with the setting and its source."""

from dataclasses import dataclass
from typing import Annotated, Literal

import pytest
from msgspec import Meta

from schemas.process.settings import SettingsError, flag, load_settings, setting


@dataclass(frozen=True, kw_only=True)
class Example:
    """What the help of a program says first."""

    interval_s: Annotated[float, Meta(ge=10)] = setting(10.0, "seconds; 100% plain")
    count: Annotated[int, Meta(ge=0, le=100)] = setting(1, "how many")
    kind: Literal["a", "b"] = setting("a", "which")
    name: str | None = setting(None, "a name")
    loud: bool = setting(False, "say more")
    windows_s: tuple[int, ...] = setting((300, 900), "windows")
    labels: dict[str, str] = setting({}, "labels")
    high: dict[str, float] = setting({}, "per cent")
    password: str | None = setting(None, "a secret", secret=True)

    def __post_init__(self):
        if list(self.windows_s) != sorted(self.windows_s):
            raise ValueError(f"windows_s: expected an ascending list, got {list(self.windows_s)}")
        if self.kind == "b" and self.password is None:
            raise ValueError("password is required with kind b")


@dataclass(frozen=True, kw_only=True)
class Positional:
    file: str = setting(help="a file", positional=True, metavar="FILE")
    top: int = setting(5, "how many")


@dataclass(frozen=True, kw_only=True)
class Words:
    words: tuple[str, ...] = setting((), "what to do", positional=True)


@dataclass(frozen=True, kw_only=True)
class Required:
    url: str = setting(help="where")


def load(argv=None, environ=None, config=None):
    flags = ["--config", str(config), *(argv or [])] if config else argv or []
    return load_settings(Example, "example", flags, environ or {})


def file(directory, text):
    path = directory / "windward.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_defaults_hold_when_nothing_is_said():
    assert load() == Example()
    assert load().labels is not load().labels


LAYERS = [
    ("default", None, None, None, 1),
    ("[all] over the default", "[all]\ncount = 2", None, None, 2),
    ("the command's table over [all]", "[all]\ncount = 2\n[example]\ncount = 3", None, None, 3),
    ("whatever their order", "[example]\ncount = 3\n[all]\ncount = 2", None, None, 3),
    ("the environment over the file", "[example]\ncount = 3", "4", None, 4),
    ("a flag over the environment", "[example]\ncount = 3", "4", "5", 5),
    ("a flag over the file", "[example]\ncount = 3", None, "5", 5),
    ("a flag over the default", None, None, "5", 5),
    ("another command's table is not ours", "[agent]\ncount = 9", None, None, 1),
]


@pytest.mark.parametrize(("name", "text", "variable", "argument", "wanted"), LAYERS, ids=[r[0] for r in LAYERS])
def test_the_later_layer_wins(tmp_path, name, text, variable, argument, wanted):
    """Defaults < [all] < [command] < environment < flags."""
    environ = {"WINDWARD_COUNT": variable} if variable else {}
    argv = ["--count", argument] if argument else []
    assert load(argv, environ, file(tmp_path, text) if text else None).count == wanted, name


def test_each_setting_comes_from_its_own_layer(tmp_path):
    config = file(tmp_path, '[all]\nname = "all"\nelsewhere = 3\n[example]\ninterval_s = 30\nloud = true')
    got = load(["--kind", "a"], {"WINDWARD_COUNT": "7", "WINDWARD_OTHER": "x"}, config)
    assert got == Example(name="all", interval_s=30.0, loud=True, count=7)


def test_the_file_may_be_named_by_the_environment(tmp_path):
    first, second = tmp_path / "1.toml", tmp_path / "2.toml"
    first.write_text("[example]\ncount = 1")
    second.write_text("[example]\ncount = 2")
    assert load([], {"WINDWARD_CONFIG": str(second)}).count == 2
    assert load(["--config", str(first)], {"WINDWARD_CONFIG": str(second)}).count == 1


VALUES = [
    ("list with commas", ["--windows-s", "10,20"], {}, "", {"windows_s": (10, 20)}),
    ("list by repeating", ["--windows-s", "10", "--windows-s", "20"], {}, "", {"windows_s": (10, 20)}),
    ("list, mixed", ["--windows-s", "10,20", "--windows-s", "30"], {}, "", {"windows_s": (10, 20, 30)}),
    ("list in the environment", [], {"WINDWARD_WINDOWS_S": "60,120"}, "", {"windows_s": (60, 120)}),
    ("list of one", [], {"WINDWARD_WINDOWS_S": "60"}, "", {"windows_s": (60,)}),
    ("list in the file", [], {}, "windows_s = [60, 120]", {"windows_s": (60, 120)}),
    ("list as text in the file", [], {}, 'windows_s = "60,120"', {"windows_s": (60, 120)}),
    ("empty list", [], {"WINDWARD_WINDOWS_S": ""}, "", {"windows_s": ()}),
    ("pairs with commas", ["--labels", "a=1,b=2"], {}, "", {"labels": {"a": "1", "b": "2"}}),
    ("pairs by repeating", ["--labels", "a=1", "--labels", "b=2"], {}, "", {"labels": {"a": "1", "b": "2"}}),
    ("pair whose value holds =", ["--labels", "a=x=y"], {}, "", {"labels": {"a": "x=y"}}),
    ("pair without a value", ["--labels", "a="], {}, "", {"labels": {"a": ""}}),
    ("pairs in the environment", [], {"WINDWARD_LABELS": "a=1,b=2"}, "", {"labels": {"a": "1", "b": "2"}}),
    ("pairs in the file", [], {}, '[example.labels]\na = "1"', {"labels": {"a": "1"}}),
    ("pairs as a list in the file", [], {}, 'labels = ["a=1", "b=2"]', {"labels": {"a": "1", "b": "2"}}),
    ("bool by flag", ["--loud"], {}, "", {"loud": True}),
    ("bool off by flag", ["--no-loud"], {"WINDWARD_LOUD": "true"}, "", {"loud": False}),
    ("bool in the environment", [], {"WINDWARD_LOUD": "1"}, "", {"loud": True}),
    ("bool off in the environment", [], {"WINDWARD_LOUD": "false"}, "loud = true", {"loud": False}),
    ("whole number for a float", [], {}, "interval_s = 20", {"interval_s": 20.0}),
    ("number as text", [], {}, 'interval_s = "20"', {"interval_s": 20.0}),
    ("text that looks like a number", [], {"WINDWARD_NAME": "007"}, "", {"name": "007"}),
    ("flag with =", ["--count=8"], {}, "", {"count": 8}),
]


@pytest.mark.parametrize(("name", "argv", "environ", "text", "wanted"), VALUES, ids=[row[0] for row in VALUES])
def test_values_are_read(tmp_path, name, argv, environ, text, wanted):
    """Lists, pairs, switches and numbers, from each layer."""
    config = file(tmp_path, text if text.startswith("[") else f"[example]\n{text}")
    assert load(argv, environ, config) == Example(**wanted), name


WRONG = [
    ("not a number", ["--count", "x"], "count: expected a whole number, got 'x' (flag --count)"),
    ("too small", ["--interval-s", "5"], "interval_s: expected a number of 10 or more, got '5' (flag --interval-s)"),
    ("endless", ["--interval-s", "inf"], "interval_s: 'inf' is not a duration such as 90s, 5m or 2h"),
    ("not finite", ["--interval-s", "nan"], "interval_s: 'nan' is not a duration"),
    ("too large", {"WINDWARD_COUNT": "101"}, "count: expected a whole number of at most 100, got '101' (variable WIND"),
    ("empty", {"WINDWARD_COUNT": ""}, "count: expected a whole number, got '' (variable WINDWARD_COUNT)"),
    ("no such choice", '[example]\nkind = "c"', "kind: expected a or b, got 'c' ([example] of "),
    ("no such choice for all", '[all]\nkind = "c"', "kind: expected a or b, got 'c' ([all] of "),
    ("no yes or no", {"WINDWARD_LOUD": "maybe"}, "loud: expected true or false"),
    ("a list for a number", "[example]\ncount = [1]", "count: expected a whole number, got a list, got [1]"),
    ("a wrong item", ["--windows-s", "10,x"], "windows_s: 'x' is not a duration such as"),
    ("a pair without =", ["--labels", "a"], "labels: expected KEY=VALUE, got 'a' (flag --labels)"),
    ("a number that is none", ["--high", "cpu=65%"], "high: expected KEY=NUMBER, got 'cpu=65%' (flag --high)"),
    ("numbers as labels", "[example.labels]\na = 1", "labels: expected text, got a whole number"),
    ("unknown key", "[example]\ncuont = 3", "cuont: no such setting in [example] of "),
    ("unknown flag", ["--cuont", "3"], "unrecognized arguments: --cuont; did you mean --count?"),
    ("shortened flag", ["--cou", "3"], "unrecognized arguments: --cou;"),
    ("flag without value", ["--count"], "argument --count: expected one argument"),
    ("stray argument", ["extra"], "arguments too many: 1"),
    ("secret by flag", ["--password", "hush"], "password: has no flag, which others could read"),
    ("rule of the process", ["--windows-s", "9,3"], "windows_s: expected an ascending list, got [9, 3] (flag --wi"),
    ("rule, by file", "[all]\nwindows_s = [9, 3]", "windows_s: expected an ascending list, got [9, 3] ([all] of "),
    ("rule across settings", ["--kind", "b"], "password is required with kind b"),
    ("no file", ["--config", "/nowhere/x.toml"], "config: /nowhere/x.toml cannot be read: No such file"),
    ("no file in the environment", {"WINDWARD_CONFIG": "/nowhere"}, "config: /nowhere cannot be read"),
    ("a directory", ["--config", "/"], "config: / cannot be read: Is a directory"),
    ("not TOML", "count = = 3", "is not TOML: "),
    ("not UTF-8", b"name = '\xff'", "is not TOML: "),
    ("a table that is none", "example = 3", "config: example in "),
    ("[all] that is none", "all = 3", "config: all in "),
    ("secret file missing", {"WINDWARD_PASSWORD_FILE": "/nowhere"}, "WINDWARD_PASSWORD_FILE: the file it names cannot"),
    ("secret of a wrong type", "[example]\npassword = 4711", "password: expected text, got a whole number ([exam"),
]


@pytest.mark.parametrize(("name", "given", "wanted"), WRONG, ids=[row[0] for row in WRONG])
def test_a_wrong_setting_is_one_line_that_names_it(tmp_path, name, given, wanted):
    """As an argument, a variable or in a file: what was expected, what came, and where from; never a secret's value."""
    with pytest.raises(SettingsError) as error:
        if isinstance(given, list):
            load(given)
        elif isinstance(given, dict):
            load([], given)
        else:
            load([], {}, file(tmp_path, given))
    message = str(error.value)
    assert wanted in message, name
    assert "\n" not in message
    assert "4711" not in message


def test_a_secret_comes_from_its_variable_or_a_file(tmp_path):
    """The variable wins over ``_FILE``, both over the settings file; a trailing line end is not part of it."""
    secret = tmp_path / "secret"
    secret.write_bytes(b"from a file \r\n")
    config = file(tmp_path, '[example]\npassword = "from settings"')
    by_file = {"WINDWARD_PASSWORD_FILE": str(secret)}
    assert load([], {}, config).password == "from settings"
    assert load([], by_file, config).password == "from a file "
    assert load([], by_file | {"WINDWARD_PASSWORD": "from a variable"}, config).password == "from a variable"
    secret.write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match=r"WINDWARD_PASSWORD_FILE: .* is not UTF-8 text"):
        load([], by_file)


def test_only_secrets_are_read_from_files():
    assert load([], {"WINDWARD_NAME_FILE": "/etc/hostname"}).name is None


def test_help_lists_every_setting_but_no_secret(capsys):
    with pytest.raises(SystemExit) as stopped:
        load(["--help"])
    assert stopped.value.code == 0
    shown = capsys.readouterr().out
    for name in ("interval-s", "count", "kind", "name", "loud", "windows-s", "labels", "config"):
        assert f"--{name}" in shown
    assert "100% plain (default 10s)" in shown
    assert "password" not in shown


def test_positional_settings_have_no_flag():
    assert load_settings(Positional, "p", ["a.json"], {}) == Positional(file="a.json")
    assert load_settings(Positional, "p", ["--top", "2", "a.json"], {}).top == 2
    with pytest.raises(SettingsError, match="required: FILE"):
        load_settings(Positional, "p", [], {})


def test_arguments_are_not_split_at_commas():
    """An id, a file or a JSON text that stands as an argument may hold commas."""
    assert load_settings(Words, "x", ["set", '{"a": 1, "b": 2}'], {}).words == ("set", '{"a": 1, "b": 2}')


def test_a_required_setting_says_how_to_give_it():
    with pytest.raises(SettingsError, match=r"^url is required: give --url or WINDWARD_URL$"):
        load_settings(Required, "r", [], {})
    assert load_settings(Required, "r", [], {"WINDWARD_URL": "x"}).url == "x"


def test_the_flag_of_a_setting():
    assert flag("interval_s") == "--interval-s"
