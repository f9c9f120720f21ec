"""What crosses a process boundary: messages, tables, names, settings. Imports nothing of the other packages."""
