"""`python -m tests.grafana.pictures` where something that it needs is missing: a line says what, no traceback."""

import sys

import pytest

from tests.conftest import free_port
from tests.grafana.pictures.__main__ import main
from tests.grafana.prometheus import Prometheus


def without_matplotlib(monkeypatch):
    for name in [name for name in sys.modules if name.startswith(("matplotlib", "tests.grafana.pictures.drawing"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)


def with_machines(monkeypatch):
    monkeypatch.setattr(Prometheus, "variable", lambda self, query: ["sim-00001", "sim-00002"])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (without_matplotlib, "matplotlib is not installed; it comes with: pip install 'windward[plot]'"),
        (lambda _: None, "no Prometheus on http://127.0.0.1:"),
        (with_machines, "Prometheus has no machine 'sim-0001'; did you mean sim-00001"),
    ],
    ids=["matplotlib", "Prometheus", "machine"],
)
def test_what_is_missing_is_said(given, said, monkeypatch, tmp_path):
    given(monkeypatch)
    url = f"http://127.0.0.1:{free_port()}"
    monkeypatch.setattr(sys, "argv", ["pictures", "--prometheus", url, "--machine", "sim-0001", "--out", str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert said in str(ended.value)
    assert list(tmp_path.iterdir()) == []
