"""Scores: how good a place a machine is, 0 to 100. One a file, all of them in `SCORES`."""

from __future__ import annotations

from typing import Any

from scorer.scores.load_variation_risk import LoadVariationRisk

SCORES: tuple[type[Any], ...] = (LoadVariationRisk,)
