"""The documentation site: pages generated from the code, beside those of docs/. `make docs` builds it."""
