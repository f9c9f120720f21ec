"""The drawings of docs/pictures, made from the product and from docs/results: ``python -m tests.pictures``."""
