"""Windows in, placements out: snapshot, filters, scores, profiles, ranking, the ledger and the RPC."""

from __future__ import annotations

import os

# A decision multiplies a vector with a few thousand columns: a second thread costs more than it brings, and takes the
# processor from the server that the answer goes through. Must be said before numpy is loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
