"""What crosses a process boundary: messages, tables, names, resources. Imports nothing of the other packages."""
