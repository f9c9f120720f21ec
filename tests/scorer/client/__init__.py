"""The Python client by itself."""
