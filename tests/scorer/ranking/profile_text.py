"""A profile file without a mistake, which the tests of profiles read and damage."""

from __future__ import annotations

GOOD = """\
window = "longest-covered"
credits = "window"

[estimate]
factor = { cpu = 0.85 }

[[filters]]
use = "fresh"

[[filters]]
use = "usage_threshold"
thresholds = { cpu = 0.8 }
window = 300

[[scores]]
use = "global_variance"
weight = 3
normalise = "min-max"

[[scores]]
use = "load_variation_risk"
credits = "none"
"""
