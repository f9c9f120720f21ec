"""``windward rank``: order the machines for a request: those of the running scorer, or of a file.

Every field of a fleet file is in the docstring of `scorer.commands.shared.fleet_file`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from schemas.process.settings import SettingsError, load_settings, setting
from schemas.rpc.request import InvalidRequest, Request, read_request
from scorer.client import RankResult
from scorer.commands.placing.ranked import explained_only, ranking
from scorer.commands.shared import ask
from scorer.commands.shared.request import RequestSettings
from scorer.commands.shared.whole_fleet import chosen_profile, fleet_of_file


@dataclass(frozen=True, kw_only=True)
class RankSettings(RequestSettings):
    """Rank the machines for a request, without reserving anything: those of the running scorer, or of a file.

    A query file is a request: {"cpu": 2, "memory": "10G", "labels": {...}, ...}. A fleet file; a short one:
      {"machines": [{"name": "a1", "capacity": {"cpu": 64, "memory": "256G"},
                     "usage": {"cpu": {"mean": 20, "std": 4}, "memory": "100G"}}]}
    Exit codes: 0 a machine fits, 2 wrong usage or file, 3 no machine fits, 4 no answer before the deadline.
    """

    EXAMPLES: ClassVar[tuple[str, ...]] = (
        "windward rank --cpu 2 --memory 10G                  # ask the running scorer",
        "windward rank --cpu 2 --memory 10G --explain        # why these, and how many machines each filter refused",
        "windward rank --fleet-file docs/examples/machines.json --query docs/examples/query.json   # from files alone",
        "windward rank --fleet-file docs/examples/machines.json --cpu 2 --explain calm",
    )

    fleet_file: str | None = setting(
        None, "JSON file that describes the fleet; without it the running scorer is asked", metavar="FILE"
    )
    profile: str | None = setting(None, "name of a profile, or a profile file with --fleet-file", metavar="NAME")
    profiles: tuple[str, ...] = setting(
        (), "profile files or directories of your own, with --fleet-file", metavar="PATH"
    )
    explain: str | None = setting(
        None, "show each filter's verdict and each score's terms: of the machines listed, or of this one",
        metavar="MACHINE", optional_value=True, group="output",
    )  # fmt: skip
    all: bool = setting(False, "with --explain: of every machine", group="output")

    def request(self) -> dict[str, Any]:
        """Return the request; ``explain`` is true whichever machine is named."""
        params = super().request()
        if self.explain is not None:
            params["explain"] = self.explain.lower() not in ("false", "0")
        return params


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    return ask.run(load_settings(RankSettings, "rank", argv, environ), "rank", _rank)


def _rank(settings: RankSettings) -> int:
    params = settings.request()
    try:
        request = read_request(params)
    except InvalidRequest as error:
        raise SettingsError(f"{'query: ' if settings.fleet_file else ''}{error}") from None
    if settings.fleet_file is None:
        answer = ask.read(settings, RankResult, "rank", params)
    else:
        answer = _of_file(settings, settings.fleet_file, request)
    if settings.fleet_file is None and not answer.machine:
        answer.warnings = [*answer.warnings, *ask.no_such_machine(settings, settings.machine)]
    if params.get("explain") and not settings.all:
        answer = _explained(answer, settings.explain or "")
    ask.tell(settings, answer, ranking, indent=2)
    return ask.OK if answer.machine else ask.NO_MACHINE


def _explained(answer: RankResult, machine: str) -> RankResult:
    machine = "" if machine.lower() in ("true", "1") else machine
    try:
        return explained_only(answer, machine)
    except KeyError as error:
        raise SettingsError(f"explain: no machine {machine!r}{error.args[0]}") from None


def _of_file(settings: RankSettings, path: str, request: Request) -> RankResult:
    from scorer.placement.choosing.trial import ranked
    from scorer.ranking.explain import answer
    from scorer.ranking.profiles.profile import check_looked_at

    fleet, profile = fleet_of_file(path), chosen_profile(request.profile, settings.profiles)
    try:
        check_looked_at([request], profile)
        return answer(ranked(request, fleet.inputs(profile)))
    except InvalidRequest as error:
        raise SettingsError(f"query: {error}") from None


SETTINGS = RankSettings
