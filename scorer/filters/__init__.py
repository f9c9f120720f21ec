"""Filters: which machines may take the newcomer. One a file, all of them in `FILTERS`."""

from __future__ import annotations

from typing import Any

from scorer.filters.fits import Fits
from scorer.filters.fresh import Fresh

FILTERS: tuple[type[Any], ...] = (
    Fresh,
    Fits,
)
