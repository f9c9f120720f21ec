"""The documentation site: pages written from the product itself, beside those of docs/. `make docs` builds it."""
