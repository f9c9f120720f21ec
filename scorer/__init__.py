"""Windows in, placements out: snapshot, filters, scores, profiles, ranking, the ledger and the RPC."""

import os

# What numpy computes here is small. A second thread costs more time than it saves, and takes the processor from the
# Redis server. Must be set before numpy is loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
