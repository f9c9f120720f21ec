"""The `windward` command: its table of commands, settings files, unknown settings."""
