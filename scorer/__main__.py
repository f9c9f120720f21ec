"""``windward scorer``: answer placement queries until SIGTERM. SIGHUP reads the profiles again."""

import sys
from collections.abc import Mapping

from schemas.process.run import Process, command
from schemas.process.version import product_version
from scorer.background.checker import Checker
from scorer.background.learner import Learner
from scorer.background.thread import BackgroundThread
from scorer.ledger.store.scripts import Ledger
from scorer.live.live_fleet import profiles_of, refuse_modes
from scorer.metrics import Metrics
from scorer.ranking.profiles.catalogue import Profiles
from scorer.ranking.profiles.profile import Profile
from scorer.rpc.parts import Parts
from scorer.rpc.service import ScorerService
from scorer.settings import ScorerSettings
from scorer.wire import ServerClock, Wire

_SWITCH_INTERVAL_S = 0.0005
"""The longest time for which the refresher may hold the interpreter while a query waits."""


SETTINGS = ScorerSettings


class Sweeper(BackgroundThread):
    """Expires reservations and moves that are due, at once and every second.

    Transitions do so, too; this thread is for idle times.
    """

    def __init__(self, ledger: Ledger, metrics: Metrics, clock: ServerClock | None = None) -> None:
        """``clock`` is set to the time of a separate server of the ledger."""
        super().__init__("sweep", ledger.wire)
        self._ledger = ledger
        self._metrics = metrics
        self._clock = clock

    def turn(self) -> None:
        if self._clock is not None:
            self._clock.read_ledger(self._ledger.wire)
        while (count := self._ledger.expire().count) >= 1000:
            self._metrics.expiries.inc(count)
        self._metrics.expiries.inc(count)


def process(settings: ScorerSettings, _environ: Mapping[str, str]) -> Process:
    profiles = profiles_of(settings)
    refuse_modes(settings)
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    return build(settings, profiles).process()


def build(settings: ScorerSettings, profiles: Profiles) -> Parts:
    """Build the parts of a scorer; nothing connects yet."""

    def in_force() -> Profile:
        return current.profiles.choose()

    metrics = Metrics(product_version(), ScorerService.METHODS)
    parts = Parts(settings, profiles, metrics)
    arguments, current, latest = parts.ledger_arguments, parts.current, parts.latest
    checker = Checker(parts.ledger_on, arguments, metrics, settings)
    sweeper = Sweeper(parts.ledger_on(Wire(arguments)), metrics, None if parts.same_server else parts.clock)
    background: list[BackgroundThread] = [sweeper, checker]
    if settings.learn_s:
        learns, windows = parts.ledger_on(Wire(arguments)), Wire(parts.arguments)
        background.append(Learner(learns, windows, lambda: latest.snapshot, in_force, metrics, settings))
    service = ScorerService(settings, current, parts.rules, metrics, checker)
    parts.answer_by(service, background)
    return parts


main = command("scorer", SETTINGS, process)

if __name__ == "__main__":
    import os

    sys.exit(main(sys.argv[1:], os.environ))
