"""What is sent today has the shape of what was recorded, which `make test` reads.

The binary is named by WINDWARD_TEST_CONTROL_PLANE; `make test-kubernetes` builds it where it is not.
"""

from tests.kubernetes import test_trimaran
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.recorded import FOLDER, record, shape
from tests.kubernetes.test_trimaran import BINARY

pytestmark = test_trimaran.pytestmark


def test_what_is_sent_is_what_was_recorded(tmp_path):
    with Cluster(BINARY, tmp_path) as cluster:
        now = {name: shape(body) for name, body in record(cluster).items()}
    assert now == {path.name: shape(path.read_bytes()) for path in FOLDER.iterdir()}
