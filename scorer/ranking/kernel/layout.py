"""The structs of ``row.h``, ``making.h`` and ``evaluate.h`` as numpy types; their sizes are compared at load.

R resources, in the order of `schemas.resources`.
"""

import numpy as np

from schemas.resources import PRIORITY_CLASSES, RESOURCES
from scorer.ledger.view.slots import INSTANCE

R = len(RESOURCES)
DAYS = ("today", "yesterday")
STATISTICS = ("p50", "p90", "p95", "p99", "max")
PLANES = 5
POINTS_MAX = 32
"""The most points of a shape of `requested_to_capacity_ratio`."""
CODE = 256
"""A refusal is the filter's place in the profile, from 1, times this, plus its reason."""
SAID_MAX = 64
"""The maximum of numbers that a plugin returns for one machine."""
FOREIGN = -1
"""The number of a score of another package, whose values are there already."""
SCORES_MAX = 32
"""The most scores of a profile."""

_D = len(DAYS)


def struct(**fields: object) -> np.dtype[np.void]:
    """Return a C struct: each field a type, or a type and its shape."""
    return np.dtype([(name, *(of if isinstance(of, tuple) else (of,))) for name, of in fields.items()], align=True)


ROW = struct(
    allocatable=("f8", R), inverse=("f8", R), allocated=("f8", R), mean=("f8", R), utilization=("f8", R),
    deviation=("f8", R), peak=("f8", (_D, R)), seen_at="f8", interval_s="f8", coverage="f8", available="f8",
    maxmemory="f8", count="i8", number="i8", has_data="?", has_load="?", warming="?", cordon="?",
    own_ratio="?", own_thresholds="?", own_percentiles="?", own_prod="?", known=("?", R),
)  # fmt: skip
MORE = struct(
    capacity=("f8", R), measured=("f8", R), std=("f8", R), credit=("f8", R), remaining=("f8", R), estimated=("f8", R),
    limited=("f8", R), missing=("f8", R), measured_peak=("f8", (_D, R)), peak_sum=("f8", (_D, R)),
    statistics=("f8", (len(STATISTICS), R)), prod=("f8", R), system=("f8", R), ratio=("f8", R), thresholds=("f8", R),
    percentiles=("f8", R), prod_thresholds=("f8", R), power=("f8", 3), window_s="f8", has_report="i8",
)  # fmt: skip
BY_CLASS = struct(
    sums=("f8", (PLANES, len(PRIORITY_CLASSES), R)), ended_lower=("f8", R), reported=("f8", R), usage_peak=("f8", R),
    predicted=("f8", (2, R)),
)  # fmt: skip
QUERY = struct(
    amounts=("f8", R), expected=("f8", R), limits=("f8", R), deviation=("f8", R), fleet_mean=("f8", R),
    fleet_share=("f8", R), maxmemory="f8", now="f8", machine="i8", priority_class="i4", last_known="?",
    requests_alone="?", missing=("?", R), declared=("?", R),
)  # fmt: skip
ESTIMATE = struct(
    base="i4", learned="i4", groups="i8", factor=("f8", R), fallback=("f8", R), unit=("f8", R), parts=("f8", R),
    codes="u8", table="u8",
)  # fmt: skip
MAKING = struct(
    estimate=ESTIMATE, windows="i8", pairs="i8", windows_s="u8", mean="u8", filled="u8", statistics="u8", prod="u8",
    end="u8", step="u8", at="u8", position="u8", peak_at="u8", digests="u8", places="u8", systems="u8", used_at="u8",
    since="u8", recent="u8", usual="u8", day_start=("f8", _D), day_end=("f8", _D), credits="i4", debits="i4",
    by_reports="i4", requests_alone="i4", figures="i8",
)  # fmt: skip
LOAD = struct(sum=("f8", R), count=("f8", R))
USE = struct(
    rows="u8", more="u8", patched_rows="u8", patched_more="u8", query="u8", settings="u8", plugin="i8", code="i8",
    inner="i8", how="i8", weight="f8", slope="f8", start="f8", raw="u8", columns="u8", own="u8", width="i8",
)  # fmt: skip
PATCHES = struct(count="i8", index="u8")
MODEL = struct(
    making="u8", rows="u8", more="u8", patched_rows="u8", patched_more="u8", query="u8", queries="u8", load="u8",
)  # fmt: skip
STRUCTS = (ROW, MORE, BY_CLASS, INSTANCE, QUERY, MAKING, LOAD, USE, PATCHES, MODEL)
"""In the order in which the library tells their sizes."""

NONE = struct(none="i8")
"""Settings of a plugin that has none."""

PLAIN, OF_MEANS, SHARE, SHARE_WHOLE, SHARE_REVERSED, SHARE_REVERSED_WHOLE, LEAST_BEST, LEAST_BEST_WHOLE = range(8)
"""What a score's values are made of: of one machine; linear in the fleet's means, and cut to 0-100; or compared with
those of the other feasible machines."""
AS_IT_IS, MIN_MAX, GIVEN = range(3)
"""How a profile spreads a score's values."""
BASES = {"request": 0, "larger": 1, "limit-first": 2}
CREDITS = {"none": 0, "window": 1, "trimaran-60s": 2, "koordinator-pending": 3}
