"""The requests of a mixed load: 64 sizes, and what 5,000 clusters ask for beside them.

- plain 64: one of 64 sizes, nothing else;
- mixed: one of 64 sizes, and three in four requests belong to a cluster. Each of these carries, with a chance of one
  half each, the cluster and a role, a port, labels, a selector, a class.
"""

import random

from tests.bench.fleet_writer import DISKS, RACKS, ZONES

KINDS = ("plain 64", "mixed")
SIZES = tuple((0.05 * cpu, 1e8 * memory) for cpu in range(1, 9) for memory in range(1, 9))
ONE_SIZE = SIZES[27]
CLUSTERS = 5_000
CARRYING = 0.75
CLASSES = ("prod", "prod", "mid", "batch", "free")
SELECTORS = (
    *(f"disk={disk}" for disk in DISKS),
    *(f"zone=z{zone}" for zone in range(ZONES)),
    *(f"rack=r{rack}" for rack in range(RACKS)),
    *(f"disk={disk},zone=z{zone}" for disk in DISKS for zone in range(ZONES)),
)


class Requests:
    """Draws requests of one kind; the same seed draws the same."""

    def __init__(self, kind, seed):
        assert kind in KINDS, kind
        self._kind = kind
        self.dice = random.Random(seed)

    def size(self):
        cpu, memory = self.dice.choice(SIZES)
        return {"cpu": cpu, "memory": memory}

    def draw(self):
        request = self.size()
        if self._kind != "mixed" or self.dice.random() >= CARRYING:
            return request
        number, parts = self.dice.randrange(CLUSTERS), self.dice.getrandbits(5)
        if parts & 1:
            request["cluster"] = f"cluster-{number}"
            request["role"] = role = self.dice.choice(("master", "replica"))
            if role == "master":
                request["cluster_masters"] = 3 + number % 5
        if parts & 2:
            request["ports"] = [6379 + number % 200]
        if parts & 4:
            request["labels"] = {"app": f"app-{number}", "tier": f"tier-{number % 3}"}
        if parts & 8:
            request["selector"] = SELECTORS[number % len(SELECTORS)]
        if parts & 16:
            request["priority_class"] = CLASSES[number % len(CLASSES)]
        return request
