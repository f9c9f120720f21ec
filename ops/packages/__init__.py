"""The distributions of this repository: how they are built, and the check that they work together.

| distribution | holds | for |
|---|---|---|
| `windward-client` | `windward_client`, made from `scorer/client` | programs that place instances |
| `windward-agent` | `streams.agent`, `schemas` | every machine |
| `windward` | all else; requires the two | the servers, and people at a terminal |
"""
