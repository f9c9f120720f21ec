"""Pages made from the product: of each filter and score, of the profiles, of every command, and of every metric."""

import dataclasses
import inspect
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from ops.cli.commands import COMMANDS
from ops.completions.__main__ import command
from ops.docs.rpc_page import table
from ops.docs.shapes import SHAPES, Along
from ops.exporter.exporter import Exporter
from ops.exporter.settings import ExporterSettings
from ops.exporter.state import Memory, Reader, State
from ops.record.recorder import Metrics as OfRecorder
from schemas.process.flags import Parser
from schemas.values.read_json import read_json
from scorer.commands.shared.fleet_file import read_fleet
from scorer.kubernetes.evictor.evictor import Metrics as OfEvictor
from scorer.kubernetes.extender.fleet import Metrics as OfExtender
from scorer.kubernetes.load_watcher.watcher import Metrics as OfLoadWatcher
from scorer.kubernetes.pods.watcher import Metrics as OfPods
from scorer.metrics import Metrics as OfScorer
from scorer.planner.proposer import Metrics as OfPlanner
from scorer.ranking import profiles as profiles_package
from scorer.ranking.profiles import profile_file
from scorer.ranking.profiles.catalogue import built_in_profiles, load_profiles, read_profile
from scorer.ranking.profiles.profile import Profile
from scorer.ranking.profiles.rebalance_section import Rebalancing
from streams.agent.metrics import CountsCollector
from streams.agent.sampling.counts import Counts
from streams.worker.metrics import Metrics as OfStream

_AFTER_TERMS = re.compile(r"(\n {4}.*)\n(?=[^\s>])(?!.*:$)", re.MULTILINE)
_TERM = re.compile(r"(?<!`)`([^`]+)`(?!`)")


def rst(docstring: str) -> str:
    r"""Return a docstring as reStructuredText: names become literals; an indented part below no term is one block.

    >>> print(rst("Sum of `x`.\n\n    x + 1"))
    Sum of ``x``.
    <BLANKLINE>
    ::
    <BLANKLINE>
        x + 1
    """
    named = _TERM.sub(r"``\1``", docstring.strip()).replace("\n|", "\n    |")
    blocks = re.split(r"\n\s*\n", _AFTER_TERMS.sub(r"\1\n\n", named))
    return "\n\n".join(f"::\n\n{block}" if block.startswith("    ") else block for block in blocks)


def page(plugin: type[Any], kind: str) -> str:
    """Return the page of one plugin; ``kind`` is filter or score."""
    parts = [
        f"# {plugin.name}",
        f"A {kind}." + (f" Its refusal reads *{_refusal(plugin)}*." if kind == "filter" else ""),
        f"```{{eval-rst}}\n{rst(inspect.getdoc(plugin) or '')}\n```",
    ]
    if shape := SHAPES.get(plugin.name):
        picture = f"![What it says of machines](../pictures/{kind}-{plugin.name}.svg)"
        parts += ["## Shape", picture, _caption(shape)]
    parts += ["## Settings", _settings(plugin)]
    parts.append("[The profiles](../profiles.md) say which of them use it, and with which settings.")
    return "\n\n".join(parts) + "\n"


def _caption(shape: Along) -> str:
    asked = ", ".join(f"{name} {value}" for name, value in shape.request.items())
    given = [f"`{name} = {value}`" for name, value in shape.settings.items()]
    if shape.normalise != "none":
        given.append(f"spread by `{shape.normalise}`")
    about = "Machines of 32 cores and 128 GB that differ in this alone"
    settings = ", ".join(given) or "as they are by default"
    return f"*{about}; the request: {asked}; settings: {settings}. Computed by the product.*"


def _settings(plugin: type[Any]) -> str:
    rows = [[f"`{each.name}`", f"`{_type(each)}`", f"`{_default(each)}`"] for each in dataclasses.fields(plugin)]
    return table(["setting", "type", "default"], rows) if rows else "None."


def _type(one: dataclasses.Field[Any]) -> str:
    """Return the type of a setting, without the modules of its names."""
    return re.sub(r"[a-z_.]+\.(?=[A-Z])", "", inspect.formatannotation(one.type))


def _default(one: dataclasses.Field[Any]) -> str:
    value = one.default_factory() if one.default_factory is not dataclasses.MISSING else one.default
    return {True: "true", False: "false"}.get(value, repr(value)) if isinstance(value, bool) else repr(value)


def index(plugins: Iterable[type[Any]], kind: str) -> str:
    """Return the page that lists all of a kind, each with the first sentence of its docstring."""
    rows = [
        [f"[{plugin.name}]({kind}s/{plugin.name}.md)", (inspect.getdoc(plugin) or "").split("\n\n")[0]]
        for plugin in plugins
    ]
    what = (
        "A filter says which machines may take an instance; a machine that no filter refuses is feasible."
        if kind == "filter"
        else "A score says how good a machine is, from 0 to 100. The total is the weighted mean of a profile's scores."
    )
    return f"# {kind.capitalize()}s\n\n{what}\n\n" + table([kind, "what it does"], rows) + "\n"


def profiles() -> str:
    """Return the page of the profiles: the keys that there are, and each built-in file as it is."""
    parts = [
        "# Profiles",
        "A profile is the filters and weighted scores that run together. `windward profiles show NAME` prints one with "
        "every setting in force; a file of your own is checked by the same command. [Which profile?](which-profile.md) "
        "compares what they do.",
    ]
    keys = inspect.cleandoc(profile_file.__doc__ or "").partition("\n\n    ")[2].partition("\n\nThe built-in")[0]
    moves = [(f"`{one.name}`", f"`{_default(one)}`", one.metadata["help"]) for one in dataclasses.fields(Rebalancing)]
    parts += ["## The keys", f"```toml\n{inspect.cleandoc(keys)}\n```"]
    parts += ["### Of `[rebalance]`", table(["key", "default", "what it does"], moves)]
    for name, profile in built_in_profiles().items():
        text = Path(profiles_package.__file__).with_name(f"{name}.toml").read_text()
        parts += [f"## {name}", f"{profile.description.capitalize()}.", f"```toml\n{text}```"]
    return "\n\n".join(parts) + "\n"


def _refusal(plugin: type[Any]) -> str:
    return getattr(plugin, "reason", "") or "* or *".join(plugin.reasons)


COMMANDS_HEAD = """# Every command, with its settings

A setting is a flag, a key of a TOML file and a variable (`--redis-url`, `redis_url`, `WINDWARD_REDIS_URL`):
[Settings](settings.md) has which of them wins. `windward COMMAND --help` prints the same as this page."""
METRICS_HEAD = """# Every metric

A process serves its own metrics with `--metrics-port`; the exporter serves those of the fleet. A counter's series ends
in `_total`; a histogram has `_bucket`, `_sum` and `_count`. Each page has `process_*` of its process, too."""
EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


def commands() -> str:
    parts = [COMMANDS_HEAD]
    for name, (_, about) in COMMANDS.items():
        parser = command(name)
        parts.append(f"## windward {name}")
        below = [each for act in parser._actions if isinstance(act.choices, dict) for each in act.choices.items()]
        parts.append(f"{about[0].upper()}{about[1:]}." if below else _help(parser))
        for verb, each in below:
            parts += [f"### windward {name} {verb}", _help(each)]
    return "\n\n".join(parts) + "\n"


def _help(parser: Parser) -> str:
    return f"```text\n{parser.format_help().rstrip()}\n```"


class _Metric(NamedTuple):
    name: str
    kind: str
    labels: tuple[str, ...]
    about: str


def metrics() -> str:
    agent = CollectorRegistry()
    agent.register(CountsCollector(Counts(), ""))
    parts = [METRICS_HEAD, "## Exporter", _rows(_of_exporter())]
    for title, registry in (
        ("Scorer", OfScorer().registry),
        ("Stream app", OfStream().registry),
        ("Agent", agent),
        ("Planner", OfPlanner().registry),
        ("Recorder", OfRecorder().registry),
        ("Load watcher", OfLoadWatcher().registry),
        ("Pods", OfPods().registry),
        ("Extender", OfExtender().registry),
        ("Evictor", OfEvictor().registry),
    ):
        parts += [f"## {title}", _rows(_of_registry(registry))]
    return "\n\n".join(parts) + "\n"


def _rows(found: Iterable[_Metric]) -> str:
    rows = [(f"`{name}`", kind, ", ".join(labels), about) for name, kind, labels, about in sorted(found)]
    return table(["metric", "kind", "labels", "what it is"], rows)


def _of_registry(registry: CollectorRegistry) -> Iterator[_Metric]:
    """Yield the families of a registry; a metric without a value yet names its labels itself."""
    declared = {each: getattr(each, "_labelnames", ()) for each in registry._collector_to_names}
    names = {name: labels for each, labels in declared.items() for name in registry._collector_to_names[each]}
    for found in _of_families(registry.collect()):
        yield found._replace(labels=tuple(names.get(found.name, ())) or found.labels)


def _of_exporter() -> Iterator[_Metric]:
    """Yield the families of a small fleet with labels and instances, without those of the process."""
    settings = ExporterSettings(statistics=("mean", "std", "peak"), labels=("zone",), top_instances=1)
    exporter = Exporter(cast(Reader, _Example()), settings, load_profiles(), "")
    for found in _of_families(text_string_to_metric_families(exporter.render().decode())):
        if found.name.startswith("windward_"):
            yield found


def _of_families(families: Iterable[Any]) -> Iterator[_Metric]:
    for family in families:
        shown = {label for sample in family.samples for label in sample.labels} - {"le", "quantile"}
        name = family.name + {"counter": "_total", "info": "_info"}.get(family.type, "")
        yield _Metric(name, family.type, tuple(sorted(shown)), family.documentation)


class _Example:
    """Reads a small fleet in place of Redis."""

    def read(self, profile: Profile, now_s: float) -> State:
        """Return the state of the example of priority classes, with one machine in more detail."""
        found = read_json((EXAMPLES / "classes.json").read_bytes())
        more = {"labels": {"zone": "a"}, "operator": {"thresholds": {"cpu": 0.8}}}
        capacity = {"cpu": 16, "memory": "64G", "nic": "1.25G", "disk": 1}
        found["machines"][0] |= {**more, "capacity": capacity}
        offline, memory = read_fleet(found), {"windows": Memory(1e9, 4e9)}
        by_class = read_profile(EXAMPLES / "classes.toml")
        return State(offline.snapshot, offline.ledger, by_class, offline.now_s, memory=memory)

    def close(self) -> None:
        """Nothing is open."""
