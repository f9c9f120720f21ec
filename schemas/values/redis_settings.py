"""Checks the settings of a Redis that endanger windows or the ledger, and says what to change. Pure.

They are read from INFO, which every user may call; CONFIG GET needs a right that a narrow ACL does not give.
"""

from collections.abc import Mapping
from typing import Any


def wrong_settings(info: Mapping[str, Any]) -> list[str]:
    """Return one sentence for each setting that endangers windows; ``info`` is the answer to INFO.

    Persistence is not needed: windows that Redis loses are written again by the workers that hold them.

    >>> wrong_settings({"maxmemory_policy": "volatile-lru", "maxmemory": 1000})
    ['maxmemory_policy is volatile-lru: eviction can take windows or the ledger; set it to noeviction']
    >>> wrong_settings({"maxmemory_policy": "noeviction", "maxmemory": 1000})
    []
    """
    policy = str(info.get("maxmemory_policy", "noeviction"))
    problems = []
    if policy != "noeviction":
        limit = "" if info.get("maxmemory") else " as soon as maxmemory is set"
        problems.append(
            f"maxmemory_policy is {policy}: eviction can take windows or the ledger{limit}; set it to noeviction"
        )
    return problems


def not_appended(info: Mapping[str, Any]) -> str:
    """Return the warning for a ledger's server without an append-only file; "" when it has one.

    >>> not_appended({"aof_enabled": 0}), not_appended({"aof_enabled": 1})
    ('the ledger is here and nothing is appended to a file', '')
    """
    if int(info.get("aof_enabled", 0)):
        return ""
    saves = " (snapshots alone lose the minutes since the last)" if info.get("rdb_last_save_time") else ""
    return f"the ledger is here and nothing is appended to a file{saves}"
