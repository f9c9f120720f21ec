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

from schemas.request import InvalidRequest, read_request
from schemas.settings import SettingsError, load_settings, setting
from scorer.fleet_file import InvalidFleet, read_fleet
from scorer.profile import ProfileError, load_profiles, read_profile
from scorer.rank import Ranking, rank
from scorer.settings import ClientSettings


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
    if settings.machines is None:
        answer = _ask(settings, params)
    else:
        ranking = _rank_file(settings, params)
        answer = ranking.answer()
        if settings.plot:
            from scorer.plot import save_plot

            save_plot(ranking, settings.plot)
    sys.stdout.write(json.dumps(answer, indent=2) + "\n" if settings.json else _table(answer))
    return 0 if answer.get("machine") else 3


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


def _rank_file(settings: RankSettings, params: dict[str, Any]) -> Ranking:
    try:
        request = read_request(params)
        fleet = read_fleet(_read_json(settings.machines or "-", "machines"))
        name = request.profile
        profile = read_profile(Path(name)) if name.endswith(".toml") else load_profiles(settings.profiles).choose(name)
        return rank(request, fleet.snapshot, fleet.ledger, profile, fleet.now_s)
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


def _table(answer: Mapping[str, Any]) -> str:
    """Return the answer for people: the machines in columns, then why, then what to know."""
    lines = []
    shown = answer.get("machines") or answer.get("candidates", [])
    if shown:
        width = max(7, *(len(each["machine"]) for each in shown))
        lines.append(
            f"{'machine':{width}}  {'score':>6}  {'risk':>5}  "
            + "  ".join(
                f"{name + ' mean':>14} {'std':>6} {'credit':>6} {'request':>7}" for name in ("cpu", "memory", "nic")
            )
            + f"  {'window':>6}  {'age':>5}"
        )
        lines += [_row(each, width) for each in shown]
    for machine in answer.get("machines", ()):
        lines += _explained(machine)
    lines.append(answer["summary"])
    lines += [f"warning: {warning}" for warning in answer.get("warnings", ())]
    return "\n".join(lines) + "\n"


def _row(machine: Mapping[str, Any], width: int) -> str:
    parts = [f"{machine['machine']:{width}}", _number(machine["score"], 6, 2), _number(machine["risk"], 5, 2)]
    for resource in ("cpu", "memory", "nic"):
        terms = machine["resources"][resource]
        whole = terms["allocatable"]
        share = [None if terms[name] is None or not whole else 100 * terms[name] / whole for name in
                 ("mean", "std", "credit", "request")]  # fmt: skip
        parts.append(" ".join(_number(value, size, 1, "%") for value, size in zip(share, (14, 6, 6, 7), strict=True)))
    parts += [_number(machine["window_s"], 6, 0), _number(machine["age_s"], 5, 0)]
    return "  ".join(parts)


def _number(value: float | None, width: int, digits: int, unit: str = "") -> str:
    return "-".rjust(width) if value is None else f"{value:.{digits}f}{unit}".rjust(width)


def _explained(machine: Mapping[str, Any]) -> list[str]:
    lines = [f"{machine['machine']}: {'feasible' if machine['feasible'] else 'refused'}"]
    for verdict in machine["filters"]:
        word = "ok" if verdict["allowed"] else f"refused, {verdict['reason']}"
        lines.append(f"  filter {verdict['filter']}: {word}{_details(verdict.get('compared', {}))}")
    for name, term in machine["scores"].items():
        more = {key: value for key, value in term.items() if key not in ("value", "raw", "weight")}
        value = _number(term["value"], 0, 3).strip()
        lines.append(
            f"  score {name}: {value} (raw {_number(term['raw'], 0, 3).strip()}) * {term['weight']:g}{_details(more)}"
        )
    return lines


def _details(values: Mapping[str, Any]) -> str:
    return "".join(f"; {name} {_plain(value)}" for name, value in values.items())


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} {_plain(each)}" for key, each in value.items()) + "}"
    if isinstance(value, float):
        return f"{value:.6g}"
    return "unknown" if value is None else str(value)
