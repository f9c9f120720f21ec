"""Profiles: the filters and weighted scores that run together, read from files; built-in ones are TOML files here."""
