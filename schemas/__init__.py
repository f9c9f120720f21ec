"""The data that processes exchange: messages, tables, names, resources. Imports nothing of the other packages."""
