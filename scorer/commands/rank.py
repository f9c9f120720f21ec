"""Rank: order the machines for a request, without reserving anything: those of the running scorer, or of a file.

windward rank --cpu 2 --memory 10G                                     ask the running scorer
windward rank --machines machines.json --query query.json              from files alone; nothing else need run
windward rank --machines machines.json --cpu 2 --explain --plot out.png

query.json is a request: {"cpu": 2, "memory": "10G", "labels": {...}, ...} (`schemas.request.Request`).
machines.json describes a fleet; a short one:

  {"machines": [{"name": "a1", "capacity": {"cpu": 64, "memory": "256G"},
                 "usage": {"cpu": {"mean": 20, "std": 4}, "memory": "100G"}}]}

`scorer.fleet_file` documents every field: usage by window (absolute: cores, bytes, bytes/s) with percentiles, maximum,
peaks and coverage, age, labels, what operators say, the instances already placed, and what holds for a field left out.
Exit codes: 0 a machine fits, 2 wrong usage or file, 3 no machine fits, 4 no answer before the deadline.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schemas.request import InvalidRequest, Request, read_request
from schemas.resources import RESOURCES
from schemas.settings import SettingsError, load_settings, setting
from scorer.commands.asking import size
from scorer.fleet_file import InvalidFleet, read_fleet
from scorer.profile import ProfileError, load_profiles, read_profile
from scorer.rank import rank
from scorer.settings import ClientSettings

DRAWN = 40
"""Candidates in the picture when ``--top`` does not say."""


@dataclass(frozen=True, kw_only=True)
class RankSettings(ClientSettings):
    """What is asked, and of whom."""

    machines: str | None = setting(None, "JSON file that describes the fleet; without it the running scorer is asked")
    query: str | None = setting(None, "JSON file with the request, - for standard input")
    cpu: str | None = setting(None, "cores")
    memory: str | None = setting(None, "bytes, with a suffix such as G or Gi")
    nic: str | None = setting(None, "bytes/s")
    selector: str | None = setting(None, "labels the machine must have")
    profile: str | None = setting(None, "name of a profile, or a profile file with --machines")
    profiles: tuple[str, ...] = setting((), "profile files or directories of your own, with --machines", metavar="PATH")
    window_s: int | None = setting(None, "window to score by")
    top: int | None = setting(None, "how many machines to list")
    explain: bool = setting(False, "show every machine with each filter's verdict and each score's terms")
    plot: str | None = setting(None, "draw the candidates into this PNG file", metavar="FILE")


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    """Run the command."""
    settings = load_settings(RankSettings, "rank", argv, environ, __doc__ or "")
    params = _params(settings)
    drawn = {"top": DRAWN} if settings.plot and "top" not in params else {}
    answer = _ask(settings, params | drawn) if settings.machines is None else _rank_file(settings, params | drawn)
    if settings.plot:
        _plot(answer, settings.plot)
        answer["candidates"] = answer["candidates"][: params.get("top", Request().top)]
    sys.stdout.write(json.dumps(answer, indent=2) + "\n" if settings.json else _table(answer))
    return 0 if answer.get("machine") else 3


def _plot(answer: Mapping[str, Any], path: str) -> None:
    from scorer.plot import save_plot

    try:
        save_plot(answer, path)
    except OSError as error:
        raise SettingsError(f"plot: {path} cannot be written: {error}") from None


def _params(settings: RankSettings) -> dict[str, Any]:
    """Return the request as given: the file, with the flags laid over it."""
    params: dict[str, Any] = {}
    if settings.query:
        value = _read_json(settings.query, "query")
        if not isinstance(value, dict):
            raise SettingsError(f"query: {settings.query} holds no JSON object")
        params = value
    for name in ("cpu", "memory", "nic", "selector", "profile", "window_s", "top"):
        if (value := getattr(settings, name)) is not None:
            params[name] = value
    return params | ({"explain": True} if settings.explain else {})


def _rank_file(settings: RankSettings, params: dict[str, Any]) -> dict[str, Any]:
    """Rank the machines of the file."""
    try:
        request = read_request(params)
        fleet = read_fleet(_read_json(settings.machines or "-", "machines"))
        name = request.profile
        profile = read_profile(Path(name)) if name.endswith(".toml") else load_profiles(settings.profiles).choose(name)
        return rank(request, fleet.snapshot, fleet.ledger, profile, fleet.now_s).answer()
    except InvalidRequest as error:
        raise SettingsError(f"query: {error}") from None
    except InvalidFleet as error:
        raise SettingsError(f"machines: {error}") from None
    except ProfileError as error:
        raise SettingsError(str(error)) from None


def _read_json(path: str, what: str) -> Any:
    try:
        return json.loads(sys.stdin.read() if path == "-" else Path(path).read_text())
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise SettingsError(f"{what}: {path} cannot be read as JSON: {error}") from None


def _ask(settings: RankSettings, params: dict[str, Any]) -> dict[str, Any]:
    """Ask the running scorer."""
    from scorer.client import Client, WindwardError

    arguments = settings.redis_arguments()
    with Client(arguments.pop("url"), settings.prefix, settings.timeout, **arguments) as client:
        try:
            answer: dict[str, Any] = client.rank(**params)
        except WindwardError as error:
            sys.stderr.write(f"windward rank: {error}\n")
            raise SystemExit(_EXIT_CODES.get(error.code, 1)) from None
    return answer


_EXIT_CODES = {"INVALID_ARGUMENT": 2, "DEADLINE_EXCEEDED": 4, "UNAVAILABLE": 4}


_TERMS = {"mean": 5, "std": 5, "credit": 6, "request": 7}
"""Columns of a resource, in percent of allocatable, with their widths."""


def _table(answer: Mapping[str, Any]) -> str:
    """Return the answer for people: the machines in columns, then why, then what to know."""
    lines = []
    shown = answer.get("machines") or answer.get("candidates", [])
    if shown:
        width = max(7, *(len(each["machine"]) for each in shown))
        group = sum(_TERMS.values()) + len(_TERMS) - 1
        above = "  ".join(f" {name}, % ".center(group, "-") for name in RESOURCES)
        terms = " ".join(name.rjust(room) for name, room in _TERMS.items())
        lines.append(f"{'':{width}}  {'':6}  {'':4}  {above}")
        lines.append(
            f"{'machine':{width}}  {'score':>6}  {'risk':>4}  {'  '.join([terms] * len(RESOURCES))}"
            f"  {'window':>6}  {'age':>5}"
        )
        lines += [_row(each, width) for each in shown]
    for machine in answer.get("machines", ()):
        lines += _explained(machine)
    lines += [""] * bool(answer.get("machines")) + [answer["summary"]]
    lines += [f"warning: {warning}" for warning in answer.get("warnings", ())]
    return "\n".join(lines) + "\n"


def _row(machine: Mapping[str, Any], width: int) -> str:
    parts = [f"{machine['machine']:{width}}", _number(machine["score"], 6, 2), _number(machine["risk"], 4, 2)]
    for resource in RESOURCES:
        terms = machine["resources"][resource]
        whole = terms["allocatable"]
        share = {name: None if terms[name] is None or not whole else 100 * terms[name] / whole for name in _TERMS}
        parts.append(" ".join(_number(share[name], room, 1) for name, room in _TERMS.items()))
    parts += [_number(machine["window_s"], 6, 0), _number(machine["age_s"], 5, 0)]
    return "  ".join(parts)


def _number(value: float | None, width: int, digits: int) -> str:
    return "-".rjust(width) if value is None else f"{value:.{digits}f}".rjust(width)


def _explained(machine: Mapping[str, Any]) -> list[str]:
    """Return what each filter and score said of one machine; a refused one has no place among the feasible."""
    feasible = machine["feasible"]
    lines = ["", f"{machine['machine']}: {'feasible' if feasible else 'refused'}"]
    names = [verdict["filter"] for verdict in machine["filters"]] + list(machine["scores"])
    width = max(map(len, names), default=0)
    for verdict in machine["filters"]:
        word = "ok" if verdict["allowed"] else f"refused, {verdict['reason']}"
        lines.append(f"  filter {verdict['filter']:{width}}  {word}{_details(verdict.get('compared', {}))}")
    for name, term in machine["scores"].items():
        more = {key: value for key, value in term.items() if key not in ("value", "raw", "weight")}
        value = f"{_number(term['value'], 0, 2)} * {term['weight']:g}, " if feasible else ""
        lines.append(f"  score  {name:{width}}  {value}raw {_number(term['raw'], 0, 4)}{_details(more)}")
    return lines


def _details(values: Mapping[str, Any]) -> str:
    return "".join(f"; {name} {_plain(value)}" for name, value in values.items())


def _plain(value: Any) -> str:
    """Return a number or a table of numbers for people: amounts with a suffix, what nobody knows as unknown."""
    if isinstance(value, Mapping):
        known = {key: each for key, each in value.items() if each is not None}
        return "{" + ", ".join(f"{key} {_plain(each)}" for key, each in known.items()) + "}" if known else "unknown"
    if isinstance(value, float):
        return size(value) if abs(value) >= 1e5 else f"{value:.4g}"
    if isinstance(value, list):
        return " ".join(map(_plain, value)) or "none"
    return "unknown" if value is None else str(value)
