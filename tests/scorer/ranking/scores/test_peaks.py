"""The score `peaks` against Trimaran's own tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scorer.ranking.kernel.layout import LEAST_BEST_WHOLE
from scorer.ranking.scores.peaks import Peaks
from tests.scorer.fleets import by_name, cases, compared, fleet, machine, request, score_told, scores
from tests.scorer.metrics import usage


@pytest.mark.parametrize("row", cases("trimaran_peaks", "score"), ids=by_name)
def test_power_increase_as_trimaran(row: dict[str, Any]) -> None:
    """The increase of power equals the peer's whole number, up to the last bits of exp."""
    inputs = row["inputs"]
    capacity = inputs["machine"]["capacity"]
    cpu, memory = capacity["cpu_millicores"] / 1000, capacity["memory_bytes"]
    (model,) = inputs["power_models"].values()
    load = usage(inputs["metrics"], cpu=cpu, memory=memory)
    offline = fleet(machine(cpu=cpu, memory=memory, usage=load, operator={"power": model}))
    asked = request(cpu=inputs["request_cpu_millicores"] / 1000)
    found = score_told(offline, {"use": "peaks", "peer": True}, asked, credits="none")["m"]["power_increase"]
    assert found == pytest.approx(row["expected"]["score"], rel=1e-12)


@pytest.mark.parametrize("row", cases("trimaran_peaks", "normalize"), ids=by_name)
def test_power_increases_are_spread_as_trimaran(row: dict[str, Any]) -> None:
    """All zero stays zero; all equal scores 100."""
    raw = np.array(row["inputs"]["scores"], np.float64)
    assert compared(raw, LEAST_BEST_WHOLE).tolist() == row["expected"]["scores"]


def test_a_machine_without_a_power_model_does_not_win() -> None:
    """Unknown power scores 0 here; in the peer's way it counts as no increase and wins."""
    model = {"k0": 400.0, "k1": -90.0, "k2": -0.07}
    offline = fleet(
        machine("known", usage={"cpu": 2}, operator={"power": model}),
        machine("busy", usage={"cpu": 6}, operator={"power": model}),
        machine("unknown", usage={"cpu": 2}),
    )
    ours = scores(Peaks(), offline, request(cpu=1))
    assert ours["busy"] > ours["known"] >= ours["unknown"] == 0
    peer = scores(Peaks(peer=True), offline, request(cpu=1))
    assert peer["unknown"] == 100
