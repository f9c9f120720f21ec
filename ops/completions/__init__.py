"""Completions for shells, made from the commands' parsers; the wheels ship the files, not this package's code."""
