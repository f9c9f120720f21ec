"""A resource more than there is: from the request into the ledger's sums, beside scorers that do not know it."""

import json
import os
import subprocess
import sys

from scorer.ledger.record.instance import Instance
from scorer.ledger.record.transition import Candidate, Change
from scorer.ledger.store.scripts import Ledger
from tests.integration.ledger.test_ledger import sums_in

WITH_TAPE = """
import json, sys
import msgspec
import schemas.resources
schemas.resources.RESOURCES += ("tape",)
import schemas.rpc.request as request
request.DECIMALS["tape"] = 3
request.Request = msgspec.defstruct(
    "Request", [("tape", request.Quantity, 0.0)], bases=(request.Request,),
    frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True,
)
from contextlib import ExitStack
from tests.own_library import in_place_of_ours
library = ExitStack()
library.enter_context(in_place_of_ours(f"-DR={len(schemas.resources.RESOURCES)}"))
from schemas.names import Names
from scorer.ledger.record.limits import Limit, total
from scorer.ledger.store.scripts import Ledger
from scorer.ledger.record.transition import Candidate, Wanted
from scorer.ledger.view.residents import Residents
from scorer.ledger.view.view import LedgerView, instance_of
from scorer.ledger.record.instance import as_request
from scorer.rpc.methods.records import read_params
from scorer.rpc.methods.update import Update
from scorer.snapshot.rules import Roster
from scorer.wire import Wire

url, prefix = json.loads(sys.stdin.read())
ledger = Ledger(Wire({"url": url}), Names(prefix))
limits = [Limit(total("tape"), 4.0, "too much tape promised")]
kinds = []
for name, tape in (("a", "1500m"), ("b", 2.5), ("c", 0.001)):
    asked = request.read_request({"id": name, "cpu": 1, "tape": tape})
    outcome = ledger.reserve([Wanted(instance_of(asked, "", 0.0), 60.0, [Candidate("m1", -1, limits)])]).outcomes[0]
    kinds.append((outcome.kind, outcome.reasons))
view = LedgerView(ledger.all_instances().values())
placed = Residents(view, Roster(("m1",))).placed()
again = as_request(view.instances["a"], "m1")
print(json.dumps([kinds, [placed.amounts[-1].sum()], again.tape, read_params(Update, {"id": "a", "tape": 7}).tape]))
"""


def test_a_resource_more_is_summed_and_limited_by_its_name(wire, names, valkey):
    """It is asked for, reserved, limited and shown; scorers without it keep its sums when they write."""
    done = subprocess.run(
        [sys.executable, "-c", WITH_TAPE], input=json.dumps([valkey.url, names.prefix]), text=True,
        capture_output=True, env={**os.environ}, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    kinds, summed, again, update = json.loads(done.stdout)
    assert kinds == [["placed", []], ["placed", []], ["conflict", ["too much tape promised"]]]
    assert (summed, again, update) == ([4.0], 1.5, 7)
    ledger = Ledger(wire, names)  # knows no tape
    assert sums_in(wire.one("HGET", ledger.machines, "m1"))["prod", "tape"] == 4000
    ledger.confirm("a")
    ledger.release("b")
    assert sums_in(wire.one("HGET", ledger.machines, "m1"))["prod", "tape"] == 1500
    known = ledger.find("a")
    grown = Instance(id="a", machine="m1", state="confirmed", amounts=known.amounts, role="master")
    assert ledger.update([Change(known, grown, [Candidate("m1", -1)])]).outcomes[0].kind == "done"
    ledger.release("a")
    assert ledger.machine_versions() == {}
