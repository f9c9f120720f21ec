"""A client that notes what it is told, and the ledger that is compared with it in the end."""

import time

from scorer.client import WindwardError
from scorer.ledger.store.check import Check
from tests.support.history import Told, judge, told


class Witness:
    """Calls ``client`` and gives ``note`` each call with its answer, or its error."""

    def __init__(self, client, note):
        self._client = client
        self._note = note

    def __call__(self, step, name, **params):
        """Place, confirm, update or release; return the answer or raise the WindwardError."""
        try:
            answer = getattr(self._client, step)(id=name, **params)
        except WindwardError as error:
            self._note([Told(step, name, error.code)])
            raise
        self._note(told(step, answer, time.monotonic()))
        return answer


def verdict_on(ledger, said, limits):
    """End what is due, and judge the ledger; nothing else may write to it meanwhile."""
    now_s = time.time()
    while ledger.expire().count:
        pass
    differences = [f"{one.name}: {one.what}" for one in Check(ledger).run().differences]
    return judge(read_history(ledger), said, ledger.all_instances(), limits, differences, now_s)


def read_history(ledger):
    history = []
    while True:
        _, change, records = ledger.read_log(ledger.wire.ask(ledger.log_reads(len(history), 10_000)))
        history += records
        if len(history) >= change or not records:
            return history
