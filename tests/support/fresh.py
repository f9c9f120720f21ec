"""When a test's fleet is ready: each of its machines is known, and by a recent sample.

``feasible`` does not tell it: while a stream app reads the history, all samples are old, and then a stale machine is
feasible too.
"""

RECENT_S = 60


def all_fresh(client, machines):
    """Whether so many simulated machines are known, each by a recent sample."""
    rows = client.machines()["machines"]
    ages = [row["age_s"] for row in rows if row["machine"].startswith("sim-")]
    return len(ages) == machines and all(age is not None and age < RECENT_S for age in ages)
