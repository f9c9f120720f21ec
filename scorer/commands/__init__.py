"""The scorer's commands: one module each, with ``main(argv, environ) -> exit code``."""
