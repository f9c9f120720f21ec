"""``windward planner``: answer long queries, and propose moves, until SIGTERM. SIGHUP reads the profiles again."""

import math
import sys
from collections.abc import Mapping

from schemas.process.run import Process, command
from schemas.process.version import product_version
from scorer.live.live_fleet import profiles_of, refuse_modes
from scorer.planner.drain import Drainer
from scorer.planner.proposer import Metrics, MovesQueue, Proposer
from scorer.planner.service import PlannerService
from scorer.planner.settings import PlannerSettings, balanced
from scorer.ranking.profiles.catalogue import Profiles
from scorer.rpc.parts import Parts
from scorer.wire import Wire

SETTINGS = PlannerSettings


def process(settings: PlannerSettings, _environ: Mapping[str, str]) -> Process:
    profiles = profiles_of(settings)
    profile = balanced(profiles.choose(), settings)
    refuse_modes(settings)
    metrics = Metrics(product_version(), PlannerService.METHODS)
    parts = Parts(settings, profiles, metrics)
    current, queue_wire = parts.current, Wire(settings.redis_arguments())

    queue = MovesQueue(queue_wire, settings.names)
    if not settings.every:
        metrics.leads.set(math.nan)  # it waits for no lease
        metrics.broken.clear()
    proposer = Proposer(settings, parts.ledger, current.newest, queue, profile, metrics) if settings.every else None
    drainer = Drainer(parts.ledger, parts.wire, settings) if settings.drain_s else None
    parts.answer_by(PlannerService(settings, current, parts.rules, proposer, drainer))

    def follow(profiles: Profiles) -> None:
        if proposer is not None:
            proposer.profile = balanced(profiles.choose(), settings)

    return parts.process(follow, (queue_wire.close, *([] if proposer is None else [proposer.stop])))


main = command("planner", SETTINGS, process)

if __name__ == "__main__":
    import os

    sys.exit(main(sys.argv[1:], os.environ))
